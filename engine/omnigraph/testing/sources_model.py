"""Merges and undo beside loads, the deletion of the source branch, cleanups and recoveries: every interleaving, over the engine's
own decisions.

One table. ``p`` is main's line of it, ``f`` the line of a branch, of which main may adopt version 1; a write onto a line that main
does not own makes a line of its own. A load L adds its row, a merge M adopts (f, 1), an undo U takes back the newest commit: by a
Restore where the version before lies on the same line, by rows on a fork where not. A process may stop for ever after any step.

State: (manifest, p, f, intents, boundaries, closed, actors, cleaner, recoverer)
    manifest     (version, pin, commits, aborts); pin is (line, version), a commit (id, manifest version, pin before, pin, content)
    p            by version number: (id that made it, content, version whose files it has), None where it was deleted
    f            whether (f, 1) is there
    intent       (id, pin it was made on, commit that an undo takes back)
    boundaries   of main's line and of the branch's
    actor        (at, attempt, pin, commit to undo, whether its sources were gone when it asked)
    cleaner, recoverer: (at, what claims keep, what states keep, doomed), (at, id, whether sources were gone, how often it may begin)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from omnigraph.commit import decide as decisions
from omnigraph.commit.decide import Check, Decision, Evidence, Lineage, TableEvidence
from omnigraph.commit.effects import BasePin, Effect, Target
from omnigraph.commit.plan import Base, BranchName, Owner, PublishPlan, RequestInfo, Source, SourceTable
from omnigraph.manifest.rows import AbortRow, CommitRow, HistoryRow, Pin, SchemaRow
from omnigraph.manifest.state import State, genesis
from omnigraph.table.version_list import VersionFile
from omnigraph.testing.explorer import State as Node
from omnigraph.upkeep import cleanup_plan, cleanup_roots
from omnigraph.upkeep.cleanup_plan import Line, LinePlan, Range
from omnigraph.wire.cleanup import Policy

MAIN_LINE, BRANCH_LINE = "p", "f"
LOAD, MERGE, UNDO = "L", "M", "U"
_KEY, _TABLE, _PATH = "node:T", "t", "nodes/T"
_REFS: Mapping[str, str | None] = {MAIN_LINE: None, BRANCH_LINE: "f-branch"}
_OWNER = Owner("host", "boot", 1, 1)
_SCHEMA = SchemaRow("", "", "hash", "id")
_ALL = Policy(keep=1, older_than_s=0, min_age_s=0)
_START = (MAIN_LINE, 1)
_IDLE = ("idle", "", False)

LinePin = tuple[str, int]


@dataclass(frozen=True)
class Rules:
    """The guards. The defaults are the engine's. ``points_back``: an undo publishes the old pin itself."""

    check_publish: Callable[..., decisions.PublishCheck] = decisions.check_publish
    check_recovered: Callable[..., decisions.PublishCheck] = decisions.check_publish
    decide: Callable[..., Decision] = decisions.decide
    swap_stands: Callable[[int, int], bool] = decisions.swap_stands
    needs_record: Callable[[PublishPlan], bool] = lambda plan: plan.needs_record
    kept_ranges: Callable[..., Mapping[Any, list[Range]]] = cleanup_roots.kept_ranges
    spare: Callable[..., Mapping[Any, LinePlan]] = cleanup_plan.spare
    records: bool = True  # a plan that is given up on the pin that it was made for ends by a record
    claims_first: bool = True
    bounded: bool = True
    points_back: bool = False


@dataclass(frozen=True)
class Scope:
    """``actors``: of loads, merges and undos, each with the number of its attempts. ``cleans``: the line that a cleanup is about."""

    actors: tuple[tuple[str, int], ...] = ((MERGE, 1),)
    cleans: str | None = BRANCH_LINE
    recoveries: int = 1
    rules: Rules = field(default_factory=Rules)


