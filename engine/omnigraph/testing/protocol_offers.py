"""The protocol's model with offers: writers whose requests other writers may carry out, refuse, or leave to be withdrawn.

Any writer may come to the front at any moment, also one whose offer others still hold: the queue decides nothing. What differs
from ``protocol_model`` in a state:

    manifest     its commits are (id, plan that published it), its aborts (id, plan that gave it up, or WITHDRAWN)
    intents      also (file, (OFFER, id, whether a writer has refused it)): a file that is not a plan
    base         (pins, ids that had ended by then as far as they matter, (id, whether the plan owns it) for each request)
    writer       ``reported`` is (OFFER, file, id) while its offer is open, and (UNKNOWN, id) after a time-out

The id of an offer is that of the plan that its owner would have made, and 100; its file has the same name. A plan that has only one
request has its id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations
from typing import Any

from omnigraph.commit.decide import Decision, End, Evidence, Line, Lineage
from omnigraph.commit.plan import PublishPlan, RequestInfo, plan_id
from omnigraph.commit.protocol.compensate import abort_change
from omnigraph.manifest.rows import AbortRow, CommitRow
from omnigraph.manifest.state import State
from omnigraph.testing.explorer import State as Node
from omnigraph.testing.protocol_model import Model
from omnigraph.testing.protocol_world import MEMBER, UNSENT, Rules, Setting, name_of

OFFER, UNKNOWN = "offer", "unknown"
WITHDRAWN = -1


def aborted_by(plan: PublishPlan, state: State, lineage: Lineage) -> tuple[str, ...]:
    """The ids that the engine's abort of a plan is recorded under."""
    return tuple(row.object_id for row in abort_change(plan, state, {}, None, 0, lineage.rows).history)


@dataclass(frozen=True)
class OfferRules(Rules):
    """The guards of offers. The defaults are the engine's."""

    looked_for: Callable[[PublishPlan], tuple[str, ...]] = lambda plan: (plan.id, *plan.members)  # in ``read_lineage``
    aborted_by: Callable[[PublishPlan, State, Lineage], Iterable[str]] = aborted_by
    whole_line: bool = True  # an offered id is looked for in all of the line before it is planned
    carried_keeps_id: bool = True  # a carried request that is planned again has the id that it was offered under
    owner_keeps_id: bool = True  # ... and so has an owner that comes to the front itself
    refusal_withdraws: bool = True  # the owner withdraws before it believes a refusal
    dead_withdraws: bool = True  # so does recovery before it deletes the offer of a dead owner
    answered_is_over: bool = True  # a request whose caller has been answered "unknown" is not planned again
    own_file: bool = True  # a plan is armed in a file that no other process deletes as that of its offer


@dataclass(frozen=True)
class OfferSetting(Setting):
    """``offers``: the writers that offer before they plan. ``answered``: those whose callers have been told "unknown" before all this
    begins; their offers are there, and only a front plans them. ``asks``: whether callers with that answer ask for the
    outcome. ``interrupts``: how many writes end before they are sent. ``recoveries``: -1 for any number."""

    offers: tuple[int, ...] = (1,)
    answered: tuple[int, ...] = ()
    asks: bool = False
    keyed: bool = False
    refusals: int = 0
    interrupts: int = 0
    rules: OfferRules = field(default_factory=OfferRules)


