"""The commit protocol on a simulated store, for exhaustive search: the decisions are the engine's own pure functions.

One step is one request. There is no time: a recoverer may take any intent at any moment; a crash is a process that is not
scheduled again, a pause one that is scheduled late, so every cut and every pause is covered by the order of steps. A lost
request stays in flight and lands at any later moment, or never.

State: (manifest, tables, intents, writers, recoverers, maintenance, in flight, budgets, audit)
    manifest     (pins, ids of commits, ids of aborts, line); its version is only ever compared with "the newest", but where
                 the tail may roll: there ``line`` is (version, records in the tail as (version, id, kind))
    table        versions as (kind, id, content); content is the sorted ids of the plans whose rows it holds
    writer       (at, attempt, base, results, held, restored, reported)
    recoverer    (at, id, base, held, touched, restored)

A plan's id is writer × 4 + attempt; where it has several requests, theirs are that and 100, 200 and so on. ``held`` is (is it the newest, pins). What may be done is asked of ``Rules``, whose
members are the engine's functions or, to see that the search would notice, ones with a guard taken out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omnigraph.commit.decide import Check, Decision
from omnigraph.commit.maintain import Forward
from omnigraph.testing.explorer import State as Node
from omnigraph.testing.protocol_world import (
    APPEND,
    MIXED,
    STRICT,
    UPKEEP,
    UPKEEP_ID,
    Rules,
    Setting,
    name_of,
    plans_of,
)
from omnigraph.testing.protocol_writers import Writers

__all__ = ["APPEND", "STRICT", "Model", "Rules", "Setting"]


class Model(Writers):
    """``start``, ``steps`` and ``check`` for the explorer."""

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

    # --- recovery ---------------------------------------------------------------------------------------------------------

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
        end = self._end(pid, s[0], base) if pid >= 0 and self.rules.stranger_looks else ""
        match at:
            case "read":
                decision, tables = self._witness(s, pid, base, held[1], gone=True)
                drifted = tuple(t for t, one in zip(self._writes(pid), tables, strict=True) if one[1] > one[0])
                if decision is Decision.FINISH:
                    audit = "audit back" if self._end(pid, held[1], base) == "abort" else "audit forward"
                    yield f"{who}: it has ended", become(s, audit, held=())
                elif decision is Decision.ROLL_FORWARD:
                    yield f"{who}: forward", become(s, "forward", held=())
                elif decision is Decision.ROLL_BACK:
                    yield f"{who}: back", become(s, "look", held=(), touched=drifted)
                elif decision is Decision.STOP:
                    yield f"{who} stops: durable state contradicts itself", become(s, "stopped", held=())
            case "forward":
                verdict = self._verdict(s[0], pid, base)
                if verdict is Check.PUBLISHED:
                    yield f"{who}: it is published", become(s, "audit forward")
                elif verdict is None:
                    yield from self._stopped(s, pid)
                elif verdict is Check.GO:
                    moved = tuple((t, base[t] + 1) for t in self._writes(pid))
                    yield (
                        f"{who} publishes it",
                        self._swapped(become(s, "audit forward"), s[0], moved, pid, "commit", base),
                    )
                else:
                    # What drifts is looked at again, as the engine does with what it saw before.
                    yield f"{who} is refused: {verdict.value}", become(s, "look", touched=self._writes(pid))
            case "look":
                if end == MIXED:
                    yield from self._stopped(s, pid)
                elif end == "commit" and not self._landed_elsewhere(pid, s[0], base):
                    yield f"{who}: it was published", become(s, "audit forward", restored=())
                elif end == "abort":
                    yield f"{who}: it was aborted", become(s, "audit back", restored=())
                else:
                    yield f"{who} reads {s[0][0]}", become(s, "undo", held=(True, s[0][0]))
            case "undo":
                put = lambda state, at_, kept: become(state, at_, restored=kept)  # noqa: E731
                yield from self._undo_step(s, pid, held, restored, touched, frozenset(), False, put)
            case "abort":
                following = {"end": "audit back", "look": "look", "published": "audit forward"}
                end_at = lambda state, at_: become(state, following[at_])  # noqa: E731
                yield from self._abort_swap(s, pid, base, held, restored, end_at)
            case "audit back" | "audit forward":
                kind = (pid, at)
                known = any(one[0] == pid and one[1][0] != "applied" for one in s[8])
                noted = s[8] if known else tuple(sorted((*s[8], kind), key=repr))
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
        pins, ids, aborts, _ = s[0]
        operations = [self._operation(one) for one in ids]
        if len(set(operations)) != len(operations):
            return f"double apply: {[name_of(one) for one in ids]}"
        commits = plans_of(ids)
        both = set(commits) & set(plans_of(aborts))
        if both or len(set(aborts)) != len(aborts):
            return f"a plan ended twice: {[name_of(pid) for pid in both or aborts]}"
        if ids != tuple(sorted(one for pid in commits for one in self._requests(pid))):
            return f"half a plan: {[name_of(one) for one in ids]}"
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
            if writer[6] == "ok" and not landed and not self._keyed(number, ids):
                return f"lost commit: {'ABCDEF'[number]} was acknowledged"
            if writer[6] == "failed" and landed:
                return f"false failure: {'ABCDEF'[number]} got a conflict and is published"
        for pid, kind in s[8]:
            if kind == ("stopped",):
                return f"false alarm: the records of {name_of(pid)} are taken for damaged"
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
        own = {self._operation(one) for one in self._requests(number * 4)}
        return any(self._operation(one) in own for one in commits)
