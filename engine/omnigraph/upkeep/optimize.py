"""Optimize: fewer and larger files, indexes that cover them, and a short archive of ``__manifest``.

Content never changes: every step may lose against a living writer, is planned again within a budget, and what stays undone is
named with its reason. A run that finds nothing to do writes nothing.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.recovery import audit
from omnigraph.core import progress
from omnigraph.core.allocator import give_freed_memory_back
from omnigraph.core.errors import InvalidInput, OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.table import compaction
from omnigraph.table.compaction import Limits
from omnigraph.upkeep.branch_upkeep import BranchUpkeep
from omnigraph.upkeep.compact import compact_manifest
from omnigraph.upkeep.fold_checksums import fold_checksums
from omnigraph.wire.optimize import OptimizeReport, TableReport

_LIMIT_MAX = 1 << 40  # of rows or megabytes: as good as none, and a number that Lance takes


def optimize(
    engine: Engine,
    *,
    types: Iterable[str] | None = None,
    target_rows: int | None = None,
    memory_mb: int | None = None,
    branches: Sequence[str] | None = None,
    settle: bool | None = None,
    actor: str | None = None,
    meter: Meter | None = None,
) -> OptimizeReport:
    """Compact, fold and build indexes, strip settings that delete versions, then compact ``__manifest``. ``settle``: whether files
    of other lines are copied into the line of a table; None: on main, up to a bound."""
    limits = check_limits(target_rows, memory_mb)
    if settle is not None and not isinstance(settle, bool):
        raise InvalidInput(f"settle is True, False or None, not {settle!r}")
    if limits.memory_mb is not None:
        give_freed_memory_back()
    chosen = _Chosen(limits, rewrites=True, folds=True, settle=settle)
    return _run(engine, types, branches, chosen, actor, meter or Meter())


def ensure_indices(
    engine: Engine, *, branch: str = MAIN, actor: str | None = None, meter: Meter | None = None
) -> OptimizeReport:
    """Build what the schema asks for and is missing. Nothing is rewritten."""
    return _run(engine, None, (branch,), _Chosen(), actor, meter or Meter())


def rewrite_dropped(
    engine: Engine,
    keys: Iterable[str] | None,
    *,
    branch: str = MAIN,
    actor: str | None = None,
    meter: Meter | None = None,
) -> tuple[TableReport, ...]:
    """Rewrite the fragments that hold columns which the schema no longer has; nothing else. ``keys``: tables; None for all."""
    run = BranchUpkeep(engine, branch, Limits(dropped_only=True), actor, meter or Meter())
    run.select(keys)
    run.rewrite_planned()
    return tuple(run.reports.values())


@dataclass(frozen=True)
class _Chosen:
    """What a run does beside building indexes that are missing. ``settle``: as the caller said it."""

    limits: Limits = field(default_factory=Limits)
    rewrites: bool = False
    folds: bool = False
    settle: bool | None = False

    def settled_bytes_max(self, engine: Engine, branch: str) -> float:
        """How many bytes of other lines are copied for one table."""
        if self.settle is None:
            return engine.limits.settled_bytes if branch == MAIN else 0
        return math.inf if self.settle else 0


def check_limits(target_rows: object, memory_mb: object) -> Limits:
    for name, value, least in (("target_rows", target_rows, 1), ("memory_mb", memory_mb, compaction.MEMORY_MB_MIN)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise InvalidInput(f"{name} is a whole number of {least} or more, not {value!r}")
    assert target_rows is None or isinstance(target_rows, int)
    assert memory_mb is None or isinstance(memory_mb, int)
    return Limits(_bounded(target_rows), _bounded(memory_mb))


def _bounded(limit: int | None) -> int | None:
    return None if limit is None else min(limit, _LIMIT_MAX)


def _run(
    engine: Engine,
    types: Iterable[str] | None,
    branches: Sequence[str] | None,
    chosen: _Chosen,
    actor: str | None,
    meter: Meter,
) -> OptimizeReport:
    if isinstance(branches, str):
        raise InvalidInput("branches is a list of names", hint=f"pass branches=[{branches[:80]!r}]")
    branches = tuple(branches) if branches is not None else (MAIN,)
    tables: list[TableReport] = []
    commits: list[str] = []
    manifest = None
    for branch in branches:
        run = BranchUpkeep(engine, branch, chosen.limits, actor, meter)
        run.select(types)
        if chosen.rewrites:
            run.rewrite()
            run.settle(chosen.settled_bytes_max(engine, branch))
        with progress.phase("indexing", unit="tables", total=len(run.reports)):
            run.index(folds=chosen.folds)
        tables += run.reports.values()
        commits += run.commits
        if chosen.rewrites:
            manifest = compact_manifest(engine, branch=branch, meter=meter)
    if chosen.rewrites:
        with contextlib.suppress(OmnigraphError):
            # The records stay files where they are, and are still read; the next run moves them.
            audit.fold(engine, meter)
        fold_checksums(engine)
    return OptimizeReport(engine.uri, branches, tuple(tables), manifest, tuple(commits))
