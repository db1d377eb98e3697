"""All small histories of branches with two tables: writes, undo, and merges that are planned on one head and published on a later one,
over the engine's own decisions.

Every write adds a row of its own, so a table of a commit has to hold what the ancestors of the commit have written, whatever was
adopted, replayed or published on another head than it was planned for. And a pin that a branch has left does not come back to it:
that plans are dead by their pin rests on it.

State: (commits, plans)
    commit   (branch, parents, pins, contents, the table it wrote or -1, its ancestors as bits); a pin is (ref, version, owner, whether
             files of another line are needed), the ref empty on main's own line
    plan     of a merge: (target, source commit, commit it was made on, by table (action, content))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from omnigraph.branch import triple
from omnigraph.branch.triple import Action, TablePins, Terms
from omnigraph.commit import decide as decisions
from omnigraph.commit.decide import Check, Lineage
from omnigraph.commit.effects import BasePin, Effect, Target
from omnigraph.commit.plan import Base, BranchName, Owner, PublishPlan, ReadPin, RequestInfo
from omnigraph.manifest import ancestry
from omnigraph.manifest.ancestry import Fold, Join, LineHistory, Lines, Place
from omnigraph.manifest.rows import BaseVersion, Pin, SchemaRow
from omnigraph.manifest.state import State, genesis
from omnigraph.testing.explorer import State as Node

TABLES = (0, 1)
_OWNER = Owner("host", "boot", 1, 1)
_SCHEMA = SchemaRow("", "", "hash", "id")
_FIRST = ("", 1, 0, False)

TablePin = tuple[str, int, int, bool]
Rows = tuple[int, ...]
Result = tuple[str, Rows]  # what a plan does to one table, and what the table holds then


@dataclass(frozen=True)
class Rules:
    """The guards. The defaults are the engine's."""

    check_publish: Callable[..., decisions.PublishCheck] = decisions.check_publish
    merge_bases: Callable[[Place, Place, Lines], tuple[Place, ...]] = ancestry.merge_bases
    action_of: Callable[..., Action] = triple.action_of
    rests_on: Callable[[TablePins], bool] = triple.rests_on
    forks: bool = True  # a write to a line that another branch owns makes one of its own
    points_back: bool = False  # an undo publishes the old pin itself


@dataclass(frozen=True)
class Scope:
    """``commits``: how many are made. ``plans``: of merges, at once. ``older``: how many commits a merged one may lie behind its head.
    ``settled``: a fork needs no files of another line, so that its versions may be adopted."""

    branches: int = 2
    commits: int = 4
    plans: int = 1
    older: int = 0
    undo: bool = False
    settled: bool = False
    rules: Rules = field(default_factory=Rules)


