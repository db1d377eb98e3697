"""Internal compaction: merge the archive fragments of ``__manifest``, so that looking up an old commit stays cheap.

One swap that adds no graph commit and changes no row. History is never deleted; it only lies in fewer files.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.commit.advance import ONE_ROW, Answer, Answered, GaveUp, Spots, Swap, Swapped, Terms, advance
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.core.errors import Conflict, InvalidInput
from omnigraph.core.meter import Meter
from omnigraph.manifest.swap import Held, Merged
from omnigraph.wire.optimize import ManifestReport

ROWS_MAX = 65_536  # of one merged fragment: some 20 MB of receipts, read whole by a look-up that comes so far


def compact_manifest(
    engine: Engine, *, fragments_max: int | None = None, branch: str = MAIN, meter: Meter | None = None
) -> ManifestReport:
    """Merge archive fragments where there are more than ``fragments_max`` (None: where merging makes fewer)."""
    meter = meter or Meter()
    _check_bound(fragments_max)
    compacting = _Compacting(engine, branch, fragments_max, meter)
    ended = advance(
        engine,
        branch,
        compacting.propose,
        Terms(ONE_ROW, spots=Spots("compact.before_swap", "compact.after_swap")),
        meter=meter,
    )
    if isinstance(ended, Swapped):
        return compacting.report(ended.held)
    if isinstance(ended, Answered):
        return compacting.report(ended.held)
    error = ended.error if isinstance(ended, GaveUp) else None
    if error is not None:
        raise error
    raise Conflict("the archive of __manifest could not be merged: other writers were faster every time")


@dataclass
class _Compacting:
    engine: Engine
    branch: str
    fragments_max: int | None
    meter: Meter
    first: tuple[int, int] | None = None  # version and archive fragments at the start
    merged: Merged | None = None

    def propose(self, held: Held) -> Swap | Answer[None]:
        sizes = self.engine.manifest.archive_sizes(held)
        self.first = self.first or (held.version, len(sizes))
        groups = plan_merges(sizes, fragments_max=self.fragments_max)
        if not groups:
            return Answer(None)
        if self.merged is None or not self.merged.fits(held):
            self.merged = self.engine.manifest.merge_archives(held, groups, self.meter)
        return Swap(self.merged, {})

    def report(self, held: Held) -> ManifestReport:
        sizes = self.engine.manifest.archive_sizes(held)
        version, fragments = self.first or (held.version, len(sizes))
        changed = len(sizes) < fragments
        return ManifestReport(
            self.branch, fragments, len(sizes), sum(sizes), version, held.version if changed else version
        )


def _check_bound(value: object) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise InvalidInput(f"fragments_max is a whole number of 1 or more, not {value!r}")


def plan_merges(sizes: list[int], *, fragments_max: int | None, rows_max: int = ROWS_MAX) -> list[tuple[int, int]]:
    """Runs of neighbouring archive fragments, as (first, last + 1), that become one fragment each. Pure.

    Neighbours only, so that the archive stays in order; a run ends where it would pass ``rows_max`` rows.
    """
    if fragments_max is not None and len(sizes) <= fragments_max:
        return []
    runs: list[tuple[int, int]] = []
    start = 0
    rows = 0
    for index, size in enumerate(sizes):
        if index > start and rows + size > rows_max:
            runs.append((start, index))
            start, rows = index, 0
        rows += size
    runs.append((start, len(sizes)))
    return [(a, b) for a, b in runs if b - a > 1]
