"""What a graph file says of upkeep: when what is done."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from omnigraph_pipelines.setting_kinds import Count, Cron, Duration, Part


class OptimizeSettings(Part):
    cron: Cron = "0 2 * * *"
    """When it runs."""
    target_rows: Count | None = None
    """Rows of a full fragment."""
    memory_mb: Count | None = None
    """Memory for rewriting."""
    enabled: bool = True
    """Whether its schedule is on."""


class CleanupSettings(Part):
    cron: Cron = "30 2 * * *"
    """When it runs."""
    keep: Count = 10
    """How many of the newest commits stay."""
    older_than: Duration | None = "7d"
    """Commits younger than this stay."""
    min_age: Duration = "1h"
    """Nothing younger than this is deleted."""
    versions_max: Count = 1000
    """High mark: a backlog of so many versions starts a cleanup before the night."""
    versions_low: Annotated[int, Field(ge=0)] | None = None
    """Low mark; a quarter of the high mark if left out."""
    interval_s: Annotated[int, Field(ge=5)] = 60
    """Seconds between two looks."""
    enabled: bool = True
    """Whether its schedule and its sensor are on."""

    @property
    def low(self) -> int:
        return self.versions_max // 4 if self.versions_low is None else self.versions_low

    @model_validator(mode="after")
    def _marks(self) -> Self:
        if self.low >= self.versions_max:
            raise ValueError("versions_low is below versions_max")
        return self


class CompactionSettings(Part):
    fragments_max: Count = 64
    """High mark: so many archive fragments start a merge."""
    fragments_low: Annotated[int, Field(ge=0)] | None = None
    """Low mark; a quarter of the high mark if left out."""
    interval_s: Annotated[int, Field(ge=5)] = 30
    """Seconds between two looks."""
    enabled: bool = True
    """Whether its sensor is on."""

    @property
    def low(self) -> int:
        return self.fragments_max // 4 if self.fragments_low is None else self.fragments_low

    @model_validator(mode="after")
    def _marks(self) -> Self:
        if self.low >= self.fragments_max:
            raise ValueError("fragments_low is below fragments_max")
        return self


class ReconcileSettings(Part):
    interval_s: Annotated[int, Field(ge=5)] = 30
    """Seconds between two looks."""
    grace_s: Annotated[float, Field(ge=0, strict=False)] = 60
    """How long a write whose owner may live is left alone."""
    enabled: bool = True
    """Whether its sensor is on."""


class ScrubSettings(Part):
    cron: Cron = "0 4 * * 0"
    """When it runs."""
    bytes_per_s: Count = 50_000_000
    """How many bytes are read a second at most, beside writers and readers."""
    enabled: bool | None = None
    """Whether its schedule is on; if left out it is, unless the graph is on an object store, which checks its bytes itself."""

    def is_on(self, uri: str) -> bool:
        return "://" not in uri if self.enabled is None else self.enabled


class UpkeepSettings(Part):
    """What keeps the graph fast and small. ``paused`` leaves everything in place, switched off."""

    optimize: OptimizeSettings = Field(default_factory=OptimizeSettings)
    """Fewer and larger files, by night."""
    cleanup: CleanupSettings = Field(default_factory=CleanupSettings)
    """Deletes versions that nothing needs."""
    compaction: CompactionSettings = Field(default_factory=CompactionSettings)
    """Merges the archive of the graph's history."""
    reconcile: ReconcileSettings = Field(default_factory=ReconcileSettings)
    """Ends writes that were left behind."""
    scrub: ScrubSettings = Field(default_factory=ScrubSettings)
    """Compares every file on a local disk with its checksum."""
    timezone: str = "UTC"
    """Of the schedules."""
    paused: bool = False
    """Everything in place, switched off."""