class Model:
    """``start``, ``steps`` and ``check`` for the explorer."""

    def __init__(self, scope: Scope) -> None:
        self.scope, self.rules = scope, scope.rules
        self._verdict = lru_cache(maxsize=None)(self._verdict_of)

    @property
    def start(self) -> Node:
        return (((0, (), (_FIRST, _FIRST), ((), ()), -1, 0),), ())

    def steps(self, s: Node) -> Iterator[tuple[str, Node]]:
        commits, plans = s
        if len(commits) > self.scope.commits:
            return
        for branch in range(self.scope.branches):
            for table in TABLES:
                yield from self._write(s, branch, table)
            if self.scope.undo:
                yield from self._undo(s, branch)
        for source in range(self.scope.branches) if len(plans) < self.scope.plans else ():
            for target in range(self.scope.branches):
                if source != target:
                    yield from self._plan(s, source, target)
        for plan in plans:
            yield self._publish(s, plan)

    # --- histories --------------------------------------------------------------------------------------------------------

    @staticmethod
    def _line(commits: Node, branch: int) -> list[int]:
        """The commits that were made on a branch, oldest first. All but main were made from the first one."""
        return [at for at, one in enumerate(commits) if one[0] == branch]

    def _head(self, commits: Node, branch: int) -> int:
        return max(self._line(commits, branch), default=0)

    def _place(self, commits: Node, at: int, branch: int) -> Place:
        """A commit as it stands on a line. The first one is also the first version of every other line."""
        made_on: int = commits[at][0]
        number = self._line(commits, made_on).index(at) + 1 + (made_on != 0)
        ref = f"g-{made_on}" if made_on else None
        return Place(f"g-{branch}", 1, "c0") if branch and not at else Place(ref, number, f"c{at}")

    def _lines(self, commits: Node) -> Lines:
        def history(ref: str | None) -> LineHistory:
            branch = 0 if ref is None else int(ref[2:])
            joins = [
                Join(self._place(commits, at, branch).version, self._place(commits, commits[at][1][1], 0))
                for at in self._line(commits, branch)
                if len(commits[at][1]) > 1
            ]
            return LineHistory(Place(None, 1, "c0") if branch else None, tuple(joins))

        return history

    def _base_rows(self, commits: Node, base: ancestry.Base, table: int) -> Rows | None:
        """None: it cannot be told."""
        if isinstance(base, Place):
            return tuple(commits[int(base.commit[1:])][3][table])
        assert isinstance(base, Fold)
        if base.over is None:
            return None
        parts = [self._base_rows(commits, one, table) for one in (base.over, base.first, base.second)]
        over, first, second = parts
        return None if over is None or first is None or second is None else _merged(over, first, second)

    # --- the engine's functions, on values made for them ------------------------------------------------------------------

    @staticmethod
    def _row(table: int, pin: TablePin) -> Pin:
        ref, version, owner, needs = pin
        bases = (BaseVersion(None, 1, True),) if needs else ()
        return Pin(
            f"node:T{table}", f"t{table}", 1, "", f"nodes/T{table}", ref or None, version, owner=_identity(owner), bases=bases
        )  # fmt: skip

    def _state(self, branch: int, pins: Sequence[TablePin]) -> State:
        rows = [self._row(table, pin) for table, pin in enumerate(pins)]
        return genesis(
            identity=_identity(branch), commit_id="head", actor=None, created_at_us=0, schema=_SCHEMA, pins=rows
        )

    def _publishes(
        self, branch: int, pins: Sequence[TablePin], does: Sequence[Action | None], reads: Sequence[bool], adopted: Node
    ) -> PublishPlan:
        effects: list[Effect] = []
        for table, (pin, action) in enumerate(zip(pins, does, strict=True)):
            row = self._row(table, pin)
            base = BasePin(row.location, row.ref, row.version)
            if action is Action.ADOPT:
                effects.append(Effect("adopt", row.key, row.identity, base, None, self._row(table, adopted[table])))
            elif action is not None:
                ref, version, owner, _ = self._landed(branch, pin, 99)
                if owner != pin[2]:
                    effects.append(
                        Effect("fork", row.key, row.identity, base, Target(row.location, ref, pin[1], "fork"))
                    )
                target = Target(row.location, ref or None, version, "rows")
                effects.append(Effect("rows", row.key, row.identity, base, target))
        rows = [self._row(table, pin) for table, pin in enumerate(pins) if reads[table]]
        return PublishPlan(
            "graph", "op", "plan", "merge", BranchName("", _identity(branch)), Base(1, "head", 0, None, "id"), tuple(effects),
            tuple(ReadPin(row.key, row.identity, row.ref, row.version) for row in rows),
            (RequestInfo("plan", "merge", ("head",), None, None, None, 0),), _OWNER,
        )  # fmt: skip

    def _verdict_of(
        self, branch: int, now: Node, pins: Node, does: Sequence[Action | None], reads: Sequence[bool], adopted: Node
    ) -> Check:
        plan = self._publishes(branch, pins, does, reads, adopted)
        return self.rules.check_publish(self._state(branch, now), plan, Lineage()).check

    def _landed(self, branch: int, pin: TablePin, commit: int) -> TablePin:
        """Where a write to the table lands: on the same line if the branch owns it, else on a fork that the commit makes."""
        ref, version, owner, needs = pin
        if owner == branch or not self.rules.forks:
            return (ref, version + 1, owner, needs)
        return (f"f-{commit}", version + 1, branch, not self.scope.settled)

    # --- steps ------------------------------------------------------------------------------------------------------------

    def _then(self, s: Node, branch: int, parents: Rows, pins: Node, contents: Node, wrote: int, plans: Node) -> Node:
        before = 0
        for parent in parents:
            before |= s[0][parent][5] | 1 << parent
        return ((*s[0], (branch, parents, tuple(pins), tuple(contents), wrote, before)), plans)

    def _write(self, s: Node, branch: int, table: int) -> Iterator[tuple[str, Node]]:
        commits, plans = s
        head, number = self._head(commits, branch), len(commits)
        _, _, pins, contents, *_ = commits[head]
        does = tuple(Action.ROWS if one == table else None for one in TABLES)
        if self._verdict(branch, pins, pins, does, (False, False), pins) is Check.GO:
            pins = _put(pins, table, self._landed(branch, pins[table], number))
            contents = _put(contents, table, (*contents[table], number))
            after = self._then(s, branch, (head,), pins, contents, table, plans)
            yield f"c{number}: {_identity(branch)} writes to T{table}", after

    def _undo(self, s: Node, branch: int) -> Iterator[tuple[str, Node]]:
        """The newest commit of a branch is taken back, against its first parent."""
        commits, plans = s
        head, number = self._head(commits, branch), len(commits)
        if commits[head][0] != branch or not commits[head][1]:
            return
        _, _, old, before, *_ = commits[commits[head][1][0]]
        pins, contents = list(commits[head][2]), list(commits[head][3])
        for table in TABLES:
            if old[table] != pins[table]:
                pins[table] = old[table] if self.rules.points_back else self._landed(branch, pins[table], number)
                contents[table] = before[table]
        if tuple(pins) != commits[head][2]:
            after = self._then(s, branch, (head,), tuple(pins), tuple(contents), -1, plans)
            yield f"c{number}: {_identity(branch)} takes c{head} back", after

    def _plan(self, s: Node, source: int, target: int) -> Iterator[tuple[str, Node]]:
        commits, plans = s
        made_on = self._head(commits, target)
        line = [0, *self._line(commits, source)] if source else self._line(commits, source)
        for at in line[-1 - self.scope.older :]:
            if any(one[:2] == (target, at) for one in plans):
                continue
            results = self._results(commits, at, made_on, source, target)
            if results is not None:
                plan = (target, at, made_on, results)
                yield f"{_identity(target)} plans to merge c{at}", (commits, tuple(sorted((*plans, plan))))

    def _results(self, commits: Node, at: int, made_on: int, source: int, target: int) -> tuple[Result, ...] | None:
        """What the merge does, table by table. None: nothing, because it is up to date, or because rows would be in conflict."""
        lines = self._lines(commits)
        places = self._place(commits, at, source), self._place(commits, made_on, target)
        bases = self.rules.merge_bases(*places, lines)
        if any(base.commit == places[0].commit for base in bases):
            return None
        found: list[Result] = []
        for table in TABLES:
            action = self.rules.action_of(
                self._pins(commits, bases, at, made_on, table), Terms(_identity(target), adopts=True), same_fields=True
            )
            theirs, mine = commits[at][3][table], commits[made_on][3][table]
            if action is Action.ROWS:
                base = ancestry.virtual_base(bases, lines)
                known = None if base is None else self._base_rows(commits, base, table)
                if known is None:
                    return None
                mine = _merged(known, theirs, mine)
            found.append((action.value, theirs if action is Action.ADOPT else mine))
        return tuple(found)

    def _pins(self, commits: Node, bases: Sequence[Place], at: int, made_on: int, table: int) -> TablePins:
        places = (*(int(base.commit[1:]) for base in bases), at, made_on)
        *old, theirs, mine = (self._row(table, commits[one][2][table]) for one in places)
        return TablePins(tuple(old), theirs, mine)

    def _publish(self, s: Node, plan: Node) -> tuple[str, Node]:
        commits, plans = s
        target, at, made_on, results = plan
        rest = tuple(one for one in plans if one is not plan)
        head, number = self._head(commits, target), len(commits)
        planned, adopted = commits[made_on][2], commits[at][2]
        does: list[Action | None] = []
        reads: list[bool] = []
        source = commits[at][0]
        bases = self.rules.merge_bases(
            self._place(commits, at, source), self._place(commits, made_on, target), self._lines(commits)
        )
        for table in TABLES:
            action, rows = Action(results[table][0]), results[table][1]
            idle = action is Action.ROWS and rows == commits[made_on][3][table]
            does.append(action if action in (Action.ADOPT, Action.ROWS) and not idle else None)
            reads.append(self.rules.rests_on(self._pins(commits, bases, at, made_on, table)))
        verdict = self._verdict(target, commits[head][2], planned, tuple(does), tuple(reads), adopted)
        what = f"c{at} into {_identity(target)}, planned at c{made_on}"
        if verdict is not Check.GO:
            return f"the merge of {what}, is refused: {verdict.value}", (commits, rest)
        pins, contents = list(commits[head][2]), list(commits[head][3])
        for table, done in enumerate(does):
            if done is not None:
                adopts = done is Action.ADOPT
                pins[table] = adopted[table] if adopts else self._landed(target, planned[table], number)
                contents[table] = results[table][1]
        after = self._then(s, target, (head, at), tuple(pins), tuple(contents), -1, rest)
        said = ", ".join(one for one, _ in results)
        return f"c{number}: the merge of {what}, is published on c{head}: {said}", after

    # --- properties -------------------------------------------------------------------------------------------------------

    def check(self, s: Node) -> str | None:
        """What must hold in every reachable state. All but the newest commit were looked at before."""
        commits = s[0]
        number = len(commits) - 1
        branch, _, pins, contents, _, before = commits[number]
        for table in TABLES:
            left = [commits[at][2][table] for at in dict.fromkeys([0, *self._line(commits, branch)[:-1]])]
            if number and pins[table] != left[-1] and pins[table] in left:
                return f"a pin came back: {pins[table][:2]} of T{table} on {_identity(branch)}"
            if any(one[2][table][:2] == pins[table][:2] and one[3][table] != contents[table] for one in commits):
                return f"one version with two contents: {pins[table][:2]} of T{table}"
            wrote = tuple(
                at for at in range(number + 1) if (before | 1 << number) >> at & 1 and commits[at][4] == table
            )
            if not self.scope.undo and tuple(sorted(contents[table])) != wrote:
                return f"lost write: c{number} holds {contents[table]} in T{table}, its ancestors wrote {wrote}"
        return None


def _identity(branch: int) -> str:
    return f"b{branch}" if branch else "main"


def _put(values: Node, at: int, value: object) -> Node:
    return (*values[:at], value, *values[at + 1 :])


def _merged(base: Rows, one: Rows, other: Rows) -> Rows:
    """Three sets of rows merged. A row is there or not, so two sides that differ cannot both have changed it."""
    rows = {row for row in {*one, *other} if ((row in one) if (row in one) != (row in base) else (row in other))}
    return tuple(sorted(rows))