class Model:
    """``start``, ``steps`` and ``check`` for the explorer."""

    def __init__(self, scope: Scope) -> None:
        self.scope, self.rules = scope, scope.rules
        self._verdict = lru_cache(maxsize=None)(self._verdict_of)
        self._doomed = lru_cache(maxsize=None)(self._doomed_of)

    @property
    def start(self) -> Node:
        actors = (("open", 0, (), (), False),) * len(self.scope.actors)
        manifest = (1, _START, (), ())
        cleaner = (self._order[0] if self.scope.cleans else "idle", (), (), ())
        return manifest, (("", (), 1),), True, (), (0, 0), False, actors, cleaner, (*_IDLE, self.scope.recoveries)

    def steps(self, s: Node) -> Iterator[tuple[str, Node]]:
        for number in range(len(s[6])):
            yield from self._act(s, number)
        if not s[5]:
            yield "the branch is deleted", (*s[:5], True, *s[6:])
        yield from self._clean(s)
        yield from self._recover(s)

    # --- the engine's functions, on values made for them ------------------------------------------------------------------

    def _plan(self, pid: str, pin: LinePin, undone: Node) -> PublishPlan:
        base = BasePin(_PATH, _ref(pin[0]), pin[1])
        kind = {LOAD: "load", MERGE: "merge", UNDO: "revert"}[pid[0]]
        sources: tuple[Source, ...] = ()
        effects: tuple[Effect, ...]
        if pid[0] == MERGE:
            adopted = Pin(_KEY, _TABLE, 1, "", _PATH, _REFS[BRANCH_LINE], 1, owner="branch")
            effects = (Effect("adopt", _KEY, _TABLE, base, None, adopted),)
            sources = (Source("branch", "g-branch", 1, "S", (SourceTable(_PATH, _REFS[BRANCH_LINE], 1),)),)
        elif pid[0] == UNDO and undone[2][0] == pin[0] == MAIN_LINE:
            effects = (Effect("restore", _KEY, _TABLE, base, Target(_PATH, None, pin[1] + 1, pid)),)
            sources = (Source("graph", None, undone[1] - 1, "S", (SourceTable(_PATH, None, undone[2][1]),)),)
        elif pin[0] == MAIN_LINE:
            effects = (Effect("append", _KEY, _TABLE, base, Target(_PATH, None, pin[1] + 1, pid)),)
        else:
            own = f"f-{pid}"
            effects = (
                Effect("fork", _KEY, _TABLE, base, Target(_PATH, own, pin[1], f"{pid} fork")),
                Effect("rows", _KEY, _TABLE, base, Target(_PATH, own, pin[1] + 1, pid)),
            )
        request = RequestInfo(pid, kind, ("head",), None, None, None, 0)
        return PublishPlan(
            "graph", f"op{pid}", pid, kind, BranchName("main", "graph"), Base(1, "head", 0, None, "id"), effects, (),
            (request,), _OWNER, sources=sources,
        )  # fmt: skip

    @staticmethod
    def _state(pin: LinePin) -> State:
        owner = "branch" if pin[0] == BRANCH_LINE else "graph"
        pins = [Pin(_KEY, _TABLE, 1, "", _PATH, _ref(pin[0]), pin[1], owner=owner)]
        return genesis(identity="graph", commit_id="head", actor=None, created_at_us=0, schema=_SCHEMA, pins=pins)

    def _verdict_of(
        self, now: LinePin, ended: str, pid: str, made_on: LinePin, undone: Node, gone: bool, own: bool
    ) -> Check:
        check = self.rules.check_publish if own else self.rules.check_recovered
        plan = self._plan(pid, made_on, undone)
        return check(self._state(now), plan, _lineage(pid, ended), sources_gone=gone).check

    def _gone(self, s: Node, pid: str, pin: LinePin, undone: Node) -> bool:
        """What a look at the boundaries of the sources says."""
        plan = self._plan(pid, pin, undone)
        reached = {"graph": s[4][0], "branch": s[4][1]}
        return any(not self.rules.swap_stands(one.manifest_version, reached[one.identity]) for one in plan.sources)

    def _doomed_of(self, place: str, there: tuple[int, ...], kept: tuple[tuple[int, int], ...]) -> LinePlan:
        files = tuple(VersionFile(number, 1, 0) for number in there)
        ranges = tuple(Range(low, high, "") for low, high in kept)
        # A number above all: the newest of a line is never doomed, unless the whole line goes.
        top = (VersionFile(99, 1, 0),) if place == BRANCH_LINE else ()
        return cleanup_plan.doom(Line(_KEY, _PATH, _ref(place), (*files, *top), ranges), _ALL, 1)

    # --- writers ------------------------------------------------------------------------------------------------------------

    def _act(self, s: Node, number: int) -> Iterator[tuple[str, Node]]:
        kind, attempts = self.scope.actors[number]
        at, attempt, pin, undone, gone = s[6][number]
        pid = f"{kind}{number}.{attempt}"

        def become(state: Node, at_: str, **changes: Any) -> Node:
            values = {"attempt": attempt, "pin": pin, "undone": undone, "gone": gone} | changes
            actors = (*state[6][:number], (at_, *values.values()), *state[6][number + 1 :])
            return (*state[:6], actors, *state[7:])

        match at:
            case "open":
                yield from self._open(s, kind, pid, become)
            case "arm":
                intents = tuple(sorted((*s[3], (pid, pin, undone))))
                yield f"{pid} arms", become((*s[:3], intents, *s[4:]), "apply")
            case "apply":
                yield f"{pid} applies", become(self._landed(s, pid, pin, undone), "ask")
            case "ask":
                yield f"{pid} reads boundaries", become(s, "swap", gone=self._gone(s, pid, pin, undone))
            case "swap":
                ended = self._try(s, pid, pin, undone, gone, own=True)
                yield f"{pid} publishes: {ended[0]}", become(ended[1], "disarm" if ended[2] else "give up")
            case "give up":
                yield f"{pid} gives up", become(self._given_up(s, pid, pin, undone, record=False), "disarm")
            case "disarm":
                left = (*s[:3], tuple(one for one in s[3] if one[0] != pid), *s[4:])
                done = any(one[0] == pid for one in s[0][2])
                again = not done and attempt + 1 < attempts
                values: dict[str, Any] = {"pin": (), "undone": (), "gone": False}
                for kept in (left, s):  # its intent may stay: a delete that failed
                    after = become(kept, "open" if again else "done", attempt=attempt + again, **values)
                    yield f"{pid} ends{'' if kept is left else ', and its intent stays'}", after

    def _open(self, s: Node, kind: str, pid: str, become: Any) -> Iterator[tuple[str, Node]]:
        pin, commits = s[0][1], s[0][2]
        if kind == LOAD or (kind == MERGE and s[2] and pin == _START):
            yield f"{pid} opens at {pin}", become(s, "arm", pin=pin)
        elif kind == UNDO and commits and commits[-1][3] == pin:
            if commits[-1][2][0] != MAIN_LINE or self._file(s, commits[-1][2][1]) is not None:
                yield f"{pid} opens at {pin}, to undo {commits[-1][0]}", become(s, "arm", pin=pin, undone=commits[-1])

    @staticmethod
    def _file(s: Node, version: int) -> Node | None:
        found: Node | None = s[1][version - 1] if version <= len(s[1]) else None
        return found

    def _landed(self, s: Node, pid: str, pin: LinePin, undone: Node) -> Node:
        """What the effects of a plan leave on main's line."""
        elsewhere = pid[0] == UNDO and (undone[2][0] != MAIN_LINE or self.rules.points_back)
        if pid[0] == MERGE or pin[0] != MAIN_LINE or elsewhere:
            return s
        head = next(one for one in reversed(s[1]) if one is not None)
        if pid[0] == UNDO:
            old = self._file(s, undone[2][1])
            made = (pid, ("gone",), -1) if old is None else (pid, old[1], undone[2][1])
        else:
            made = (pid, (*head[1], pid[0]), len(s[1]) + 1)
        return (s[0], (*s[1], made), *s[2:])

    def _exact(self, s: Node, pid: str, pin: LinePin, undone: Node) -> bool:
        """Whether all effects stand at their places."""
        plan = self._plan(pid, pin, undone)
        if not plan.landing or pin[0] != MAIN_LINE or (pid[0] == UNDO and self.rules.points_back):
            return True
        there = self._file(s, pin[1] + 1)
        return there is not None and there[0] == pid

    def _content(self, s: Node, pin: LinePin) -> Node:
        if pin[0] == MAIN_LINE:
            there = self._file(s, pin[1])
            return ("gone",) if there is None else there[1]
        if pin[0] == BRANCH_LINE:
            return (MERGE,) if s[2] else ("gone",)
        return tuple(next(one[4] for one in s[0][2] if one[3] == pin))

    def _try(self, s: Node, pid: str, pin: LinePin, undone: Node, gone: bool, *, own: bool) -> tuple[str, Node, bool]:
        """One publish. Returns what came of it, and whether the plan is published."""
        version, now, commits, aborts = s[0]
        if not self._exact(s, pid, pin, undone):
            return "off its place", s, False
        ended = _ended(s[0], pid)
        verdict = self._verdict(now, ended, pid, pin, undone, gone, own)
        if verdict is not Check.GO:
            return verdict.value, s, verdict is Check.PUBLISHED
        before = commits[-1][4] if commits else ()
        wanted = {LOAD: (*before, LOAD), MERGE: (MERGE,), UNDO: ()}[pid[0]]
        if pid[0] == UNDO:
            older = commits[: next(at for at, one in enumerate(commits) if one[0] == undone[0])]
            wanted = older[-1][4] if older else ()
        row = (pid, version + 1, now, self._target(pid, pin, undone), wanted)
        return "done", ((version + 1, row[3], (*commits, row), aborts), *s[1:]), True

    def _target(self, pid: str, pin: LinePin, undone: Node) -> LinePin:
        if pid[0] == MERGE:
            return (BRANCH_LINE, 1)
        if pid[0] == UNDO and self.rules.points_back:
            return (undone[2][0], undone[2][1])
        landing = self._plan(pid, pin, undone).landing[0]
        return (MAIN_LINE if landing.ref is None else f"h {pid}", landing.version)

    def _given_up(self, s: Node, pid: str, pin: LinePin, undone: Node, *, record: bool) -> Node:
        """The end of a plan that is not published: by a record, unless its pin has moved and it needs none."""
        version, now, commits, aborts = s[0]
        plan = self._plan(pid, pin, undone)
        if _ended(s[0], pid) or (now != pin and not (record or self.rules.needs_record(plan))):
            return s
        there = self._file(s, pin[1] + 1) if now == pin and pin[0] == MAIN_LINE else None
        line = s[1]
        if there is None and not self.rules.records:
            return s
        if there is not None and there[0] == pid:  # what it has landed is undone by a Restore of the pin
            line = (*line, ("R", self._content(s, pin), pin[1]))
            now = (MAIN_LINE, len(line))
        return ((version + 1, now, commits, (*aborts, pid)), line, *s[2:])

    # --- a cleanup ----------------------------------------------------------------------------------------------------------

    @property
    def _order(self) -> tuple[str, str]:
        return ("claims", "states") if self.rules.claims_first else ("states", "claims")

    def _clean(self, s: Node) -> Iterator[tuple[str, Node]]:
        at, claims, kept, doomed = s[7]
        first, second = self._order
        following = {first: second, second: "raise", f"{first} again": f"{second} again", f"{second} again": "delete"}

        def become(state: Node, at_: str, *rest: Any) -> Node:
            return (*state[:7], (at_, *rest), *state[8:])

        match at.split(" ")[0]:
            case "claims":
                yield f"the cleanup reads {at}", become(s, following[at], self._claims(s), kept, doomed)
            case "states":
                yield f"the cleanup reads {at}", become(s, following[at], claims, self._roots(s), doomed)
            case "raise":
                plan = self._plan_of(s, claims, kept)
                raised = (s[0][0] - 1, s[4][1]) if self.scope.cleans == MAIN_LINE else (s[4][0], 1)
                raised = raised if plan.doomed and self.rules.bounded else s[4]
                after = (*s[:4], raised, *s[5:])
                yield f"the cleanup dooms {plan.doomed}", become(after, f"{first} again", (), (), plan.doomed)
            case "delete":
                before = LinePlan(_KEY, _PATH, _ref(str(self.scope.cleans)), doomed, 0, 0, 0)
                both = self.rules.spare({before.place: before}, [self._plan_of(s, claims, kept)])
                gone = next(iter(both.values())).doomed if both else ()
                yield f"the cleanup deletes {gone}", become(self._deleted(s, gone), "idle", (), (), ())

    def _claims(self, s: Node) -> Node:
        """What intents keep of the line, as the engine says it."""
        intents = [SimpleNamespace(plan=self._plan(*intent), kind="merge", op=intent[0]) for intent in s[3]]
        place = (_PATH, _ref(str(self.scope.cleans)))
        found = [(one.low, one.high) for one in self.rules.kept_ranges([], intents, {}, []).get(place, ())]
        bases = [(pin[1], pin[1]) for _, pin, _ in s[3] if pin[0] == self.scope.cleans]
        return tuple(sorted({*found, *bases}))

    def _roots(self, s: Node) -> Node:
        """What the states of the branches keep of it."""
        pin = s[0][1]
        if self.scope.cleans == MAIN_LINE:
            return ((pin[1], 99),) if pin[0] == MAIN_LINE else ()
        return ((1, 1),) if not s[5] or pin[0] == BRANCH_LINE else ()

    def _plan_of(self, s: Node, claims: Node, kept: Node) -> LinePlan:
        place = str(self.scope.cleans)
        there = tuple(n + 1 for n, one in enumerate(s[1]) if one) if place == MAIN_LINE else (1,) if s[2] else ()
        return self._doomed(place, there, tuple(sorted({*claims, *kept})))

    def _deleted(self, s: Node, gone: Node) -> Node:
        if self.scope.cleans == BRANCH_LINE:
            return (*s[:2], s[2] and not gone, *s[3:])
        pinned = s[0][1][1] if s[0][1][0] == MAIN_LINE else 0
        line = []
        for number, one in enumerate(s[1], 1):
            # A version without a pin shares the files of the one that it restores, and they go with that one.
            lost = one is not None and one[2] in gone and number not in gone and number != pinned
            line.append(None if number in gone else (one[0], ("gone",), one[2]) if lost else one)
        return (s[0], tuple(line), *s[2:])

    # --- recovery -----------------------------------------------------------------------------------------------------------

    def _recover(self, s: Node) -> Iterator[tuple[str, Node]]:
        at, pid, gone, left = s[8]

        def become(state: Node, *rest: Any) -> Node:
            return (*state[:8], rest)

        if at == "idle":
            for intent in s[3] if left else ():
                yield f"recovery reads {intent[0]}", become(s, "ask", intent[0], False, left - 1)
            return
        intent = next((one for one in s[3] if one[0] == pid), None)
        if intent is None:
            yield f"recovery: {pid} is over", become(s, *_IDLE, left)
        elif at == "ask":
            yield f"recovery of {pid} reads boundaries", become(s, "act", pid, self._gone(s, *intent), left)
        else:
            decision = self._decision(s, *intent)
            after, published = s, False
            if decision is Decision.ROLL_FORWARD:
                _, after, published = self._try(s, pid, intent[1], intent[2], gone, own=False)
            if not published and decision in (Decision.ROLL_FORWARD, Decision.ROLL_BACK):
                after = self._given_up(after, *intent, record=True)
            rest = (*after[:3], tuple(one for one in after[3] if one[0] != pid), *after[4:])
            yield f"recovery of {pid}: {decision.value}{', published' if published else ''}", become(rest, *_IDLE, left)

    def _decision(self, s: Node, pid: str, pin: LinePin, undone: Node) -> Decision:
        plan, now = self._plan(pid, pin, undone), s[0][1]
        exact = self._exact(s, pid, pin, undone) and now == pin
        head = len(s[1]) if now[0] == pin[0] == MAIN_LINE else None
        seen = TableEvidence(_KEY, now[1] if head else None, head, exact=exact, landed=exact)
        end = decisions.how_ended(plan, _lineage(pid, _ended(s[0], pid)))
        return self.rules.decide(Evidence(decisions.Line.OPEN, end=end, owner_gone=True, tables={_KEY: seen}))

    # --- properties -----------------------------------------------------------------------------------------------------------

    def check(self, s: Node) -> str | None:
        """What must hold in every reachable state."""
        _, pin, commits, aborts = s[0]
        ids = [one[0] for one in commits]
        if len({one.split(".")[0] for one in ids}) != len(ids):
            return f"double apply: {ids}"
        if set(ids) & set(aborts):
            return f"a plan ended twice: {set(ids) & set(aborts)}"
        shown, wanted = self._content(s, pin), commits[-1][4] if commits else ()
        if "gone" in shown:
            return f"broken graph: {pin} is pinned and its files are gone"
        return None if shown == wanted else f"wrong rows: {pin} shows {shown}, the commits say {wanted}"


def _ref(line: str) -> str | None:
    return _REFS.get(line, f"f-{line.split(' ')[-1]}")


def _ended(manifest: Node, pid: str) -> str:
    return "commit" if any(one[0] == pid for one in manifest[2]) else "abort" if pid in manifest[3] else ""


def _lineage(pid: str, ended: str) -> Lineage:
    row: HistoryRow | None = None
    if ended == "commit":
        row = CommitRow(pid, pid, (), None, 0, None, 2, "load")
    elif ended:
        row = AbortRow(pid, pid, None, 1, 0)
    return Lineage({} if row is None else {pid: row})
