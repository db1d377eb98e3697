"""What lines of the manifest say about ancestors, read when it is asked for: forks, merges, and the commits that merges carry.

Rows are found on the line itself, on the lines that it was made from, on main's, and among the rows that merges have carried: a
line that was deleted is not needed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from omnigraph.commit import parents
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.core.errors import Corruption, LimitExceeded
from omnigraph.core.meter import Meter
from omnigraph.manifest.ancestry import Join, LineHistory, Place, reach
from omnigraph.manifest.rows import CommitRow, MergedRow
from omnigraph.manifest.state import MERGED_ROWS_MAX
from omnigraph.manifest.swap import Held


def place_of(held: Held) -> Place:
    """Where a state stands in the history of the graph."""
    return Place(held.state.ref, held.version, held.state.head.commit_id)


@dataclass
class GraphLines:
    """The lines that some states stand on, by their ref. Calling it returns the history of one line."""

    engine: Engine
    meter: Meter
    held: dict[str | None, Held] = field(default_factory=dict)
    carried: dict[str, dict[str, CommitRow]] = field(default_factory=dict)  # of each line: what merges have carried
    known: dict[str | None, LineHistory] = field(default_factory=dict)

    @classmethod
    def of(cls, engine: Engine, states: Iterable[Held], meter: Meter) -> GraphLines:
        """With all lines that these states rest on, and main's newest."""
        made = cls(engine, meter)
        main = engine.known(MAIN) or engine.latest(MAIN, meter)
        for state in (main, *states):
            for one in parents.lineage(engine, state, meter):
                before = made.held.get(one.state.ref)
                if before is None or before.version < one.version:
                    made.held[one.state.ref] = one
        for one in made.held.values():
            for row in engine.history.joins(one, meter):
                if isinstance(row, MergedRow) and row.row.ref is not None:
                    made.carried.setdefault(row.row.ref, {})[row.row.commit_id] = row.row
        return made

    def __call__(self, ref: str | None) -> LineHistory:
        found = self.known.get(ref)
        if found is None:
            found = self.known[ref] = LineHistory(self._fork(ref), tuple(self._joins(ref)))
        return found

    def _fork(self, ref: str | None) -> Place | None:
        held = self.held.get(ref)
        if held is not None:
            parent = held.state.head.parent
            return None if parent is None else Place(parent.ref, parent.manifest_version, parent.commit)
        rows = self.carried.get(ref or "", {})
        oldest = min(rows.values(), key=lambda row: row.manifest_version, default=None)
        if oldest is None or not oldest.parents:
            raise Corruption(
                f"the history of line {ref} is on no line that can be read",
                hint="run `omnigraph verify --deep`, which names what cannot be read",
                object="__manifest",
            )
        return self._find(oldest.parents[0])

    def _joins(self, ref: str | None) -> Iterator[Join]:
        rows = dict(self.carried.get(ref or "", {}))
        held = self.held.get(ref)
        if held is not None:
            rows |= {
                row.commit_id: row for row in self.engine.history.joins(held, self.meter) if isinstance(row, CommitRow)
            }
        for row in sorted(rows.values(), key=lambda row: row.manifest_version):
            if row.merge is not None:
                source = Place(row.merge["ref"], row.merge["manifest_version"], row.merge["commit"])
                yield Join(row.manifest_version, source)

    def _find(self, commit_id: str) -> Place:
        """Where a commit stands, among what was carried and on the lines that are known."""
        for rows in self.carried.values():
            if commit_id in rows:
                return Place(rows[commit_id].ref, rows[commit_id].manifest_version, commit_id)
        for held in self.held.values():
            row = self.engine.history.find(held, commit_id, meter=self.meter)
            if isinstance(row, CommitRow):
                return Place(row.ref, row.manifest_version, commit_id)
        raise Corruption(
            f"commit {commit_id}, from which a merged branch was made, is in no history that can be read",
            hint="run `omnigraph verify --deep`, which names what cannot be read",
            object="__manifest",
            commit_id=commit_id,
        )

    def rows(self, ref: str, since: int, until: int) -> Iterator[CommitRow]:
        """The commits of a line after one version and up to another."""
        held = self.held.get(ref)
        found = dict(self.carried.get(ref, {}))
        if held is not None:
            for row in self.engine.history.rows(held, self.meter):
                if row.version <= since:
                    break
                if isinstance(row, CommitRow):
                    found[row.commit_id] = row
        yield from (row for row in found.values() if since < row.manifest_version <= until)


def merged_rows(lines: GraphLines, source: Place, target: Held) -> tuple[MergedRow, ...]:
    """The commits that a merge carries along, oldest first: what the source reaches and the target does not, on lines that can
    be deleted."""
    have = reach([place_of(target)], lines)
    found: dict[str, CommitRow] = {}
    for ref, place in reach([source], lines).items():
        if ref is None or ref == target.state.ref:
            continue
        before = have.get(ref)
        if before is None or not before.reaches(place):
            found |= {
                row.commit_id: row for row in lines.rows(ref, 0 if before is None else before.version, place.version)
            }
    if len(found) > MERGED_ROWS_MAX:
        raise LimitExceeded(
            f"the merge carries {len(found)} commits; {MERGED_ROWS_MAX} are allowed",
            hint="merge an older commit of the source first",
            limit="merged_commits",
            bound=MERGED_ROWS_MAX,
            actual=len(found),
        )
    return tuple(MergedRow(row) for row in _in_order(found))


def _in_order(rows: dict[str, CommitRow]) -> Iterator[CommitRow]:
    """Parents before children; among those that may come next, the oldest."""
    waiting = {one: {p for p in row.parents if p in rows} for one, row in rows.items()}
    children: dict[str, list[str]] = {}
    for one, before in waiting.items():
        for parent in before:
            children.setdefault(parent, []).append(one)
    ready = [(rows[one].created_at_us, one) for one, before in waiting.items() if not before]
    heapq.heapify(ready)
    while ready:
        _, one = heapq.heappop(ready)
        yield rows[one]
        for child in children.get(one, ()):
            waiting[child].discard(one)
            if not waiting[child]:
                heapq.heappush(ready, (rows[child].created_at_us, child))
