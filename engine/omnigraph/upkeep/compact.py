"""Internal compaction: merge the archive fragments of ``__manifest``, so that looking up an old commit stays cheap.

One swap that adds no graph commit and changes no row. History is never deleted; it only lies in fewer files.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.commit.decide import swap_stands
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.core import failpoints
from omnigraph.core.errors import Conflict, InvalidInput
from omnigraph.core.ids import new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest.swap import Merged, SwapLost, SwapUnknown
from omnigraph.upkeep.report import Report

ROWS_MAX = 65_536  # of one merged fragment: some 20 MB of receipts, read whole by a look-up that comes so far
ATTEMPTS_MAX = 30


@dataclass(frozen=True, repr=False)
class ManifestReport(Report):
    """Archive fragments of ``__manifest`` before and after."""

    branch: str
    fragments_before: int
    fragments: int
    rows: int
    version_before: int
    version: int

    @property
    def changed(self) -> bool:
        return self.version != self.version_before

    def to_dict(self) -> dict[str, object]:
        return {**super().to_dict(), "changed": self.changed}

    def __repr__(self) -> str:
        if not self.changed:
            return f"<ManifestReport {self.branch}: {self.fragments} archive fragments, nothing to do>"
        return f"<ManifestReport {self.branch}: {self.fragments_before} archive fragments to {self.fragments}>"


def compact_manifest(
    engine: Engine, *, fragments_max: int | None = None, branch: str = MAIN, meter: Meter | None = None
) -> ManifestReport:
    """Merge archive fragments where there are more than ``fragments_max`` (None: where merging makes fewer)."""
    meter = meter or Meter()
    _check_bound(fragments_max)
    if engine.read_only:
        raise InvalidInput("the graph was opened read-only", hint="open it with read_only=False")
    merged: Merged | None = None
    first: tuple[int, int] | None = None
    for attempt in range(1, ATTEMPTS_MAX + 1):
        held = engine.latest(branch, meter)
        sizes = engine.manifest.archive_sizes(held)
        first = first or (held.version, len(sizes))
        groups = plan_merges(sizes, fragments_max=fragments_max)
        if not groups:
            return ManifestReport(branch, first[1], len(sizes), sum(sizes), first[0], first[0])
        if merged is None or not merged.fits(held):
            merged = engine.manifest.merge_archives(held, groups, meter)
        try:
            failpoints.hit("compact.before_swap")
            after = engine.manifest.swap_archives(held, merged, uuid=new_uuid(), meter=meter)
            failpoints.hit("compact.after_swap")
        except (SwapLost, SwapUnknown):
            engine.clock.sleep(engine.manners.jitter_s(min(attempt, 6)))
            continue
        doomed = engine.boundary.value(after.state.identity, meter=meter)
        if swap_stands(after.version, doomed):
            engine.remember(branch, after)
            now = engine.manifest.archive_sizes(after)
            return ManifestReport(branch, first[1], len(now), sum(now), first[0], after.version)
        engine.drop(branch)
    raise Conflict("the archive of __manifest could not be merged: other writers were faster every time")


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
