"""One group under way: its requests admitted, judged and committed by one plan, and each caller told its own end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from omnigraph.commit.engine import Engine
from omnigraph.commit.offering import Offering
from omnigraph.commit.plan import PublishPlan
from omnigraph.commit.pressure import Level
from omnigraph.commit.protocol.admission import early_answer, pressure_on, warned
from omnigraph.commit.protocol.run import run
from omnigraph.commit.request import CarriedOut, Outcome, PrepareAgain, Prepared, Request
from omnigraph.commit.txn import Txn, still_newest
from omnigraph.core.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    OmnigraphError,
    OutcomeUnknown,
    Overloaded,
)
from omnigraph.core.meter import Meter
from omnigraph.write.base.changes import TypeChange
from omnigraph.write.group.carrying import Carrying
from omnigraph.write.group.joint import Candidate, union_of
from omnigraph.write.group.judging import Judgement, Lowered, judge, lower_together
from omnigraph.write.group.member import Answer, Call, Member, Stage, own_copy
from omnigraph.write.group.queue import GroupQueue
from omnigraph.write.rules.validate import validate

DEADLINE_MIN_S = 0.001


class Group:
    def __init__(
        self,
        engine: Engine,
        queue: GroupQueue,
        members: Sequence[Member],
        meter: Meter,
        offering: Offering | None = None,
    ) -> None:
        """``offering``: how it meets writers of other processes, where it does."""
        self._engine = engine
        self._queue = queue
        self._members = members
        self._meter = meter
        self._planned: tuple[Member, ...] = ()
        self._offering = offering
        self._carrying = None if offering is None else Carrying(engine, offering, meter)

    def run(self) -> None:
        """Commit the group. Every member has its answer afterwards, or waits for the next group."""
        try:
            self._tell(run(self._engine, self._request(), self.prepare, self._meter))
        except BaseException as error:  # noqa: BLE001 - each caller raises it
            self._fail(error)
        finally:
            self._queue.pass_on()

    def run_alone(self) -> Outcome | None:
        """Commit a group of one, on its caller's thread, and return how it ended. None: it cannot share a plan, so write it alone."""
        [member] = self._members
        try:
            self._tell(run(self._engine, self._request(), self.prepare, self._meter))
        except CarriedOut as done:
            return done.outcome
        except OutcomeUnknown as error:
            if member.stage is not Stage.ARMED or error.facts.get("operation_id") != member.op:
                raise
            # A plan is named by its last commit, which may be one that it carried.
            raise member.unknown(error.message) from error
        call = self._queue.take_call(member)
        return None if call is Call.ALONE else member.result()

    def _request(self) -> Request:
        first = self._members[0].request
        return Request(
            kind=first.kind,
            branch=first.branch,
            keys=frozenset[str]().union(*(member.request.keys for member in self._members)),
            # The plan's own time, not that of its first member: a member whose time is up leaves by itself.
            deadline_s=max(DEADLINE_MIN_S, *(member.deadline.left() for member in self._members)),
            several=True,
            offering=self._offering,
        )

    # --- preparing ----------------------------------------------------------------------------------------------------

    def prepare(self, txn: Txn) -> Prepared | None:
        """Admit and judge those that are still to be answered, in this state."""
        self._planned = ()
        if self._carrying is not None:
            self._carrying.plan(())
        answers: dict[Member, Answer] = {}
        judgement, lowered = self._judged(txn, self._candidates(txn, answers))
        answers.update(judgement.refused)
        for member, unchanged in lowered.unchanged.items():
            member.author.left_alone(unchanged)
        answers.update((member, Outcome(None)) for member in lowered.idle if not self._carries(member))
        self._confirm(txn, answers)
        self._queue.put_back(judgement.waiting)
        if not lowered.steps:
            return None
        self._planned = lowered.members
        if self._carrying is not None:
            self._carrying.plan(lowered.members)
        written = {step.key for step in lowered.steps}
        changes = [change for one in judgement.taken for change in one.changes.values()]
        # Rows that are there already are not written, yet edges lean on them: their tables were read.
        idle = frozenset(change.table_key for change in changes) - written
        return Prepared(
            lowered.steps,
            judgement.reads | idle,
            revalidate=lambda other: self._still_fits(txn, other, judgement.taken, idle),
            requests=tuple(member.request for member in lowered.members),
            sealed=self._seal,
        )

    def _judged(self, txn: Txn, own: Sequence[Candidate]) -> tuple[Judgement, Lowered]:
        """What stands together, with the requests that others have offered where that costs none of ours its place."""
        guests = [] if self._carrying is None or not own else self._carrying.guests(txn, own)
        if guests and self._carrying is not None:
            judgement = judge([*own, *guests], txn)
            lowered = lower_together(txn, judgement.taken)
            mine = {member: error for member, error in judgement.refused.items() if not self._carries(member)}
            waiting = tuple(member for member in judgement.waiting if not self._carries(member))
            # A plan answers at least one request of its own.
            if not waiting and any(not self._carries(member) for member in lowered.members):
                self._carrying.refuse(txn, judgement.refused)
                self._carrying.leave(txn, lowered.idle)
                return replace(judgement, refused=mine, waiting=waiting), lowered
        judgement = judge(own, txn)
        return judgement, lower_together(txn, judgement.taken)

    def _carries(self, member: Member) -> bool:
        return self._carrying is not None and self._carrying.has(member)

    def _candidates(self, txn: Txn, answers: dict[Member, Answer]) -> list[Candidate]:
        """The rows of each member that may be written. ``answers`` takes why another may not."""
        found = []
        pause_s = 0.0
        for member in self._queue.live(self._members):
            try:
                known = early_answer(self._engine, member.request, txn)
                if known is not None:
                    self._queue.answer(member, known)
                    continue
                pause_s = max(pause_s, self._weighed(txn, member))
                if self._inherits(txn, member):
                    self._queue.send_alone(member)
                    continue
                changes = member.author.changes(txn)
            except (InvalidInput, Conflict, NotFound, Overloaded) as error:
                answers[member] = error  # of this request alone; what the store says concerns all of them
                continue
            found.append(Candidate(member, {change.table_key: change for change in changes if change.rows.num_rows}))
        if pause_s:
            self._engine.clock.sleep(pause_s)
            raise PrepareAgain
        return found

    def _weighed(self, txn: Txn, member: Member) -> float:
        """How long back-pressure delays it, once. Raises where it refuses it."""
        if member.pressure is not None:
            return 0.0
        member.pressure = pressure_on(self._engine, member.request, txn)
        if member.pressure.level is Level.FAIL:
            raise member.pressure.refusal()
        if member.pressure.level is not Level.SLOW:
            return 0.0
        return min(member.pressure.pause_s, max(0.0, member.deadline.left() / 2))

    def _inherits(self, txn: Txn, member: Member) -> bool:
        """Whether it writes a table that the branch has to fork first: the fork is alone in its plan."""
        pins = (txn.state.tables.get(key) for key in member.request.keys)
        return any(pin is not None and pin.owner != txn.state.identity for pin in pins)

    def _confirm(self, txn: Txn, answers: dict[Member, Answer]) -> None:
        """Give answers that no swap stands behind: the state that they rest on has to be the newest."""
        if not answers:
            return
        if not still_newest(txn):
            raise PrepareAgain
        if any(isinstance(answer, Outcome) for answer in answers.values()):
            self._engine.durable.acknowledge(txn.state.version, txn.held)
        for member, answer in answers.items():
            if isinstance(answer, Outcome) and member.pressure is not None and member.pressure.level is Level.WARN:
                answer = warned(answer, member.pressure)
            self._queue.answer(member, answer)

    def _still_fits(self, txn: Txn, other: Txn, taken: Sequence[Candidate], idle: frozenset[str]) -> bool:
        """Only tables that were read have moved: do the checks pass on them as they are now?"""
        if any(txn.pin(key).triple != other.pin(key).triple for key in idle):
            return False
        return validate(_union(taken), other.catalog, other, limits=self._engine.limits).ok

    def _seal(self, plan: PublishPlan) -> bool:
        """The last moment at which a caller may leave with nothing written. False: one has left, so plan again."""
        with self._queue.lock:
            if any(member.stage is not Stage.TAKEN for member in self._planned):
                return False
            for member, info in zip(self._planned, plan.requests, strict=True):
                member.arm(info.id, plan.op)
            return True

    # --- the end --------------------------------------------------------------------------------------------------------

    def _tell(self, outcome: Outcome) -> None:
        shared = len(outcome.rows) > 1 or len(self._members) > 1
        cost = replace(self._meter.snapshot(), exact=False, shared_by=max(1, len(outcome.rows))) if shared else None
        for member, row in zip(self._planned, outcome.rows, strict=True):
            own = replace(outcome, row=row, cost=cost)
            if member.pressure is not None and member.pressure.level is not Level.NONE:
                own = warned(own, member.pressure)
            self._queue.answer(member, own)

    def _fail(self, error: BaseException) -> None:
        """The plan is lost to a reason that concerns all of it. Each member's own id says what may still land."""
        unknown = isinstance(error, OutcomeUnknown) or not isinstance(error, Exception)
        for member in self._members:
            if unknown and member.stage is Stage.ARMED:
                why = error.message if isinstance(error, OmnigraphError) else type(error).__name__
                self._queue.answer(member, member.unknown(why))
            elif member.stage in (Stage.TAKEN, Stage.ARMED):
                self._queue.answer(member, own_copy(error))


def _union(taken: Sequence[Candidate]) -> list[TypeChange]:
    return [union.change for union in union_of(taken).values()]
