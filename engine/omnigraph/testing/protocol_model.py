"""The commit protocol on a simulated store, for exhaustive search: the decisions are the engine's own pure functions.

One step is one request. There is no time: a recoverer may take any intent at any moment; a crash is a process that is not
scheduled again, a pause one that is scheduled late, so every cut and every pause is covered by the order of steps. A lost
request stays in flight and lands at any later moment, or never.

State: (manifest, tables, intents, writers, recoverers, maintenance, in flight, budgets, audit)
    manifest     (pins, ids of commits, ids of aborts); its version is only ever compared with "the newest"
    table        versions as (kind, id, content); content is the sorted ids of the plans whose rows it holds
    writer       (at, attempt, base, results, held, restored, reported)
    recoverer    (at, id, base, held, touched, restored)

A plan's id is writer × 4 + attempt. ``held`` is (is it the newest, pins). What may be done is asked of ``Rules``, whose
members are the engine's functions or, to see that the search would notice, ones with a guard taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from omnigraph.commit import decide as decisions
from omnigraph.commit.decide import Above, Check, Decision, TableWitness, Undo, Witness
from omnigraph.commit.maintain import Forward, fast_forward
from omnigraph.commit.plan import Base, BranchName, CommitInfo, Owner, PublishPlan, ReadPin, TablePlan
from omnigraph.manifest.rows import AbortRow, CommitRow, HistoryRow, Pin, SchemaRow
from omnigraph.manifest.state import Change, State, fold, genesis
from omnigraph.testing.explorer import State as Node

APPEND, STRICT, RESTORE, UPKEEP, INIT = "A", "S", "R", "M", "I"
UNSENT, REFUSED, UNKNOWN = 0, -2, -3
UPKEEP_ID = -2

_GRAPH = "graph"
_OWNER = Owner("host", "boot", 1, 1)
_SCHEMA = SchemaRow("", "", "hash")


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
    stranger_looks: bool = True  # ... and whoever rolls it back
    pins_of_restores: bool = True  # a restore is published only over the pin that it restored
    aborts: bool = True  # a plan that is given up ends by a record


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
    rules: Rules = field(default_factory=Rules)


def name_of(pid: int) -> str:
    return f"{'ABCDEF'[pid >> 2]}{(pid & 3) + 1}" if pid >= 0 else "upkeep"


class Model:
    """``start``, ``steps`` and ``check`` for the explorer."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.rules = setting.rules
        self._verdict = lru_cache(maxsize=None)(self._verdict_of)
        self._undo = lru_cache(maxsize=None)(self._undo_of)
        self._decision = lru_cache(maxsize=None)(self._decision_of)
        self._folded = lru_cache(maxsize=None)(self._fold_of)

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
        tables = tuple(TablePlan(f"node:{t}", f"t{t}", f"p{t}", None, base[t], (str(pid),)) for t in self._writes(pid))
        reads = tuple(ReadPin(f"node:{t}", f"t{t}", None, base[t]) for t in self.setting.reads[pid >> 2])
        key = f"key{self.setting.operations[pid >> 2]}"
        return PublishPlan(
            _GRAPH, f"op{pid}", "load", BranchName("main", _GRAPH), Base(1, "head", 0, None, "hash"), tables, reads,
            CommitInfo(str(pid), ("head",), None, key, None, 0), _OWNER,
        )  # fmt: skip

    @staticmethod
    def _state(pins: tuple[int, ...]) -> State:
        listed = [Pin(f"node:{t}", f"t{t}", 1, "", f"p{t}", None, pin) for t, pin in enumerate(pins)]
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
        row = None if keyed is None else CommitRow(str(keyed), (), None, 0, None, 2, "load")
        own = _record(pid, self._end(pid, (pins, commits, aborts)))
        return self.rules.check_publish(self._state(pins), self._plan(pid, base), own=own, keyed=row).check

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
        seen = {str(n): TableWitness(str(n), *one) for n, one in enumerate(tables)}
        return self.rules.decide(Witness(False, False, True, _record(pid, end), gone, seen))

    def _fold_of(
        self, pins: tuple[int, ...], moved: tuple[tuple[int, int], ...], pid: int, ends: str
    ) -> tuple[int, ...]:
        state = self._state(pins)
        changed = {f"node:{t}": replace(state.tables[f"node:{t}"], version=version) for t, version in moved}
        after, _ = fold(state, Change(pins=changed, history=_record(pid, ends)))
        return tuple(after.tables[f"node:{t}"].version for t in range(len(pins)))

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
        """The state of the whole world after a swap landed: whoever held the newest state holds an old one now."""
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

    # --- steps ------------------------------------------------------------------------------------------------------------

    def steps(self, s: Node) -> Iterator[tuple[str, Node]]:
        """Every request that may be next. Recoverers have no names: states that differ in their order are one."""
        for label, after in self._all_steps(s):
            yield label, (*after[:4], tuple(sorted(after[4], key=repr)), *after[5:]) if len(after[4]) > 1 else after

    def _all_steps(self, s: Node) -> Iterator[tuple[str, Node]]:
        yield from self._flying(s)
        for number in range(len(s[3])):
            yield from self._writer(s, number)
        for number in range(len(s[4])):
            yield from self._recoverer(s, number)
        if s[5]:
            yield from self._upkeep(s)

    def _flying(self, s: Node) -> Iterator[tuple[str, Node]]:
        for at, request in enumerate(s[6]):
            rest = s[6][:at] + s[6][at + 1 :]
            without = (*s[:6], rest, *s[7:])
            if request[0] == "commit":
                _, t, pid, read = request
                landed = self._land(s[1][t], self.setting.kinds[pid >> 2], pid, read)
                if landed is not None:
                    yield f"late: commit of {name_of(pid)} lands on T{t}", self._with_table(without, t, landed)
            elif request[0] == "restore":
                _, t, pin = request
                yield f"late: Restore({pin}) lands on T{t}", self._with_table(without, t, self._put_back(s[1][t], pin))
            else:
                yield "late: a swap lands", self._moved_on(without, request[1])

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

    def _writer(self, s: Node, number: int) -> Iterator[tuple[str, Node]]:
        at, attempt, base, results, held, restored, reported = s[3][number]
        pid = number * 4 + attempt
        who = name_of(pid)

        def now(at: str, **changes: Any) -> Node:
            values = {"base": base, "results": results, "held": held, "restored": restored, "reported": reported}
            values.update(changes)
            return (at, attempt, *values.values())

        match at:
            case "open":
                blank = (UNSENT,) * self.setting.tables
                yield f"{who} opens at {s[0][0]}", self._with_writer(s, number, now("arm", base=s[0][0], results=blank))
            case "arm":
                armed = (*s[:2], tuple(sorted((*s[2], (pid, base)))), *s[3:])
                yield f"{who} arms", self._with_writer(armed, number, now("apply"))
            case "apply":
                yield from self._apply(s, number, pid, now)
            case "resolve":
                yield from self._resolve(s, number, pid, now)
            case "publish":
                yield from self._publish(s, number, pid, now)
            case "look" | "undo" | "abort":
                yield from self._give_up(s, number, pid, now)
            case "acknowledge":
                gone = (*s[:2], tuple(one for one in s[2] if one[0] != pid), *s[3:])
                done = ("done", attempt, (), (), (), (), "ok")
                yield f"{who} acknowledges", self._with_writer(gone, number, done)
            case "end":
                gone = (*s[:2], tuple(one for one in s[2] if one[0] != pid), *s[3:])
                if attempt + 1 < self.setting.attempts:
                    again = ("open", attempt + 1, (), (), (), (), reported)
                    yield f"{who} plans again", self._with_writer(gone, number, again)
                else:
                    done = ("done", attempt, (), (), (), (), "failed")
                    yield f"{who} reports a conflict", self._with_writer(gone, number, done)

    def _apply(self, s: Node, number: int, pid: int, now: Any) -> Iterator[tuple[str, Node]]:
        base, results = s[3][number][2], s[3][number][3]
        for t in self._writes(pid):
            if results[t] != UNSENT:
                continue
            landed = self._land(s[1][t], self.setting.kinds[number], pid, base[t])
            result = REFUSED if landed is None else len(landed) - 1
            after = s if landed is None else self._with_table(s, t, landed)
            label = "is refused" if landed is None else f"lands at {result}"
            yield f"{name_of(pid)} commits T{t}: {label}", self._applied(after, number, pid, t, result, now)
            if s[7][0]:
                lost = self._spent(self._fly(s, ("commit", t, pid, base[t])), 0)
                yield f"{name_of(pid)} commits T{t}: no answer", self._applied(lost, number, pid, t, UNKNOWN, now)

    def _applied(self, s: Node, number: int, pid: int, t: int, result: int, now: Any) -> Node:
        results = s[3][number][3]
        results = (*results[:t], result, *results[t + 1 :])
        if any(results[u] == UNSENT for u in self._writes(pid)):
            return self._with_writer(s, number, now("apply", results=results))
        at = "resolve" if UNKNOWN in results else self._after_apply(pid, s[3][number][2], results)
        return self._with_writer(s, number, now(at, results=results))

    def _after_apply(self, pid: int, base: Node, results: Node) -> str:
        exact = all(results[t] > 0 and self.rules.landed(results[t], base[t]) for t in self._writes(pid))
        return "publish" if exact else "look"

    def _resolve(self, s: Node, number: int, pid: int, now: Any) -> Iterator[tuple[str, Node]]:
        base, results = s[3][number][2], list(s[3][number][3])
        for t in self._writes(pid):
            if results[t] == UNKNOWN:
                stands = [
                    v for v in range(base[t] + 1, len(s[1][t])) if s[1][t][v][1] == pid and s[1][t][v][0] != RESTORE
                ]
                results[t] = stands[0] if stands else UNKNOWN
        at = self._after_apply(pid, base, tuple(results))
        yield f"{name_of(pid)} looks for its uuids", self._with_writer(s, number, now(at, results=tuple(results)))

    def _targets(self, pid: int, base: Node, results: Node) -> tuple[tuple[int, int], ...]:
        return tuple((t, results[t]) for t in self._writes(pid))

    def _publish(self, s: Node, number: int, pid: int, now: Any) -> Iterator[tuple[str, Node]]:
        base, results = s[3][number][2], s[3][number][3]
        verdict = self._verdict(*s[0], pid, base)
        if verdict is Check.PUBLISHED:
            yield f"{name_of(pid)} finds itself published", self._with_writer(s, number, now("acknowledge"))
            return
        if verdict is not Check.GO:
            yield f"{name_of(pid)} is refused: {verdict.value}", self._with_writer(s, number, now("look"))
            return
        moved = self._targets(pid, base, results)
        after = self._swapped(self._with_writer(s, number, now("acknowledge")), s[0], moved, pid, "commit")
        yield f"{name_of(pid)} publishes {after[0][0]}", after
        if s[7][0]:
            yield f"{name_of(pid)} publishes: no answer", self._spent(self._fly(s, ("swap", after[0])), 0)
        if s[7][1]:
            yield f"{name_of(pid)} runs out of attempts", self._spent(self._with_writer(s, number, now("look")), 1)

    # --- giving up: the same for an owner and for whoever rolls it back ------------------------------------------------------

    def _give_up(self, s: Node, number: int, pid: int, now: Any) -> Iterator[tuple[str, Node]]:
        at, _, base, results, held, restored, _ = s[3][number]
        who = name_of(pid)
        if at == "look":
            end = self._end(pid, s[0]) if self.rules.looks_for_itself else ""
            if end == "commit":
                yield f"{who} gives up, and finds itself published", self._with_writer(s, number, now("acknowledge"))
            elif end:
                yield f"{who} gives up, and finds itself aborted", self._with_writer(s, number, now("end"))
            else:
                yield (
                    f"{who} gives up, reads {s[0][0]}",
                    self._with_writer(s, number, now("undo", held=(True, s[0][0]))),
                )
            return
        touched = tuple(t for t in self._writes(pid) if results[t] != UNSENT)
        unknown = frozenset(t for t in touched if results[t] == UNKNOWN)
        put = lambda state, at_, kept: self._with_writer(state, number, now(at_, restored=kept))  # noqa: E731
        if at == "undo":
            yield from self._undo_step(s, pid, held, restored, touched, unknown, True, put)
            return
        dead = any(held[1][t] != base[t] for t in self._writes(pid))
        if (not restored and dead) or not self.rules.aborts:
            label = f"{who} is dead by a moved pin" if dead else f"{who} leaves without a record"
            yield label, self._with_writer(s, number, now("end"))
            return
        yield from self._abort_swap(
            s, pid, held, restored, lambda state, at_: self._with_writer(state, number, now(at_))
        )

    def _undo_step(
        self, s: Node, pid: int, held: Node, restored: Node, touched: tuple[int, ...], unknown: frozenset[int],
        owner: bool, put: Any,
    ) -> Iterator[tuple[str, Node]]:  # fmt: skip
        """One table, the first that is not settled. ``restored``: (table, pin, version) of restores that stand."""
        kept = tuple(one for one in restored if not self.rules.pins_of_restores or one[1] == held[1][one[0]])
        settled = {one[0] for one in kept if one[2] >= 0} | {one[0] for one in restored if one[2] < 0}
        left = [t for t in touched if t not in settled]
        who = name_of(pid)
        if not left:
            standing = tuple(one for one in kept if one[2] >= 0)
            yield f"{who}: all tables are back", put(s, "abort", standing)
            return
        t = left[0]
        kept = (*kept, *(one for one in restored if one[2] < 0))
        pin, head = held[1][t], len(s[1][t]) - 1
        above = s[1][t][pin + 1][:2] if head > pin else None
        other = above[1] if above is not None and above[0] not in (RESTORE, UPKEEP) and above[1] != pid else None
        pending = other is not None and any(one[0] == other for one in s[2])
        undo = self._undo(pid, pin, max(head, pin), above, t in unknown, pending)
        nothing = tuple(sorted((*kept, (t, pin, -1))))
        if undo is Undo.NOTHING:
            yield f"{who}: T{t} needs nothing", put(s, "undo", nothing)
        elif undo is Undo.PUBLISH_RESTORE:
            yield f"{who}: T{t} was restored already", put(s, "undo", tuple(sorted((*kept, (t, pin, pin + 1)))))
        elif undo is Undo.YIELD and owner and other is not None:
            yield from self._give_way(s, t, other, pid, nothing, put)
        elif undo is Undo.YIELD:
            yield f"{who}: T{t} is another's", put(s, "undo", nothing)
        else:
            after = self._with_table(s, t, self._put_back(s[1][t], pin))
            standing = tuple(sorted((*kept, (t, pin, head + 1))))
            yield f"{who}: Restore({pin}) on T{t} lands at {head + 1}", put(after, "undo", standing)
            if s[7][0]:
                lost = self._spent(self._fly(s, ("restore", t, pin)), 0)
                yield f"{who}: Restore({pin}) on T{t}: no answer", put(lost, "look", kept)

    def _give_way(self, s: Node, t: int, other: int, pid: int, nothing: Node, put: Any) -> Iterator[tuple[str, Node]]:
        """The other operation goes first: published if complete, waited for if it may become so."""
        base = next(one[1] for one in s[2] if one[0] == other)
        decision, tables = self._witness(s, other, base, s[0], gone=False)
        who = name_of(pid)
        if decision is Decision.ROLL_FORWARD:
            if self._verdict(*s[0], other, base) is Check.GO:
                moved = tuple((u, base[u] + 1) for u in self._writes(other))
                after = self._swapped(put(s, "look", ()), s[0], moved, other, "commit")
                yield f"{who} publishes {name_of(other)} first", after
        elif decision is Decision.FINISH:
            gone = (*s[:2], tuple(one for one in s[2] if one[0] != other), *s[3:])
            yield f"{who} clears the intent of {name_of(other)}", put(gone, "look", ())
        elif any(
            head > base[u] and not exact for u, (_, head, exact, _l) in zip(self._writes(other), tables, strict=True)
        ):
            yield f"{who}: {name_of(other)} can come to nothing", put(s, "undo", nothing)

    def _abort_swap(self, s: Node, pid: int, held: Node, restored: Node, put: Any) -> Iterator[tuple[str, Node]]:
        who = name_of(pid)
        if not held[0] and self.rules.strict:
            yield f"{who}: the abort lost its swap", put(s, "look")
            return
        moved = tuple((t, version) for t, _, version in restored)
        after = self._swapped(put(s, "end"), s[0], moved, pid, "abort")
        yield f"{who} ends by an abort, pins {after[0][0]}", after
        if s[7][0]:
            yield f"{who} ends by an abort: no answer", self._spent(self._fly(put(s, "look"), ("swap", after[0])), 0)

    # --- recovery ---------------------------------------------------------------------------------------------------------

    def _witness(
        self, s: Node, pid: int, base: Node, manifest: Node, *, gone: bool
    ) -> tuple[Decision, tuple[tuple[int, int, bool, bool], ...]]:
        tables = []
        for t in self._writes(pid):
            pin, head = manifest[0][t], len(s[1][t]) - 1
            place = base[t] + 1
            at_place = head >= place and (s[1][t][place][1] == pid and s[1][t][place][0] != RESTORE)
            if not self.rules.exact:
                at_place = head >= place
            stands = any(v[1] == pid and v[0] != RESTORE for v in s[1][t][place:])
            tables.append((pin, head, pin == base[t] and at_place, stands))
        return self._decision(pid, self._end(pid, manifest), gone, tuple(tables)), tuple(tables)

    def _recoverer(self, s: Node, number: int) -> Iterator[tuple[str, Node]]:
        at, pid, base, held, touched, restored = s[4][number]
        rec = "recovery of "
        if at == "idle":
            if s[7][2]:
                for intent in s[2]:
                    begun = ("read", intent[0], intent[1], (True, s[0]), (), ())
                    yield f"{rec}{name_of(intent[0])} begins", self._with_recoverer(self._spent(s, 2), number, begun)
            return
        who = rec + name_of(pid)

        def now(at: str, **changes: Any) -> Node:
            values = {"pid": pid, "base": base, "held": held, "touched": touched, "restored": restored}
            values.update(changes)
            return (at, *values.values())

        def become(state: Node, at: str, **changes: Any) -> Node:
            return self._with_recoverer(state, number, now(at, **changes))

        idle = ("idle", -1, (), (), (), ())
        end = self._end(pid, s[0]) if self.rules.stranger_looks else ""
        match at:
            case "read":
                decision, tables = self._witness(s, pid, base, held[1], gone=True)
                drifted = tuple(t for t, one in zip(self._writes(pid), tables, strict=True) if one[1] > one[0])
                if decision is Decision.FINISH:
                    audit = "audit back" if pid in held[1][2] else "audit forward"
                    yield f"{who}: it has ended", become(s, audit, held=())
                elif decision is Decision.ROLL_FORWARD:
                    yield f"{who}: forward", become(s, "forward", held=())
                elif decision is Decision.ROLL_BACK:
                    yield f"{who}: back", become(s, "look", held=(), touched=drifted)
                elif decision is Decision.STOP:
                    yield f"{who} stops: durable state contradicts itself", become(s, "stopped", held=())
            case "forward":
                verdict = self._verdict(*s[0], pid, base)
                if verdict is Check.PUBLISHED:
                    yield f"{who}: it is published", become(s, "audit forward")
                elif verdict is Check.GO:
                    moved = tuple((t, base[t] + 1) for t in self._writes(pid))
                    yield f"{who} publishes it", self._swapped(become(s, "audit forward"), s[0], moved, pid, "commit")
                else:
                    # What drifts is looked at again, as the engine does with what it saw before.
                    yield f"{who} is refused: {verdict.value}", become(s, "look", touched=self._writes(pid))
            case "look":
                if end == "commit":
                    yield f"{who}: it was published", become(s, "audit forward", restored=())
                elif end:
                    yield f"{who}: it was aborted", become(s, "audit back", restored=())
                else:
                    yield f"{who} reads {s[0][0]}", become(s, "undo", held=(True, s[0][0]))
            case "undo":
                put = lambda state, at_, kept: become(state, at_, restored=kept)  # noqa: E731
                yield from self._undo_step(s, pid, held, restored, touched, frozenset(), False, put)
            case "abort":
                following = {"end": "audit back", "look": "look"}
                end_at = lambda state, at_: become(state, following[at_])  # noqa: E731
                yield from self._abort_swap(s, pid, held, restored, end_at)
            case "audit back" | "audit forward":
                kind = (pid, at)
                noted = s[8] if any(one[0] == pid for one in s[8]) else tuple(sorted((*s[8], kind)))
                after = become(s, "clear", held=(), touched=(), restored=())
                yield f"{who}: {at}", (*after[:8], noted)
            case "clear":
                gone = (*s[:2], tuple(one for one in s[2] if one[0] != pid), *s[3:])
                yield f"{who}: the intent is gone", self._with_recoverer(gone, number, idle)

    # --- maintenance --------------------------------------------------------------------------------------------------------

    def _upkeep(self, s: Node) -> Iterator[tuple[str, Node]]:
        at, read, own, done = s[5]
        if at == "rewrite":
            base = read if done else s[0][0][0]
            landed = self._land(s[1][0], UPKEEP, UPKEEP_ID, base)
            if landed is None:
                yield "upkeep is refused", (*s[:5], (), *s[6:])
                return
            version = len(landed) - 1
            step = ("publish", version, (*own, version), done + 1)
            after = self._with_table(s, 0, landed)
            yield f"upkeep commits T0 at {version}", (*after[:5], step, *after[6:])
            if done + 1 < self.setting.upkeep:
                yield f"upkeep commits T0 at {version}, goes on", (*after[:5], ("rewrite", *step[1:]), *after[6:])
        elif at == "publish":
            pin = s[0][0][0]
            forward = self.rules.fast_forward(
                same_line=True, pin=pin, achieved=own[-1], own=frozenset(own), trusted=True
            )
            following = ("rewrite", own[-1], own, done) if done < self.setting.upkeep else ()
            if forward is Forward.PUBLISH:
                after = self._swapped((*s[:5], following, *s[6:]), s[0], ((0, own[-1]),), UPKEEP_ID, "")
                yield f"upkeep publishes T0 at {own[-1]}", after
            else:
                yield f"upkeep does not publish: {forward.value}", (*s[:5], (), *s[6:])

    # --- properties -----------------------------------------------------------------------------------------------------------

    def check(self, s: Node) -> str | None:
        """What must hold in every reachable state."""
        pins, commits, aborts = s[0]
        operations = [self.setting.operations[pid >> 2] for pid in commits]
        if len(set(operations)) != len(operations):
            return f"double apply: {[name_of(pid) for pid in commits]}"
        both = set(commits) & set(aborts)
        if both or len(set(aborts)) != len(aborts):
            return f"a plan ended twice: {[name_of(pid) for pid in both or aborts]}"
        for t, pin in enumerate(pins):
            if pin >= len(s[1][t]):
                return f"T{t} is pinned at {pin}, beyond its head"
            shown, wanted = s[1][t][pin][2], tuple(pid for pid in commits if t in self._writes(pid))
            if shown != wanted:
                foreign = [name_of(pid) for pid in shown if pid not in wanted]
                lost = [name_of(pid) for pid in wanted if pid not in shown]
                return f"foreign bytes: T{t} shows {foreign}" if foreign else f"lost commit: T{t} misses {lost}"
        for number, writer in enumerate(s[3]):
            landed = any(pid >> 2 == number for pid in commits)
            if writer[6] == "ok" and not landed and not self._keyed(number, commits):
                return f"lost commit: {'ABCDEF'[number]} was acknowledged"
            if writer[6] == "failed" and landed:
                return f"false failure: {'ABCDEF'[number]} was told a conflict and is published"
        for pid, kind in s[8]:
            if kind == "write skew":
                return f"write skew: {name_of(pid)} is published over a read set that changed"
            if kind == "audit back" and pid in commits:
                return f"audit lie: {name_of(pid)} is audited as rolled back and is published"
            if kind == "audit forward" and pid not in commits:
                return f"audit lie: {name_of(pid)} is audited as rolled forward and is not published"
        if any(recoverer[0] == "stopped" for recoverer in s[4]):
            return "false alarm: a recovery takes durable state for damaged"
        return None

    def _keyed(self, number: int, commits: tuple[int, ...]) -> bool:
        return any(self.setting.operations[pid >> 2] == self.setting.operations[number] for pid in commits)

    def _note_skew(self, s: Node, pid: int) -> Node:
        """At a publish: what the plan was checked against must still be the content that is there."""
        base = dict(s[2]).get(pid)
        reads = self.setting.reads[pid >> 2]
        if base is None or all(s[1][t][base[t]][2] == s[1][t][s[0][0][t]][2] for t in reads):
            return s
        return (*s[:8], (*s[8], (pid, "write skew")))


def _record(pid: int, end: str) -> HistoryRow | None:
    """The record by which a plan ended."""
    if end == "commit":
        return CommitRow(str(pid), (), None, 0, None, 2, "load")
    return AbortRow(str(pid), None, 1, 0) if end else None
