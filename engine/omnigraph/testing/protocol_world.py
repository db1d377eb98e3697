"""The simulated store of the protocol's model: what there is, what a request makes of it, and the engine's own functions.

Owns the shape of a state (the docstring of ``protocol_model`` has it) and every change of one that is not an actor's
decision. Who decides what is in ``protocol_writers``, ``protocol_endings`` and ``protocol_model``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache

from omnigraph.commit import decide as decisions
from omnigraph.commit.applied_plans import AppliedPlan, take_along
from omnigraph.commit.decide import Above, Check, Decision, Evidence, Line, Lineage, TableEvidence, Undo, how_ended
from omnigraph.commit.effects import BasePin, Effect, Target
from omnigraph.commit.maintain import Forward, fast_forward
from omnigraph.commit.plan import Base, BranchName, Owner, PublishPlan, ReadPin, RequestInfo
from omnigraph.commit.properties import Counts
from omnigraph.commit.protocol.publish import publish_change
from omnigraph.manifest.rows import AbortRow, CommitRow, HistoryRow, Pin, SchemaRow
from omnigraph.manifest.state import Change, State, fold, genesis
from omnigraph.testing.explorer import State as Node

APPEND, STRICT, RESTORE, UPKEEP, INIT = "A", "S", "R", "M", "I"
UNSENT, REFUSED, UNKNOWN = 0, -2, -3
UPKEEP_ID = -2
FIRST = 1  # the version that every table begins with: in a plan, pin 0 means that the table is absent

_GRAPH = "graph"
_OWNER = Owner("host", "boot", 1, 1)
_SCHEMA = SchemaRow("", "", "hash", "id")


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
    applied_last: bool = True  # a plan is called applied once all of its commits are at their places, and not before


@dataclass(frozen=True)
class Setting:
    """How many of what. ``writes`` and ``reads``: the tables of each writer. ``operations``: which logical operation a
    writer performs; equal numbers carry one idempotency key."""

    tables: int = 1
    writes: tuple[tuple[int, ...], ...] = ((0,), (0,))
    reads: tuple[tuple[int, ...], ...] = ((), ())
    operations: tuple[int, ...] = (0, 1)
    kinds: tuple[str, ...] = (APPEND, APPEND)
    attempts: int = 1
    recoverers: int = 0
    recoveries: int = 0
    upkeep: int = 0  # commits of one run of maintenance on table 0
    lost: int = 0  # requests without an answer
    exhausted: int = 0  # publishes that run out of attempts
    combining: bool = False  # whether swaps take along what is called applied
    rules: Rules = field(default_factory=Rules)


def name_of(pid: int) -> str:
    return f"{'ABCDEF'[pid >> 2]}{(pid & 3) + 1}" if pid >= 0 else "upkeep"


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

    @property
    def start(self) -> Node:
        s = self.setting
        zero = (0,) * s.tables
        return (
            (zero, (), ()),
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
        key = f"key{self.setting.operations[pid >> 2]}"
        request = RequestInfo(str(pid), "load", ("head",), None, key, None, 0)
        return PublishPlan(
            _GRAPH, f"op{pid}", str(pid), "load", BranchName("main", _GRAPH), Base(1, "head", 0, None, "id"), effects,
            reads, (request,), _OWNER,
        )  # fmt: skip

    @staticmethod
    def _state(pins: tuple[int, ...]) -> State:
        listed = [
            Pin(f"node:{t}", f"t{t}", 1, "", f"p{t}", None, pin + FIRST, owner=_GRAPH) for t, pin in enumerate(pins)
        ]
        return genesis(identity=_GRAPH, commit_id="head", actor=None, created_at_us=0, schema=_SCHEMA, pins=listed)

    @staticmethod
    def _end(pid: int, manifest: Node) -> str:
        """By which record the plan has ended, if it has."""
        return "commit" if pid in manifest[1] else "abort" if pid in manifest[2] else ""

    def _verdict_of(
        self, pins: tuple[int, ...], commits: tuple[int, ...], aborts: tuple[int, ...], pid: int, base: tuple[int, ...]
    ) -> Check:
        operation = self.setting.operations
        keyed = next((q for q in commits if operation[q >> 2] == operation[pid >> 2]), None)
        row = None if keyed is None else CommitRow(str(keyed), str(keyed), (), None, 0, None, 2, "load")
        own = _record(pid, self._end(pid, (pins, commits, aborts)))
        lineage = Lineage({} if own is None else {str(pid): own}, {} if row is None else {str(pid): row})
        return self.rules.check_publish(self._state(pins), self._plan(pid, base), lineage).check

    def _taken_of(self, manifest: Node, pid: int, base: Node, others: tuple[tuple[int, Node], ...]) -> tuple[int, ...]:
        """Which of these plans, each with its base, the swap of one takes along."""
        pins, commits, aborts = manifest
        state = self._state(pins)
        keys = {q: self._plan(q, base).requests[0].idempotency_key for q in commits}
        rows = (CommitRow(str(q), str(q), (), None, 0, None, 2, "load", idempotency_key=keys[q]) for q in commits)
        ends = (row for q in aborts if (row := _record(q, "abort")) is not None)
        state = replace(state, tail=(*state.tail, *rows, *ends))
        applied = [self._applied_plan(state, q, of) for q, of in others]
        own = self._applied_plan(state, pid, base)
        found = self.rules.take_along(state, own.plan, own.change, applied)
        return tuple(int(row.object_id) for row in found.history[1:])

    def _applied_plan(self, state: State, pid: int, base: Node) -> AppliedPlan:
        plan = self._plan(pid, base)
        pins = {chain.key: replace(state.tables[chain.key], version=chain.version) for chain in plan.landing}
        return AppliedPlan(plan, publish_change(plan, pins, dict.fromkeys(pins, (Counts(inserted=1),))))

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
        record = _record(pid, end)
        plan = self._plan(pid, (1,) * self.setting.tables)
        ended = how_ended(plan, Lineage({} if record is None else {str(pid): record}))
        return self.rules.decide(Evidence(Line.OPEN, end=ended, owner_gone=gone, tables=seen))

    def _fold_of(
        self, pins: tuple[int, ...], moved: tuple[tuple[int, int], ...], pid: int, ends: str
    ) -> tuple[int, ...]:
        state = self._state(pins)
        changed = {f"node:{t}": replace(state.tables[f"node:{t}"], version=version + FIRST) for t, version in moved}
        row = _record(pid, ends)
        after, _ = fold(state, Change(pins=changed, history=() if row is None else (row,)))
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

    def _swapped(self, s: Node, pids: Node, moved: tuple[tuple[int, int], ...], pid: int, ends: str) -> Node:
        """The state of the whole world after a swap landed: a process that held the newest state holds an old one now."""
        pins, commits, aborts = pids
        after = self._folded(pins, moved, pid, ends)
        if ends == "commit":
            s = self._note_skew(s, pid)
            commits = tuple(sorted((*commits, pid)))
        elif ends == "abort":
            aborts = tuple(sorted((*aborts, pid)))
        return self._moved_on(s, (after, commits, aborts))

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


def _record(pid: int, end: str) -> HistoryRow | None:
    """The record by which a plan ended."""
    if end == "commit":
        return CommitRow(str(pid), str(pid), (), None, 0, None, 2, "load")
    return AbortRow(str(pid), str(pid), None, 1, 0) if end else None
