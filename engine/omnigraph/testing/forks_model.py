"""Writers that fork one table of a branch, beside a cleanup of forks that nothing names and a recovery: every interleaving, over the
engine's own decisions.

The branch has inherited the table at version 1 of its parent's line. A plan on that pin makes a fork of its own and commits there; a
plan on a fork that was published commits to it. A version that is committed to a fork which was deleted makes its folder again,
without the files below. A process may stop for ever after any step.

State: (manifest, forks, intents, writers, cleaner, recoverer)
    manifest   (version, pin, mark, commits, aborts); pin is (ref, version), the ref empty on the parent's line
    fork       (ref, whether files of it are gone, versions from 1 on, each (id that made it, content))
    intent     (id, pin and mark that it was made on)
    writer     (at, attempt, pin, mark)
    cleaner    (at, forks that were listed, what claims and states name, what the looks before doom)
    recoverer  (at, id, pin and mark of its plan, how often it may begin)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from omnigraph.commit import decide as decisions
from omnigraph.commit.decide import Check, Decision, Evidence, Lineage, TableEvidence
from omnigraph.commit.effects import BasePin, Effect, Target
from omnigraph.commit.plan import Base, BranchName, Owner, PublishPlan, RequestInfo
from omnigraph.manifest.rows import AbortRow, CommitRow, HistoryRow, Pin, SchemaRow
from omnigraph.manifest.state import State, genesis
from omnigraph.testing.explorer import State as Node
from omnigraph.upkeep import garbage
from omnigraph.upkeep.garbage import Artefacts, Line

_KEY, _TABLE, _PATH = "node:T", "t", "nodes/T"
_OWNER = Owner("host", "boot", 1, 1)
_SCHEMA = SchemaRow("", "", "hash", "id")
_PARENT = ("", 1)
_MADE_ANEW = "made anew"  # versions below one that was committed where a fork had been

ForkPin = tuple[str, int]


@dataclass(frozen=True)
class Rules:
    """The guards. The defaults are the engine's. ``reclaims``: a plan whose fork is there already deletes it and makes it again."""

    check_publish: Callable[..., decisions.PublishCheck] = decisions.check_publish
    decide: Callable[..., Decision] = decisions.decide
    lines_named: Callable[[Iterable[State]], frozenset[Line]] = garbage.lines_named
    lines_claimed: Callable[[Iterable[Any]], frozenset[Line]] = garbage.lines_claimed
    unclaimed: Callable[..., tuple[Line, ...]] = garbage.unclaimed
    fork_ref: Callable[[str], str] = lambda pid: f"f-{pid}"
    reclaims: bool = False
    arms_first: bool = True  # a plan is armed before its fork is made
    marked: bool = True  # a cleanup publishes its mark before it looks
    claims_first: bool = True
    looks: int = 2


@dataclass(frozen=True)
class Scope:
    """``attempts``: of each writer. ``recoveries``: how many times a stranger looks after an intent."""

    attempts: tuple[int, ...] = (2, 2)
    cleanups: int = 1
    recoveries: int = 0
    rules: Rules = field(default_factory=Rules)


