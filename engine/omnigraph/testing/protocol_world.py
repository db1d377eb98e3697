"""The simulated store of the protocol's model: what there is, what a request makes of it, and the engine's own functions.

Owns the shape of a state (the docstring of ``protocol_model`` has it) and every change of one that is not an actor's
decision. Who decides what is in ``protocol_writers``, ``protocol_endings`` and ``protocol_model``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from unittest import mock

from omnigraph.commit import decide as decisions
from omnigraph.commit.applied_plans import AppliedPlan, take_along
from omnigraph.commit.decide import Above, Check, Decision, End, Evidence, Line, Lineage, TableEvidence, Undo
from omnigraph.commit.effects import BasePin, Effect, Target
from omnigraph.commit.maintain import Forward, fast_forward
from omnigraph.commit.plan import Base, BranchName, Owner, PublishPlan, ReadPin, RequestInfo
from omnigraph.commit.properties import Counts
from omnigraph.commit.protocol.publish import publish_change
from omnigraph.manifest import state as states
from omnigraph.manifest.rows import AbortRow, CommitRow, HistoryRow, Pin, SchemaRow
from omnigraph.manifest.state import Change, State, fold, genesis, reaches
from omnigraph.testing.explorer import State as Node

APPEND, STRICT, RESTORE, UPKEEP, INIT = "A", "S", "R", "M", "I"
UNSENT, REFUSED, UNKNOWN = 0, -2, -3
UPKEEP_ID = -2
MEMBER = 100  # the ids of several requests of one plan are its own and this, once, twice and so on
CARRIED = "carried"  # a request of the plan has ended by another one
MIXED = "mixed"  # what is found of a plan's records is not what one swap writes
FIRST = 1  # the version that every table begins with: in a plan, pin 0 means that the table is absent

_GRAPH = "graph"
_OWNER = Owner("host", "boot", 1, 1)
_SCHEMA = SchemaRow("", "", "hash", "id")
_NAMES = {End.PUBLISHED: "commit", End.ABORTED: "abort", End.CARRIED: CARRIED, End.MIXED: MIXED, End.OPEN: ""}


def landing_rule(version: int, pin: int) -> bool:
    """The engine's rule, as ``commit/apply`` applies it: an effect counts at pin + 1 and nowhere else."""
    return version == pin + 1


@dataclass(frozen=True)
class Rules:
    """The guards. The defaults are the engine's."""

    check_publish: Callable[..., decisions.PublishCheck] = decisions.check_publish
    undo_table: Callable[..., Undo] = decisions.undo_table
    decide: Callable[..., Decision] = decisions.decide
    fast_forward: Callable[..., Forward] = fast_forward
    landed: Callable[[int, int], bool] = landing_rule
    exact: bool = True  # effects are recognised by uuid, not by counting versions
    strict: bool = True  # a swap lands on the version it was made for, or not at all
    looks_for_itself: bool = True  # an owner that gives up looks for its own records first
    stranger_looks: bool = True  # ... and the process that rolls it back
    pins_of_restores: bool = True  # a restore is published only over the pin that it restored
    aborts: bool = True  # a plan that is given up ends by a record
    take_along: Callable[..., Change] = take_along
    how_ended: Callable[..., End] = decisions.how_ended
    cut: Callable[..., int] = states.cut_of
    applied_last: bool = True  # a plan is called applied once all of its commits are at their places, and not before


@dataclass(frozen=True)
class Setting:
    """How many of what. ``writes`` and ``reads``: the tables of each writer. ``operations``: which logical operation a
    writer performs, or each of its requests; equal numbers carry one idempotency key. ``requests``: how many a plan of each
    writer ends at once. ``tail``: with how many records the tail rolls, and how many stay; looks ask the archive for the rest."""

    tables: int = 1
    writes: tuple[tuple[int, ...], ...] = ((0,), (0,))
    reads: tuple[tuple[int, ...], ...] = ((), ())
    operations: tuple[int | tuple[int, ...], ...] = (0, 1)
    requests: tuple[int, ...] = ()
    tail: tuple[int, int] | None = None
    kinds: tuple[str, ...] = (APPEND, APPEND)
    attempts: int = 1
    recoverers: int = 0
    recoveries: int = 0
    upkeep: int = 0  # commits of one run of maintenance on table 0
    lost: int = 0  # requests without an answer
    exhausted: int = 0  # publishes that run out of attempts
    combining: bool = False  # whether swaps take along what is called applied
    rules: Rules = field(default_factory=Rules)


