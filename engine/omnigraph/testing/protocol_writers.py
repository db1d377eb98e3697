"""A writer of the protocol's model, step by step: open, arm, apply, publish, acknowledge, or give up."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from omnigraph.commit.decide import Check
from omnigraph.testing.explorer import State as Node
from omnigraph.testing.protocol_endings import Endings
from omnigraph.testing.protocol_world import MIXED, REFUSED, RESTORE, UNKNOWN, UNSENT, name_of


class Writers(Endings):
    """``now`` makes the writer as it is after a step."""

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
                yield (
                    f"{who} opens at {s[0][0]}",
                    self._with_writer(s, number, now("arm", base=self._base(s), results=blank)),
                )
            case "arm":
                armed = (*s[:2], tuple(sorted((*s[2], (pid, base)))), *s[3:])
                yield f"{who} arms", self._with_writer(armed, number, now("apply"))
            case "apply":
                yield from self._apply(s, number, pid, now)
                if not self.rules.applied_last:
                    yield from self._say_applied(s, pid, base)
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
        verdict = self._verdict(s[0], pid, base)
        if verdict is Check.PUBLISHED:
            yield f"{name_of(pid)} finds itself published", self._with_writer(s, number, now("acknowledge"))
            return
        if verdict is None:
            yield from self._stopped(s, pid)
            return
        if verdict is not Check.GO:
            yield f"{name_of(pid)} is refused: {verdict.value}", self._with_writer(s, number, now("look"))
            return
        moved = self._targets(pid, base, results)
        alone = self._swapped(self._with_writer(s, number, now("acknowledge")), s[0], moved, pid, "commit", base)
        yield from self._say_applied(s, pid, base)
        for company in self._companies(s, pid, base):
            after = alone
            for other, of in company:
                moved = tuple((t, of[t] + 1) for t in self._writes(other))
                after = self._swapped(after, after[0], moved, other, "commit", of)
            beside = "".join(f" and {name_of(other)}" for other, _ in company)
            yield f"{name_of(pid)} publishes {after[0][0]}{beside}", after
            if s[7][0]:
                yield f"{name_of(pid)} publishes{beside}: no answer", self._spent(self._fly(s, ("swap", after[0])), 0)
        if s[7][1]:
            yield f"{name_of(pid)} runs out of attempts", self._spent(self._with_writer(s, number, now("look")), 1)

    def _say_applied(self, s: Node, pid: int, base: Node) -> Iterator[tuple[str, Node]]:
        said = (pid, ("applied", base))
        if self.setting.combining and said not in s[8]:
            yield f"{name_of(pid)} says that it is applied", (*s[:8], tuple(sorted((*s[8], said), key=repr)))

    def _companies(self, s: Node, pid: int, base: Node) -> list[tuple[tuple[int, Node], ...]]:
        """What a swap may take along, by what its author has read of the plans that were ever called applied: each set of them,
        because a listing may be old, and an intent that was read may be gone."""
        ever = [(one, kind[1]) for one, kind in s[8] if kind[0] == "applied" and one != pid]
        found: dict[tuple[tuple[int, Node], ...], None] = {(): None}
        for known in (some for width in range(1, len(ever) + 1) for some in combinations(ever, width)):
            taken = self._taken(s[0], pid, base, known)
            found[tuple((one, dict(known)[one]) for one in taken)] = None
        return list(found)

    def _give_up(self, s: Node, number: int, pid: int, now: Any) -> Iterator[tuple[str, Node]]:
        at, _, base, results, held, restored, _ = s[3][number]
        who = name_of(pid)
        if at == "look":
            end = self._end(pid, s[0], base) if self.rules.looks_for_itself else ""
            if end == MIXED:
                yield from self._stopped(s, pid)
            elif end == "commit" and not self._landed_elsewhere(pid, s[0], base):
                yield f"{who} gives up, and finds itself published", self._with_writer(s, number, now("acknowledge"))
            elif end == "abort":
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
        dead = any(held[1][t] != base[t] for t in self._writes(pid)) and not self._leaves_record(s, number)
        if (not restored and dead) or not self.rules.aborts:
            label = f"{who} is dead by a moved pin" if dead else f"{who} leaves without a record"
            yield label, self._with_writer(s, number, now("end"))
            return
        following = {"published": "acknowledge"}
        yield from self._abort_swap(
            s,
            pid,
            base,
            held,
            restored,
            lambda state, at_: self._with_writer(state, number, now(following.get(at_, at_))),
        )