class Model:
    """``start``, ``steps`` and ``check`` for the explorer."""

    def __init__(self, scope: Scope) -> None:
        self.scope, self.rules = scope, scope.rules
        self._plan = lru_cache(maxsize=None)(self._plan_of)
        self._verdict = lru_cache(maxsize=None)(self._verdict_of)
        self._decision = lru_cache(maxsize=None)(self._decision_of)
        self._claims = lru_cache(maxsize=None)(self._claims_of)
        self._named = lru_cache(maxsize=None)(self._named_by)
        self._garbage = lru_cache(maxsize=None)(self._garbage_of)

    @property
    def start(self) -> Node:
        writers = (("open", 0, (), 0),) * len(self.scope.attempts)
        cleaner = ("mark" if self.scope.cleanups else "done", (), (), ())
        recoverer = ("idle", "", (), 0, self.scope.recoveries)
        return ((1, _PARENT, 0, (), ()), (), (), writers, cleaner, recoverer)

    def steps(self, s: Node) -> Iterator[tuple[str, Node]]:
        for number in range(len(s[3])):
            yield from self._act(s, number)
        yield from self._clean(s)
        yield from self._recover(s)

    # --- the engine's functions, on values made for them ------------------------------------------------------------------

    def _plan_of(self, pid: str, pin: ForkPin, mark: int) -> PublishPlan:
        base = BasePin(_PATH, pin[0] or None, pin[1])
        own = self._line(pid, pin)
        row = Effect("append", _KEY, _TABLE, base, Target(_PATH, own, pin[1] + 1, pid))
        fork = Effect("fork", _KEY, _TABLE, base, Target(_PATH, own, pin[1], f"{pid} fork"))
        request = RequestInfo(pid, "load", ("head",), None, None, None, 0)
        return PublishPlan(
            "graph", f"op{pid}", pid, "load", BranchName("feature", "branch"), Base(1, "head", 0, str(mark), "id"),
            (row,) if pin[0] else (fork, row), (), (request,), _OWNER,
        )  # fmt: skip

    def _line(self, pid: str, pin: ForkPin) -> str:
        return pin[0] or self.rules.fork_ref(pid)

    @staticmethod
    def _state(pin: ForkPin, mark: int) -> State:
        owner = "branch" if pin[0] else "graph"
        pins = [Pin(_KEY, _TABLE, 1, "", _PATH, pin[0] or None, pin[1], owner=owner)]
        made = genesis(identity="branch", commit_id="head", actor=None, created_at_us=0, schema=_SCHEMA, pins=pins)
        return replace(made, head=replace(made.head, mark=str(mark)))

    def _verdict_of(self, now: ForkPin, now_mark: int, ended: str, pid: str, pin: ForkPin, mark: int) -> Check:
        return self.rules.check_publish(
            self._state(now, now_mark), self._plan(pid, pin, mark), _lineage(pid, ended)
        ).check

    def _decision_of(
        self, pid: str, pin: ForkPin, mark: int, now: ForkPin, ended: str, head: int | None, exact: bool
    ) -> Decision:
        seen = TableEvidence(_KEY, now[1] if head else None, head, exact=exact, landed=exact)
        end = decisions.how_ended(self._plan(pid, pin, mark), _lineage(pid, ended))
        return self.rules.decide(Evidence(decisions.Line.OPEN, end=end, owner_gone=True, tables={_KEY: seen}))

    def _claims_of(self, intents: Node) -> frozenset[Line]:
        return self.rules.lines_claimed([SimpleNamespace(plan=self._plan(*intent)) for intent in intents])

    def _named_by(self, pin: ForkPin) -> frozenset[Line]:
        return self.rules.lines_named([self._state(pin, 0)])

    def _garbage_of(self, listed: tuple[str, ...], known: tuple[Line, ...]) -> tuple[str, ...]:
        artefacts = Artefacts(frozenset([_PATH]), frozenset((_PATH, ref) for ref in listed))
        gone = self.rules.unclaimed(artefacts, frozenset([(_PATH, None), *known]))
        return tuple(ref for _, ref in gone if ref is not None)

    # --- lines ------------------------------------------------------------------------------------------------------------

    @staticmethod
    def _fork(s: Node, ref: str) -> Node | None:
        return next((one for one in s[1] if one[0] == ref), None)

    @staticmethod
    def _with_fork(s: Node, made: Node) -> Node:
        others = (one for one in s[1] if one[0] != made[0])
        return (s[0], tuple(sorted((*others, made))), *s[2:])

    @staticmethod
    def _without(s: Node, refs: Collection[str]) -> Node:
        return (s[0], tuple(one for one in s[1] if one[0] not in refs), *s[2:])

    def _content(self, s: Node, pin: ForkPin) -> Node | None:
        """None: it cannot be read."""
        if not pin[0]:
            return ()
        there = self._fork(s, pin[0])
        return None if there is None or there[1] or len(there[2]) < pin[1] else tuple(there[2][pin[1] - 1][1])

    def _committed(self, s: Node, pid: str, pin: ForkPin) -> Node:
        ref = self._line(pid, pin)
        there = self._fork(s, ref) or (ref, True, ((_MADE_ANEW, ()),) * pin[1])
        versions = (*there[2], (pid, (*there[2][-1][1], pid)))
        return self._with_fork(s, (ref, there[1], versions))

    def _exact(self, s: Node, pid: str, pin: ForkPin) -> bool:
        """Whether the version of the plan stands at its place."""
        there = self._fork(s, self._line(pid, pin))
        return there is not None and len(there[2]) > pin[1] and there[2][pin[1]][0] == pid

    # --- writers ----------------------------------------------------------------------------------------------------------

    def _act(self, s: Node, number: int) -> Iterator[tuple[str, Node]]:
        at, attempt, pin, mark = s[3][number]
        pid = f"W{number}.{attempt}"

        def become(state: Node, at_: str, *rest: Any) -> Node:
            writer = (at_, *(rest or (attempt, pin, mark)))
            return (*state[:3], (*state[3][:number], writer, *state[3][number + 1 :]), *state[4:])

        match at:
            case "open":
                then = "arm" if self.rules.arms_first else "fork"
                yield f"{pid} opens at {s[0][1]}", become(s, then, attempt, s[0][1], s[0][2])
            case "arm":
                intents = tuple(sorted((*s[2], (pid, pin, mark))))
                armed = (*s[:2], intents, *s[3:])
                yield f"{pid} arms", become(armed, "fork" if self.rules.arms_first else "swap")
            case "fork":
                yield self._forks(s, pid, pin, become)
            case "commit":
                after = self._committed(s, pid, pin)
                then = "swap" if self._exact(after, pid, pin) else "give up"
                yield f"{pid} commits", become(after, then if self.rules.arms_first or then == "give up" else "arm")
            case "swap":
                what, after, published = self._try(s, pid, pin, mark)
                yield f"{pid} publishes: {what}", become(after, "disarm" if published else "give up")
            case "give up":
                yield f"{pid} gives up", become(self._given_up(s, pid, pin, mark, record=False), "disarm")
            case "disarm":
                left = (*s[:2], tuple(one for one in s[2] if one[0] != pid), *s[3:])
                again = pid not in s[0][3] and attempt + 1 < self.scope.attempts[number]
                rest = (attempt + 1, (), 0) if again else (attempt, (), 0)
                yield f"{pid} ends", become(left, "open" if again else "done", *rest)

    def _forks(self, s: Node, pid: str, pin: ForkPin, become: Callable[..., Node]) -> tuple[str, Node]:
        ref = self._line(pid, pin)
        if pin[0]:
            return f"{pid} writes to {ref}", become(s, "commit")
        if self._fork(s, ref) is None or (self.rules.reclaims and s[0][1][0] != ref):
            return f"{pid} makes {ref}", become(self._with_fork(s, (ref, False, (("fork", ()),))), "commit")
        return f"{pid}: {ref} is there", become(s, "give up")

    def _try(self, s: Node, pid: str, pin: ForkPin, mark: int) -> tuple[str, Node, bool]:
        """One publish of what was found at its place before. Returns what came of it, and whether the plan is published."""
        version, now, now_mark, commits, aborts = s[0]
        verdict = self._verdict(now, now_mark, _ended(s[0], pid), pid, pin, mark)
        if verdict is not Check.GO:
            return verdict.value, s, verdict is Check.PUBLISHED
        landed = (self._line(pid, pin), pin[1] + 1)
        return "done", ((version + 1, landed, now_mark, (*commits, pid), aborts), *s[1:]), True

    def _given_up(self, s: Node, pid: str, pin: ForkPin, mark: int, *, record: bool) -> Node:
        """The end of a plan that is not published. Of a line that the branch owns its pin is put back; a fork is left."""
        version, now, now_mark, commits, aborts = s[0]
        plan = self._plan(pid, pin, mark)
        if _ended(s[0], pid) or (now != pin and not (record or plan.needs_record)):
            return s
        there = self._fork(s, pin[0]) if now == pin and pin[0] else None
        if there is not None and len(there[2]) > pin[1]:
            s = self._with_fork(s, (*there[:2], (*there[2], ("R", there[2][pin[1] - 1][1]))))
            now = (pin[0], len(there[2]) + 1)
        return ((version + 1, now, now_mark, commits, (*aborts, pid)), *s[1:])

    # --- a cleanup --------------------------------------------------------------------------------------------------------

    def _clean(self, s: Node) -> Iterator[tuple[str, Node]]:
        at, *_, doomed = s[4]
        looks = [f"look {number + 1}" for number in range(self.rules.looks)]

        def become(state: Node, *cleaner: Any) -> Node:
            return (*state[:4], cleaner, *state[5:])

        if at == "mark":
            version, pin, mark, *rest = s[0]
            marked = ((version + 1, pin, mark + 1, *rest), *s[1:]) if self.rules.marked else s
            yield "a cleanup begins", become(marked, looks[0], (), (), ())
        elif at == "delete":
            yield f"the cleanup deletes {doomed}", become(self._without(s, doomed), "done", (), (), ())
        elif at != "done":
            yield self._looks_on(s, at, looks, become)

    def _looks_on(self, s: Node, at: str, looks: list[str], become: Callable[..., Node]) -> tuple[str, Node]:
        """A look lists forks, then what intents claim, then what states name."""
        _, listed, known, doomed = s[4]
        look, _, step = at.partition(": ")
        first, second = ("claims", "states") if self.rules.claims_first else ("states", "claims")
        if not step:
            return f"{look} lists forks", become(s, f"{look}: {first}", tuple(one[0] for one in s[1]), (), doomed)
        found = self._claims(s[2]) if step == "claims" else self._named(s[0][1])
        known = tuple(sorted({*known, *found}, key=str))
        if step == first:
            return f"{look} reads {step}", become(s, f"{look}: {second}", listed, known, doomed)
        gone = self._garbage(listed, known)
        both = gone if look == looks[0] else tuple(ref for ref in doomed if ref in gone)
        following = "delete" if look == looks[-1] else looks[looks.index(look) + 1]
        return f"{look} reads {step}: {both} are garbage", become(s, following, (), (), both)

    # --- recovery ---------------------------------------------------------------------------------------------------------

    def _recover(self, s: Node) -> Iterator[tuple[str, Node]]:
        at, pid, pin, mark, left = s[5]
        idle = ("idle", "", (), 0, left)
        if at == "idle":
            for intent in s[2] if left else ():
                yield f"recovery reads {intent[0]}", (*s[:5], ("judge", *intent, left - 1))
        elif at == "judge":
            now = s[0][1]
            there = self._fork(s, pin[0]) if pin[0] and now[0] == pin[0] else None
            head = None if there is None else len(there[2])
            exact = now == pin and self._exact(s, pid, pin)
            decision = self._decision(pid, pin, mark, now, _ended(s[0], pid), head, exact)
            acts = decision in (Decision.ROLL_FORWARD, Decision.ROLL_BACK)
            yield f"recovery of {pid}: {decision.value}", (*s[:5], (decision.value, *s[5][1:]) if acts else idle)
        else:
            after, published = s, False
            if at == Decision.ROLL_FORWARD.value:
                _, after, published = self._try(s, pid, pin, mark)
            if not published:
                after = self._given_up(after, pid, pin, mark, record=True)
            rest = (*after[:2], tuple(one for one in after[2] if one[0] != pid), *after[3:5])
            yield f"recovery ends {pid}{', published' if published else ''}", (*rest, idle)

    # --- properties -------------------------------------------------------------------------------------------------------

    def check(self, s: Node) -> str | None:
        """What must hold in every reachable state."""
        _, pin, _, commits, aborts = s[0]
        if len({one.split(".")[0] for one in commits}) != len(commits):
            return f"double apply: {commits}"
        if set(commits) & set(aborts):
            return f"a plan ended twice: {set(commits) & set(aborts)}"
        shown = self._content(s, pin)
        if shown is None:
            return f"broken graph: {pin} is pinned and cannot be read"
        return (
            None if sorted(shown) == sorted(commits) else f"wrong rows: {pin} shows {shown}, the commits say {commits}"
        )


def _ended(manifest: Node, pid: str) -> str:
    return "commit" if pid in manifest[3] else "abort" if pid in manifest[4] else ""


def _lineage(pid: str, ended: str) -> Lineage:
    row: HistoryRow | None = None
    if ended == "commit":
        row = CommitRow(pid, pid, (), None, 0, None, 2, "load")
    elif ended:
        row = AbortRow(pid, pid, None, 1, 0)
    return Lineage({} if row is None else {pid: row})