def name_of(one: int) -> str:
    """The name of a plan, or of one of its requests."""
    member, pid = divmod(one, MEMBER) if one >= 0 else (0, one)
    return f"{'ABCDEF'[pid >> 2]}{(pid & 3) + 1}{' abcdef'[member].strip()}" if pid >= 0 else "upkeep"


def plans_of(ids: tuple[int, ...]) -> tuple[int, ...]:
    """The plans to which these records belong."""
    return tuple(sorted({one % MEMBER for one in ids}))


class World:
    """The first state, and what requests do to one."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.rules = setting.rules
        self._verdict = lru_cache(maxsize=None)(self._verdict_of)
        self._undo = lru_cache(maxsize=None)(self._undo_of)
        self._decision = lru_cache(maxsize=None)(self._decision_of)
        self._folded = lru_cache(maxsize=None)(self._fold_of)
        self._taken = lru_cache(maxsize=None)(self._taken_of)
        self._ended = lru_cache(maxsize=None)(self._ended_of)
        self._lined = lru_cache(maxsize=None)(self._lined_of)

    @property
    def start(self) -> Node:
        s = self.setting
        zero = (0,) * s.tables
        return (
            (zero, (), (), (FIRST, ((FIRST, -1, "init"),)) if s.tail else ()),
            (((INIT, -1, ()),),) * s.tables,
            (),
            (("open", 0, (), (), (), (), 0),) * len(s.writes),
            (("idle", -1, (), (), (), ()),) * s.recoverers,
            ("rewrite", 0, (), 0) if s.upkeep else (),
            (),
            (s.lost, s.exhausted, s.recoveries),
            (),
        )

    # --- the engine's functions, on values made for them ------------------------------------------------------------------

    def _writes(self, pid: int) -> tuple[int, ...]:
        return self.setting.writes[pid >> 2]

    def _plan(self, pid: int, base: tuple[int, ...]) -> PublishPlan:
        effects = tuple(
            Effect(
                "append",
                f"node:{t}",
                f"t{t}",
                BasePin(f"p{t}", None, base[t] + FIRST),
                Target(f"p{t}", None, base[t] + 1 + FIRST, str(pid)),
            )
            for t in self._writes(pid)
        )
        reads = tuple(ReadPin(f"node:{t}", f"t{t}", None, base[t] + FIRST) for t in self.setting.reads[pid >> 2])
        parents = ("head", *map(str, self._requests(pid)))
        requests = tuple(
            RequestInfo(str(one), "load", (parent,), None, f"key{self._operation(one)}", None, 0)
            for one, parent in zip(self._requests(pid), parents, strict=False)
        )
        version = base[-1] if self.setting.tail else FIRST
        return PublishPlan(
            _GRAPH, f"op{pid}", str(pid), "load", BranchName("main", _GRAPH), Base(version, "head", 0, None, "id"), effects,
            reads, requests, _OWNER,
        )  # fmt: skip

    def _requests(self, pid: int) -> tuple[int, ...]:
        """The ids of the requests of a plan; of a single one it is the plan's."""
        count = self.setting.requests[pid >> 2] if self.setting.requests else 1
        return (pid,) if count == 1 else tuple(pid + MEMBER * member for member in range(1, count + 1))

    def _operation(self, one: int) -> int:
        """Which logical operation a request performs."""
        member, pid = divmod(one, MEMBER)
        found = self.setting.operations[pid >> 2]
        return found if isinstance(found, int) else found[max(0, member - 1)]

    def _base(self, s: Node) -> Node:
        """What a plan that is made now rests on: the pins, and the version where the tail may roll."""
        return (*s[0][0], s[0][3][0]) if self.setting.tail else s[0][0]

    @staticmethod
    def _state(pins: tuple[int, ...]) -> State:
        listed = [
            Pin(f"node:{t}", f"t{t}", 1, "", f"p{t}", None, pin + FIRST, owner=_GRAPH) for t, pin in enumerate(pins)
        ]
        return genesis(identity=_GRAPH, commit_id="head", actor=None, created_at_us=0, schema=_SCHEMA, pins=listed)

    def _end(self, pid: int, manifest: Node, base: Node) -> str:
        """By which records the plan has ended, if it has, as far as a look back to its base tells."""
        return self._ended(pid, manifest, base)

    def _ended_of(self, pid: int, manifest: Node, base: Node) -> str:
        return _NAMES[self.rules.how_ended(self._plan(pid, base), self._lineage(pid, manifest, base))]

    def _lineage(self, pid: int, manifest: Node, base: Node) -> Lineage:
        plan = self._plan(pid, base)
        _, commits, aborts, line = manifest
        records = {one: _commit(one) for one in commits} | {one: _abort(one) for one in aborts}
        own = keyed = [*commits, *aborts]
        if self.setting.tail:
            tail = [one for _, one, _ in line[1]]
            seq = 2 + len(commits) + len(aborts) - len(tail)
            first = [replace(records.get(tail[0]) or _commit(-1), version=line[1][0][0], seq=seq)]
            base_version = plan.base.manifest_version
            own = tail if reaches(first, base_version + 1) else own
            keyed = tail if reaches(first, base_version) else keyed
        wanted = {plan.id, *plan.members}
        rows = {str(one): records[one] for one in own if str(one) in wanted}
        by_key = {self._operation(one): one for one in keyed if one in commits}
        mine = {one: by_key.get(self._operation(one)) for one in self._requests(pid)}
        return Lineage(rows, {str(one): _commit(taken) for one, taken in mine.items() if taken is not None})

    def _verdict_of(self, manifest: Node, pid: int, base: Node) -> Check | None:
        """None: the records contradict each other, at which the engine stops."""
        try:
            lineage = self._lineage(pid, manifest, base)
            return self.rules.check_publish(self._state(manifest[0]), self._plan(pid, base), lineage).check
        except ValueError:
            return None

    def _taken_of(self, manifest: Node, pid: int, base: Node, others: tuple[tuple[int, Node], ...]) -> tuple[int, ...]:
        """Which of these plans, each with its base, the swap of one takes along."""
        pins, commits, aborts, _ = manifest
        state = self._state(pins)
        rows = (replace(_commit(one), idempotency_key=f"key{self._operation(one)}") for one in commits)
        state = replace(state, tail=(*state.tail, *rows, *map(_abort, aborts)))
        applied = [self._applied_plan(state, q, of) for q, of in others]
        own = self._applied_plan(state, pid, base)
        found = self.rules.take_along(state, own.plan, own.change, applied)
        plans = [int(row.plan) for row in found.history if isinstance(row, CommitRow)]
        return tuple(one for one in dict.fromkeys(plans) if one != pid)

    def _applied_plan(self, state: State, pid: int, base: Node) -> AppliedPlan:
        plan = self._plan(pid, base)
        pins = {chain.key: replace(state.tables[chain.key], version=chain.version) for chain in plan.landing}
        counts = tuple(Counts(inserted=1) for _ in plan.requests)
        return AppliedPlan(plan, publish_change(plan, pins, dict.fromkeys(pins, counts)))

    def _undo_of(
        self, pid: int, pin: int, head: int, above: tuple[str, int] | None, unknown: bool, pending: bool
    ) -> Undo:
        seen = None
        if above is not None:
            kind, who = above
            seen = Above("x", None, restore_of=who) if kind == RESTORE else Above(str(who), f"op{who}")
        own = frozenset([str(pid)])
        return self.rules.undo_table(
            pin=pin, head=head, above=seen, own_uuids=own, unknown=unknown, other_pending=pending
        )

    def _decision_of(self, pid: int, end: str, gone: bool, tables: tuple[tuple[int, int, bool, bool], ...]) -> Decision:
        seen = {str(n): TableEvidence(str(n), *one) for n, one in enumerate(tables)}
        ended = {name: one for one, name in _NAMES.items()}[end]
        return self.rules.decide(Evidence(Line.OPEN, end=ended, owner_gone=gone, tables=seen))

    def _fold_of(
        self, pins: tuple[int, ...], moved: tuple[tuple[int, int], ...], pid: int, ends: str
    ) -> tuple[int, ...]:
        state = self._state(pins)
        changed = {f"node:{t}": replace(state.tables[f"node:{t}"], version=version + FIRST) for t, version in moved}
        after, _ = fold(state, Change(pins=changed, history=tuple(row for _, row in self._records(pid, ends))))
        return tuple(after.tables[f"node:{t}"].version - FIRST for t in range(len(pins)))

    # --- the store --------------------------------------------------------------------------------------------------------

    @staticmethod
    def _land(table: Node, kind: str, pid: int, read: int) -> Node | None:
        """What the table format makes of a transaction that was staged on version ``read``; None where it refuses."""
        if kind == STRICT and len(table) - 1 != read:
            return None
        for version in table[read + 1 :]:
            if version[0] in (RESTORE, STRICT) or (kind == UPKEEP and version[0] == UPKEEP and version[1] != pid):
                return None
        content = table[-1][2]
        if kind == STRICT:
            content = tuple(sorted((*content, pid)))
        elif kind == APPEND:
            content = tuple(sorted((*content, pid)))
        return (*table, (kind, pid, content))

    @staticmethod
    def _put_back(table: Node, pin: int) -> Node:
        return (*table, (RESTORE, pin, table[pin][2]))

    def _swapped(
        self, s: Node, pids: Node, moved: tuple[tuple[int, int], ...], pid: int, ends: str, base: Node = ()
    ) -> Node:
        """The state of the whole world after a swap landed: a process that held the newest state holds an old one now. ``base``:
        of the plan that it ends."""
        pins, commits, aborts, line = pids
        after = self._folded(pins, moved, pid, ends)
        ids = tuple(one for one, _ in self._records(pid, ends))
        if ends == "commit":
            s = self._note_skew(s, pid)
            commits = tuple(sorted((*commits, *ids)))
        elif ends == "abort":
            aborts = tuple(sorted((*aborts, *ids)))
        return self._moved_on(s, (after, commits, aborts, self._lined(line, ids, ends)))

    def _records(self, pid: int, ends: str) -> list[tuple[int, HistoryRow]]:
        """What the swap that ends a plan writes into history."""
        if not ends:
            return []
        plan = self._plan(pid, (0,) * (self.setting.tables + 1))
        if ends == "commit":
            return [(int(one), _commit(int(one))) for one in plan.members]
        return [(int(one), _abort(int(one))) for one in plan.ends]

    def _lined_of(self, line: Node, ids: tuple[int, ...], ends: str) -> Node:
        """The newest version and the records in its tail after a swap."""
        if not self.setting.tail:
            return ()
        version = line[0] + 1
        tail = (*line[1], *((version, one, ends) for one in ids))
        rows = [replace(_abort(one) if kind == "abort" else _commit(one), version=of) for of, one, kind in tail]
        roll, keep = self.setting.tail
        with mock.patch.multiple(states, TAIL_ROLL=roll, TAIL_KEEP=keep):
            return (version, tail[self.rules.cut(rows) :])

    def _moved_on(self, s: Node, manifest: Node) -> Node:
        writers = tuple((*w[:4], (False, w[4][1]) if w[4] else (), *w[5:]) for w in s[3])
        recoverers = tuple((*r[:3], (False, r[3][1]) if r[3] else (), *r[4:]) for r in s[4])
        flying = s[6] if not self.rules.strict else tuple(q for q in s[6] if q[0] != "swap")
        return (manifest, s[1], s[2], writers, recoverers, s[5], flying, s[7], s[8])

    def _note_skew(self, s: Node, pid: int) -> Node:
        """At a publish: what the plan was checked against must still be the content that is there."""
        base = dict(s[2]).get(pid)
        reads = self.setting.reads[pid >> 2]
        if base is None or all(s[1][t][base[t]][2] == s[1][t][s[0][0][t]][2] for t in reads):
            return s
        return (*s[:8], (*s[8], (pid, "write skew")))

    # --- parts of a state ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _with_table(s: Node, t: int, table: Node) -> Node:
        return (s[0], (*s[1][:t], table, *s[1][t + 1 :]), *s[2:])

    @staticmethod
    def _with_writer(s: Node, number: int, writer: Node) -> Node:
        return (*s[:3], (*s[3][:number], writer, *s[3][number + 1 :]), *s[4:])

    @staticmethod
    def _with_recoverer(s: Node, number: int, recoverer: Node) -> Node:
        return (*s[:4], (*s[4][:number], recoverer, *s[4][number + 1 :]), *s[5:])

    @staticmethod
    def _spent(s: Node, which: int) -> Node:
        left = tuple(value - (n == which) for n, value in enumerate(s[7]))
        return (*s[:7], left, s[8])

    @staticmethod
    def _fly(s: Node, request: Node) -> Node:
        return (*s[:6], tuple(sorted((*s[6], request), key=repr)), *s[7:])


def _commit(one: int) -> CommitRow:
    return CommitRow(str(one), str(one % MEMBER), (), None, 0, None, 2, "load")


def _abort(one: int) -> AbortRow:
    return AbortRow(str(one), str(one % MEMBER), None, 1, 0)