class Offers(Model):
    """A front, the writers behind it, and what becomes of their requests."""

    setting: OfferSetting
    rules: OfferRules

    def __init__(self, setting: OfferSetting) -> None:
        super().__init__(setting)
        self._planned = lru_cache(maxsize=None)(self._planned_of)

    @property
    def start(self) -> Node:
        s = super().start
        told = {number: number * 4 + MEMBER for number in self.setting.answered}
        files = tuple((self._file(one), (OFFER, one, False)) for one in sorted(told.values()))
        writers = tuple(
            ("done", 0, (), (), (), (), (UNKNOWN, told[number])) if number in told else writer
            for number, writer in enumerate(s[3])
        )
        return (*s[:2], files, writers, *s[4:7], (*s[7], self.setting.refusals, self.setting.interrupts), s[8])

    # --- values for the engine's functions ----------------------------------------------------------------------------------

    def _plan(self, pid: int, base: Node) -> PublishPlan:
        return self._planned(pid, base)

    def _planned_of(self, pid: int, base: Node) -> PublishPlan:
        plan = super()._plan(pid, base)
        requests = tuple(
            RequestInfo(str(one), "load", ("head",), None, self._key(one), None, 0, owned=owned)
            for one, owned in base[self.setting.tables + 1]
        )
        return replace(plan, id=plan_id(requests, str(pid)), requests=requests)

    def _key(self, one: int) -> str | None:
        return f"key{self._operation(one)}" if self.setting.keyed else None

    def _lineage(self, pid: int, manifest: Node, base: Node) -> Lineage:
        """What a look back to the base of a plan finds, and no more: what is older it may find as well, or not."""
        plan, (_, commits, aborts, _) = self._plan(pid, base), manifest
        since = base[self.setting.tables]
        ended = {one: _commit(one, by, commits) for one, by in commits} | {one: _abort(one, by) for one, by in aborts}
        wanted = self.rules.looked_for(plan)
        rows = {str(one): row for one, row in ended.items() if str(one) in wanted and one not in since}
        taken = {self._key(one): ended[one] for one, _ in commits if self.setting.keyed}
        keyed = {one.id: row for one in plan.requests if (row := taken.get(one.idempotency_key)) is not None}
        return Lineage(rows, {one: row for one, row in keyed.items() if isinstance(row, CommitRow)})

    def _swapped(
        self, s: Node, pids: Node, moved: tuple[tuple[int, int], ...], pid: int, ends: str, base: Node = ()
    ) -> Node:
        pins, commits, aborts, line = pids
        if ends == "commit":
            commits = tuple(sorted((*commits, *((int(one), pid) for one in self._plan(pid, base).members))))
        elif ends == "abort":
            lineage = self._lineage(pid, pids, base)
            ids = self.rules.aborted_by(self._plan(pid, base), self._state(pins), lineage)
            aborts = tuple(sorted((*aborts, *((int(one), pid) for one in ids))))
        return self._moved_on(s, (self._folded(pins, moved, pid, ""), commits, aborts, line))

    def _taken_of(self, manifest: Node, pid: int, base: Node, others: tuple[tuple[int, Node], ...]) -> tuple[int, ...]:
        pins, commits, aborts, _ = manifest
        state = self._state(pins)
        rows = (replace(_commit(one, by, commits), idempotency_key=self._key(one)) for one, by in commits)
        state = replace(state, tail=(*state.tail, *rows, *(_abort(one, by) for one, by in aborts)))
        applied = [self._applied_plan(state, other, of) for other, of in others]
        own = self._applied_plan(state, pid, base)
        found = self.rules.take_along(state, own.plan, own.change, applied)
        plans = {row.plan for row in found.history if isinstance(row, CommitRow)}
        return tuple(other for other, of in others if self._plan(other, of).id in plans)

    @staticmethod
    def _spent(s: Node, which: int) -> Node:
        left = tuple(value - (n == which and value > 0) for n, value in enumerate(s[7]))
        return (*s[:7], left, s[8])

    def _landed_elsewhere(self, pid: int, manifest: Node, base: Node) -> bool:
        return all(by != pid for _, by in manifest[1]) and self._end(pid, manifest, base) == "commit"

    def _leaves_record(self, s: Node, number: int) -> bool:
        return bool(s[3][number][6]) or self._plan(number * 4 + s[3][number][1], s[3][number][2]).needs_record

    # --- writers ------------------------------------------------------------------------------------------------------------

    def _writer(self, s: Node, number: int) -> Iterator[tuple[str, Node]]:
        at, attempt, base, results, _, _, said = s[3][number]
        pid = number * 4 + attempt
        match at:
            case "open" if not said and number in self.setting.offers:
                one = pid + MEMBER
                waits = self._become(s, number, "wait", said=(OFFER, self._file(one), one))
                yield f"{name_of(pid)} offers", self._with_file(waits, self._file(one), (OFFER, one, False))
            case "open":
                yield from self._begin(s, number)
            case "wait":
                yield from self._wait(s, number)
            case "arm":
                yield from self._arm(s, number)
            case "plan":
                yield f"{name_of(pid)} arms", self._with_file(self._become(s, number, "apply"), pid, base)
            case "withdraw":
                yield from self._withdraw(s, number)
            case "clear":
                gone = self._without_file(s, said[1], pid)
                yield f"{name_of(pid)} deletes its offer", self._answered(gone, number, base)
            case "acknowledge":
                told = [self._file(one) for one, owned in base[self.setting.tables + 1] if not owned]
                gone = self._without_file(s, pid, *said[1:2] if said else (), *told)
                yield f"{name_of(pid)} acknowledges", self._answered(gone, number, "ok")
            case "end":
                gone = self._without_file(s, pid, *said[1:2] if said else ())
                if attempt + 1 < self.setting.attempts:
                    again = ("open", attempt + 1, (), (), (), (), said)
                    yield f"{name_of(pid)} plans again", self._with_writer(gone, number, again)
                elif said:
                    yield f"{name_of(pid)} has no more time", self._become(gone, number, "withdraw", base="failed")
                else:
                    yield f"{name_of(pid)} reports a conflict", self._answered(gone, number, "failed")
            case "done":
                if said and said[0] == UNKNOWN and self.setting.asks:
                    yield from self._ask(s, number, said[1])
            case _:
                yield from super()._writer(s, number)
                if at == "apply" and said and s[7][4] and set(results) == {UNSENT}:
                    stopped = self._become(s, number, "withdraw", base="failed")
                    yield f"{name_of(pid)} is interrupted before it sends anything", self._spent(stopped, 4)
                if at == "publish" and s[7][4]:
                    own = next(one for one, owned in base[self.setting.tables + 1] if owned)
                    yield f"{name_of(pid)} has no more time", self._spent(self._told_unknown(s, number, own), 4)

    def _begin(self, s: Node, number: int) -> Iterator[tuple[str, Node]]:
        """Take a state to plan on. An offer that was made before is looked for in all of its line."""
        _, attempt, _, _, _, _, said = s[3][number]
        who = name_of(number * 4 + attempt)
        ids, given_up = _ids(s[0][1]), _ids(s[0][2])
        if said and said[2] in ids:
            yield f"{who} finds itself carried out", self._become(s, number, "clear", base="ok")
            return
        if said and (said[2] in given_up or not self.rules.owner_keeps_id):
            s, said = self._without_file(s, said[1]), 0
        base = (*s[0][0], tuple(sorted((*ids, *given_up))), ())
        blank = (UNSENT,) * self.setting.tables
        yield f"{who} opens at {s[0][0]}", self._become(s, number, "arm", base=base, results=blank, said=said)

    def _arm(self, s: Node, number: int) -> Iterator[tuple[str, Node]]:
        """Read the offers that others have made by now, and plan with any of them. One may be refused where the state is the newest."""
        _, attempt, base, _, _, _, said = s[3][number]
        pid, tables = number * 4 + attempt, self.setting.tables
        who, ended = name_of(pid), base[tables]
        own = said[2] if said else pid
        there = [(file, kind[1]) for file, kind in s[2] if kind[0] == OFFER and not kind[2]]
        there = [
            (file, one)
            for file, one in there
            if one % MEMBER >> 2 != number
            and set(self._writes(one % MEMBER)) <= set(self._writes(pid))
            and not (self.rules.whole_line and one in ended)
            and not (self.setting.keyed and self._operation(one) == self._operation(own))
        ]
        for some in (some for width in range(len(there) + 1) for some in combinations(there, width)):
            renamed = 0 if self.rules.carried_keeps_id or not attempt else MEMBER * attempt
            requests = ((own, True), *((one + renamed, False) for _, one in some))
            wanted = {pid, *(one for one, _ in requests)}
            planned = (*base[:tables], tuple(one for one in ended if one in wanted), requests)
            with_others = "".join(f" and carries {name_of(one)}" for _, one in some)
            made = self._become(s, number, "plan" if some else "apply", base=planned)
            yield f"{who} plans{with_others}", made if some else self._with_file(made, pid, planned)
        newest = base[:tables] == s[0][0] and ended == tuple(sorted((*_ids(s[0][1]), *_ids(s[0][2]))))
        if s[7][3] and newest:
            for file, one in there:
                refused = self._with_file(s, file, (OFFER, one, True))
                yield f"{who} refuses {name_of(one)}", self._spent(refused, 3)

    def _wait(self, s: Node, number: int) -> Iterator[tuple[str, Node]]:
        """The owner of an offer: it comes to the front, its file has gone or was refused, its time is up, or its caller interrupts it."""
        _, attempt, _, _, _, _, said = s[3][number]
        _, file, one = said
        who = name_of(number * 4 + attempt)
        kind = dict(s[2]).get(file)
        yield from self._begin(s, number)
        if kind is None and one in _ids(s[0][1]):
            yield f"{who} finds itself carried out", self._answered(s, number, "ok")
        elif kind is None:
            yield f"{who} misses its file", self._become(s, number, "withdraw", base="again")
        elif kind[2] and self.rules.refusal_withdraws:
            yield f"{who} reads that it was refused", self._become(s, number, "withdraw", base="failed")
        elif kind[2]:
            yield f"{who} believes that it was refused", self._answered(self._without_file(s, file), number, "failed")
        if s[7][4]:
            spent = self._spent(s, 4)
            yield f"{who} is interrupted", self._become(spent, number, "withdraw", base="failed")
            if self.rules.answered_is_over or attempt + 1 >= self.setting.attempts:
                yield f"{who} has no more time", self._told_unknown(spent, number, one)
            else:
                again = ("open", attempt + 1, (), (), (), (), 0)
                yield f"{who} has no more time, and is planned again", self._with_writer(spent, number, again)

    def _withdraw(self, s: Node, number: int) -> Iterator[tuple[str, Node]]:
        """One swap, made for the newest state: an abort under the id, unless that has a record."""
        _, attempt, *_, said = s[3][number]
        who = name_of(number * 4 + attempt)
        if said[2] in _ids(s[0][1]):
            yield f"{who} withdraws, and finds itself carried out", self._become(s, number, "clear", base="ok")
            return
        if said[2] in _ids(s[0][2]):
            yield f"{who} is withdrawn already", self._become(s, number, "clear")
            return
        after = self._withdrawn(s, said[2])
        yield f"{who} withdraws", self._become(self._moved_on(s, after), number, "clear")
        if s[7][0]:
            yield f"{who} withdraws: no answer", self._spent(self._fly(s, ("swap", after)), 0)

    def _ask(self, s: Node, number: int, one: int) -> Iterator[tuple[str, Node]]:
        """The caller asks what became of its request. *Absent* says that it cannot land any more, so it may be repeated."""
        who = name_of(one)
        pending = any(
            kind[1] == one if kind[0] == OFFER else one in _ids(kind[self.setting.tables + 1]) for _, kind in s[2]
        )
        if one in _ids(s[0][1]):
            yield f"{who} learns: landed", self._answered(s, number, "ok")
        elif one in _ids(s[0][2]):
            yield f"{who} learns: aborted", self._answered(s, number, "failed")
        elif not pending:
            yield f"{who} learns: absent", self._answered(s, number, "failed")

    # --- recovery -----------------------------------------------------------------------------------------------------------

    def _recoverer(self, s: Node, number: int) -> Iterator[tuple[str, Node]]:
        at, pid, base, held, touched, restored = s[4][number]
        if not base or base[0] != OFFER:
            for label, after in super()._recoverer(s, number):
                yield label if label.startswith("recovery") else f"recovery: {label}", after
            return
        who = f"recovery of the offer {name_of(pid)}"
        one, now = base[1], (pid, base, (), touched, restored)
        match at:
            case "read":
                end = End.PUBLISHED if one in _ids(held[1][1]) else End.ABORTED if one in _ids(held[1][2]) else End.OPEN
                decision = self.rules.decide(Evidence(Line.OPEN, offered=True, end=end, owner_gone=True))
                following = {Decision.FINISH: "clear", Decision.WITHDRAW: "withdraw"}[decision]
                yield f"{who}: {decision.value}", self._with_recoverer(s, number, (following, *now))
            case "withdraw":
                cleared = self._with_recoverer(s, number, ("clear", *now))
                if not self.rules.dead_withdraws or one in _ids(s[0][1]) or one in _ids(s[0][2]):
                    yield f"{who}: nothing to write", cleared
                else:
                    yield f"{who} withdraws it", self._moved_on(cleared, self._withdrawn(s, one))
            case "clear":
                gone = self._with_recoverer(self._without_file(s, pid), number, ("idle", -1, (), (), (), ()))
                yield f"{who}: the file is gone", gone

    def _give_way(self, s: Node, t: int, other: int, pid: int, nothing: Node, put: Any) -> Iterator[tuple[str, Node]]:
        yield from super()._give_way(s, t, other, pid, nothing, put)
        base = next(one[1] for one in s[2] if one[0] == other)
        if self._end(other, s[0], base) in ("commit", "abort"):
            yield f"{name_of(pid)}: {name_of(other)} has ended", put(s, "look", ())

    # --- parts of a state ---------------------------------------------------------------------------------------------------

    def _become(self, s: Node, number: int, at: str, **changes: Any) -> Node:
        _, attempt, base, results, held, restored, said = s[3][number]
        values = {"base": base, "results": results, "held": held, "restored": restored, "said": said} | changes
        if at in ("wait", "withdraw", "clear"):
            values |= {"results": (), "held": (), "restored": ()}
        return self._with_writer(s, number, (at, attempt, *values.values()))

    def _answered(self, s: Node, number: int, answer: str) -> Node:
        attempt = s[3][number][1]
        if answer == "again" and attempt + 1 < self.setting.attempts:
            return self._with_writer(s, number, ("open", attempt + 1, (), (), (), (), 0))
        told = "failed" if answer == "again" else answer
        return self._with_writer(s, number, ("done", attempt, (), (), (), (), told))

    def _file(self, one: int) -> int:
        """The file that makes this offer. Without the guard it is the one in which the plan of its owner is armed."""
        return one if self.rules.own_file else one % MEMBER

    def _told_unknown(self, s: Node, number: int, one: int) -> Node:
        return self._with_writer(s, number, ("done", s[3][number][1], (), (), (), (), (UNKNOWN, one)))

    def _withdrawn(self, s: Node, one: int) -> Node:
        pins, commits, aborts, line = s[0]
        return (pins, commits, tuple(sorted((*aborts, (one, WITHDRAWN)))), line)

    @staticmethod
    def _with_file(s: Node, pid: int, kind: Node) -> Node:
        others = (one for one in s[2] if one[0] != pid)
        return (*s[:2], tuple(sorted((*others, (pid, kind)), key=lambda one: int(one[0]))), *s[3:])

    @staticmethod
    def _without_file(s: Node, *pids: int) -> Node:
        return (*s[:2], tuple(one for one in s[2] if one[0] not in pids), *s[3:])

    # --- properties -----------------------------------------------------------------------------------------------------------

    def check(self, s: Node) -> str | None:
        pins, commits, aborts, _ = s[0]
        ids, given_up = _ids(commits), _ids(aborts)
        operations = [self._operation(one) for one in ids]
        if len(set(operations)) != len(operations):
            return f"double apply: {[name_of(one) for one in ids]}"
        if set(ids) & set(given_up) or len(set(given_up)) != len(given_up):
            return f"an id ended twice: {[name_of(one) for one in (*ids, *given_up)]}"
        for one, by in aborts:
            if by != WITHDRAWN and one % MEMBER >> 2 != by >> 2:
                return f"{name_of(by)} has given up {name_of(one)}, which it only carried"
        plans = sorted({by for _, by in commits})
        for t, pin in enumerate(pins):
            shown, wanted = s[1][t][pin][2], tuple(pid for pid in plans if t in self._writes(pid))
            if shown != wanted:
                return f"T{t} shows {[name_of(pid) for pid in shown]}, not {[name_of(pid) for pid in wanted]}"
        for number, writer in enumerate(s[3]):
            landed = any(one % MEMBER >> 2 == number for one in ids)
            if writer[6] == "ok" and not landed and self._operation(number * 4) not in operations:
                return f"lost commit: {'ABCDEF'[number]} was acknowledged"
            if writer[6] == "failed" and landed:
                return f"false failure: {'ABCDEF'[number]} has heard that it is not there, and it is"
        for pid, kind in s[8]:
            if kind == ("stopped",):
                return f"false alarm: the records of {name_of(pid)} are taken for damaged"
            if kind == "audit back" and pid in plans:
                return f"audit lie: {name_of(pid)} is audited as rolled back and is published"
            if kind == "audit forward" and pid not in plans and not any(one % MEMBER >> 2 == pid >> 2 for one in ids):
                return f"audit lie: {name_of(pid)} is audited as rolled forward and is not published"
        if any(recoverer[0] == "stopped" for recoverer in s[4]):
            return "false alarm: a recovery takes durable state for damaged"
        return None


def _ids(records: Iterable[tuple[int, Any]]) -> tuple[int, ...]:
    return tuple(one for one, _ in records)


def _commit(one: int, by: int, commits: Node) -> CommitRow:
    alone = sum(other == by for _, other in commits) == 1
    return CommitRow(str(one), str(one if alone else by), (), None, 0, None, 2, "load", version=2 + by)


def _abort(one: int, by: int) -> AbortRow:
    return AbortRow(str(one), str(one if by == WITHDRAWN else by), None, 1, 0)
