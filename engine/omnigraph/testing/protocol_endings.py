"""How a plan of the protocol's model comes to its end other than by its owner's publish: undone table by table, given way to,
aborted by a swap. The same steps for an owner that gives up and for a recovery.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omnigraph.commit.decide import Check, Decision, Undo
from omnigraph.testing.explorer import State as Node
from omnigraph.testing.protocol_world import CARRIED, RESTORE, UPKEEP, World, name_of


class Endings(World):
    """``put`` says where an actor goes on after a step: it is given the state, the next place and what stands of restores."""

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
            if self._verdict(s[0], other, base) is Check.GO:
                moved = tuple((u, base[u] + 1) for u in self._writes(other))
                after = self._swapped(put(s, "look", ()), s[0], moved, other, "commit", base)
                yield f"{who} publishes {name_of(other)} first", after
        elif self._end(other, s[0], base) in ("", CARRIED) and any(
            head > base[u] and not exact for u, (_, head, exact, _l) in zip(self._writes(other), tables, strict=True)
        ):
            yield f"{who}: {name_of(other)} can come to nothing", put(s, "undo", nothing)

    def _landed_elsewhere(self, pid: int, manifest: Node, base: Node) -> bool:
        """Whether another plan has published all that this one was to publish."""
        return False

    def _leaves_record(self, s: Node, number: int) -> bool:
        """Whether the plan of a writer is given up by a record even where a moved pin has ended it already."""
        return False

    def _abort_swap(
        self, s: Node, pid: int, base: Node, held: Node, restored: Node, put: Any
    ) -> Iterator[tuple[str, Node]]:
        who = name_of(pid)
        if not held[0] and self.rules.strict:
            yield f"{who}: the abort lost its swap", put(s, "look")
            return
        moved = tuple((t, version) for t, _, version in restored)
        after = self._swapped(put(s, "end"), s[0], moved, pid, "abort", base)
        yield f"{who} ends by an abort, pins {after[0][0]}", after
        if s[7][0]:
            yield f"{who} ends by an abort: no answer", self._spent(self._fly(put(s, "look"), ("swap", after[0])), 0)

    @staticmethod
    def _stopped(s: Node, pid: int) -> Iterator[tuple[str, Node]]:
        """Who finds records that one swap does not write stops, and says so."""
        yield f"{name_of(pid)} stops: its records contradict each other", (*s[:8], (*s[8], (pid, ("stopped",))))

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
        return self._decision(pid, self._end(pid, manifest, base), gone, tuple(tables)), tuple(tables)
