"""One request on its way through a group, and what its caller waits for.

Every field that changes is guarded by the lock of the queue. A member is answered once. One whose caller has gone is never
planned again: it has been told that nothing was written, or that only ``outcome`` knows.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.pressure import Pressure
from omnigraph.commit.request import Outcome, Prepared, Request
from omnigraph.commit.txn import Txn
from omnigraph.core.errors import OmnigraphError, OutcomeUnknown
from omnigraph.core.meter import Meter
from omnigraph.wire.receipt import TableChange
from omnigraph.write.base.changes import TypeChange


class Author(Protocol):
    """What the write behind a request comes to, in any state."""

    def prepare(self, txn: Txn) -> Prepared | None:
        """Judge it by itself, and say what is to be done."""
        ...

    def changes(self, txn: Txn) -> tuple[TypeChange, ...]:
        """Its rows, completed from the state, not judged yet. Raises what is wrong with it whatever the rules say."""
        ...

    def offered(self, txn: Txn) -> tuple[TypeChange, ...] | None:
        """Its rows under the schema of this state, with nothing looked up in it, for another process to carry out. None where they
        are not to be had that way."""
        ...

    def left_alone(self, unchanged: Mapping[str, TableChange]) -> None:
        """These tables were named and stay as they are."""
        ...


class Stage(Enum):
    WAITING = "waiting"
    TAKEN = "taken"  # a group prepares it; nothing of it is durable
    ARMED = "armed"  # a plan that answers it may be durable
    OVER = "over"  # answered, or its caller has gone


class Call(Enum):
    """What a member is woken for."""

    LEAD = "lead"  # prepare and commit what waits
    ALONE = "alone"  # it cannot share a plan: write it by itself
    ANSWER = "answer"


Answer = Outcome | BaseException


class Member:
    def __init__(self, request: Request, author: Author, nbytes: int, deadline: Deadline, meter: Meter) -> None:
        self.request = request
        self.author = author
        self.nbytes = nbytes
        self.deadline = deadline
        self.meter = meter
        self.stage = Stage.WAITING
        self.call: Call | None = None
        self.woken = threading.Event()
        self.pressure: Pressure | None = None
        self.commit_id = ""
        self.op = ""
        self._answer: Answer | None = None

    # --- with the lock of the queue held ------------------------------------------------------------------------------

    def arm(self, commit_id: str, op: str) -> None:
        self.stage, self.commit_id, self.op = Stage.ARMED, commit_id, op

    def wake(self, call: Call) -> None:
        self.call = call
        self.woken.set()

    def give(self, answer: Answer) -> None:
        """Answer it, unless its caller has gone."""
        if self.stage is not Stage.OVER:
            self.stage, self._answer = Stage.OVER, answer
            self.wake(Call.ANSWER)

    # --- on the caller's thread ---------------------------------------------------------------------------------------

    def result(self) -> Outcome:
        if isinstance(self._answer, BaseException):
            raise self._answer
        assert self._answer is not None
        return self._answer

    def unknown(self, why: str) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"write {self.commit_id} has no known outcome: {why}",
            hint=f"ask with `omnigraph commit outcome {self.commit_id}`; do not repeat the write blindly",
            commit_id=self.commit_id,
            operation_id=self.op,
        )


def own_copy(error: BaseException) -> BaseException:
    """The error for one of several callers: each raises one of its own, with its own traceback."""
    if not isinstance(error, OmnigraphError):
        return error
    mine = copy.copy(error)
    mine.__cause__ = error
    return mine
