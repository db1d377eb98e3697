"""Writers of one table that wait for each other, in one process and in a known order: each stands for a process of its own.

A ticket without a writer keeps them back until all of them wait, so that the first of them meets the offers of the others.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.intent import Intent, Ticket, encode_ticket
from omnigraph.commit.intent_format import encode_offer
from omnigraph.commit.plan import BranchName, Owner, RequestInfo
from omnigraph.commit.queue.arming import Arming
from omnigraph.commit.queue.timing import ContentionTiming
from omnigraph.commit.txn import open_txn
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest.durable import Durability
from omnigraph.options import LoadOptions
from omnigraph.store import open_store
from omnigraph.testing.grouping import Ended
from omnigraph.testing.operations import rows_for
from omnigraph.wire.receipt import Receipt
from omnigraph.write.base.changes import TypeChange
from omnigraph.write.group import front
from omnigraph.write.group.offer import encode
from omnigraph.write.load import load

ARRIVAL_S = 60.0  # writing a ticket takes milliseconds; beyond it a write went another way
ELSEWHERE = Owner("another-host", "another-boot", 1, 1)


class Contended(ContentionTiming):
    """The timing of a process that has met other writers of its tables a moment ago, however long its calls take."""

    meets = True

    @property
    def contended(self) -> bool:
        return self.meets


def offering_engine(root: str) -> Engine:
    """An engine that queues, and offers what it waits with."""
    engine = Engine(open_store(root), offers=True, durability=Durability.COMMIT)
    engine.timing = Contended(engine.clock)
    engine.latest(MAIN)
    return engine


def branch_of(engine: Engine, branch: str = MAIN) -> BranchName:
    return BranchName(branch, engine.latest(branch).state.identity)


def block(engine: Engine, keys: Sequence[str], branch: str = MAIN) -> str:
    """A ticket for these tables, of an owner that is silent."""
    op = new_ulid(engine.clock)
    named = branch_of(engine, branch)
    engine.intents.arm(
        op, encode_ticket(Ticket(engine.graph_id, op, "load", named, tuple((key, "") for key in keys), ELSEWHERE))
    )
    return op


class Queue:
    """Writes that wait, in the order in which they were started."""

    def __init__(self, engine: Engine, blocker: str) -> None:
        self._engine = engine
        self._blocker = blocker
        self._threads: list[threading.Thread] = []
        self.ended: list[Ended[Any]] = []

    def start(self, call: Callable[[], Any]) -> Ended[Any]:
        """Begin the call, and return once its ticket is there or it has ended without one."""
        ended: Ended[Any] = Ended()
        self.ended.append(ended)
        before = len(self._engine.intents.names())

        def run() -> None:
            try:
                ended.value = call()
            except BaseException as error:  # noqa: BLE001 - the caller of the helper judges it
                ended.error = error
            ended.over = True

        thread = threading.Thread(target=run, name=f"waiter-{len(self._threads)}")
        self._threads.append(thread)
        thread.start()
        for _ in range(int(ARRIVAL_S / 0.002)):
            if ended.over or len(self._engine.intents.names()) > before:
                return ended
            thread.join(0.002)
        raise AssertionError("the write did not come to the queue")

    def offers(self) -> list[Intent]:
        found = [self._engine.intents.read(op) for op, _ in self._engine.intents.names() if op != self._blocker]
        return [one for one in found if one is not None and one.offer is not None]

    def go(self) -> list[Ended[Any]]:
        """Let the first of them go on, and wait until all have ended."""
        self._engine.intents.disarm(self._blocker)
        for thread in self._threads:
            thread.join()
        return self.ended


@contextlib.contextmanager
def queued(engine: Engine, keys: Sequence[str], branch: str = MAIN) -> Iterator[Queue]:
    """Within the block writes of these tables wait; at its end they go on, and all have ended."""
    queue = Queue(engine, block(engine, keys, branch))
    try:
        yield queue
    finally:
        queue.go()


def adding(
    engine: Engine, *names: str, type_name: str = "T1", mode: str = "merge", **options: Any
) -> Callable[[], Receipt]:
    records = [{"type": type_name, "data": {"name": name}} for name in names]
    return lambda: load(engine, records, LoadOptions(mode=mode, **options))


def leave_offer(
    engine: Engine,
    key: str,
    names: Sequence[str],
    *,
    commit_id: str | None = None,
    actor: str | None = "dead",
    idempotency_key: str | None = None,
    schema_id: str | None = None,
    mode: Any = "merge",
    owner: Owner = ELSEWHERE,
) -> tuple[str, str]:
    """The offer of a writer that is gone: (operation, commit id)."""
    txn = open_txn(engine, MAIN, deadline=Deadline(engine.clock, 60), meter=Meter())
    op, made = new_ulid(engine.clock), commit_id or new_ulid(engine.clock)
    change = TypeChange(txn.catalog.by_table_key(key), rows_for(txn, key, names), mode)
    body = encode([change], schema_id=schema_id or txn.state.schema.id, deadline_at_us=1)
    assert body is not None
    info = RequestInfo(made, "load", (), actor, idempotency_key, None, engine.clock.now_us())
    ticket = Ticket(engine.graph_id, op, "load", branch_of(engine), ((key, txn.pin(key).identity),), owner)
    engine.intents.arm(op, encode_offer(ticket, info, body))
    return op, made


def carry_out(engine: Engine, intents: Sequence[Intent], call: Callable[[], Any]) -> Any:
    """A write of this engine that has read these offers before, and does not queue now: as a writer ahead of them that was slow."""
    behind, meets = Arming._behind, front.meets_others
    setattr(Arming, "_behind", lambda self: intents)  # noqa: B010 - of writes that begin within this call
    setattr(front, "meets_others", lambda _: True)  # noqa: B010 - mypy refuses a plain assignment to a function
    assert isinstance(engine.timing, Contended)
    engine.timing.meets = False
    try:
        return call()
    finally:
        engine.timing.meets = True
        setattr(front, "meets_others", meets)  # noqa: B010
        setattr(Arming, "_behind", behind)  # noqa: B010
