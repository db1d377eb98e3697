"""What a graph file may say: one graph, where its batches come from, how it is kept.

Owns the names, kinds, bounds and defaults of every setting. Strict: an unknown key or a wrong kind is an error. Reads no
file and knows neither Dagster nor Spark; ``graph_file`` reads the YAML and names lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from omnigraph_pipelines.setting_kinds import SETTLE_S, Count, EnvRef, Name, Part, Text, text_of
from omnigraph_pipelines.source_settings import CheckSettings, FreshnessSettings, SourceSettings, TableSettings
from omnigraph_pipelines.upkeep_settings import UpkeepSettings


class GraphSettings(Part):
    """Which graph. Made from the schema at its first run if there is none."""

    name: Name
    """First part of asset keys."""
    uri: Text
    """Where the graph is: a path or a URI such as s3://bucket/prefix."""
    schema_file: str = Field(alias="schema")
    """A .pg file. The graph is made from it where there is none."""
    branch: str = "main"
    """The branch that is fed and kept."""
    storage_options: dict[str, Text] = Field(default_factory=dict)
    """Connection of the graph's store, in the names of its options."""
    actor: str = "dagster"
    """Who commits, in the history."""
    durability: Literal["commit", "relaxed"] | None = None
    """What an acknowledged commit on a local disk survives: a power cut, or only the death of its process; as the environment
    says if left out."""
    verify_reads: bool | None = None
    """Whether each file on a local disk is compared with its checksum before its first use; as the environment says if left out."""

    @property
    def pool(self) -> str:
        """Concurrency pool of everything that publishes on the branch."""
        return f"graph_{self.name}_{re.sub(r'[^A-Za-z0-9_]', '_', self.branch)}"


class BackpressureSettings(Part):
    """From how many unmerged fragments or versions on a write warns, slows down and fails. ``null`` turns one off."""

    warn: Count | None = 500
    """From here on a write warns."""
    slow: Count | None = 2000
    """From here on a write is slowed down."""
    fail: Count | None = 10_000
    """From here on a write is refused."""

    def as_given(self) -> Mapping[str, int | None]:
        return {"warn": self.warn, "slow": self.slow, "fail": self.fail}


class WriteSettings(Part):
    """How writes are committed."""

    group: bool | None = None
    """Whether writes of several threads of a run may share a swap; as the environment says if left out."""
    combine: bool | None = None
    """Whether runs that write different tables may share a swap; as the environment says if left out. Experimental."""
    offers: bool | None = None
    """Whether runs that wait for the same tables may carry out each other's small writes; as the environment says if left out. Experimental."""


class SparkSettings(Part):
    """Which Spark. ``remote`` is a Connect server; without either it is the cores of the machine that runs."""

    master: str | None = None
    """Which Spark, such as local[*] or spark://host:7077."""
    remote: Text | None = None
    """A Spark Connect server, in place of master."""
    app_name: str = "omnigraph"
    """What Spark calls the application."""
    driver_memory: str | None = None
    """Memory of the driver, such as 4g."""
    shuffle_partitions: Count | None = None
    """spark.sql.shuffle.partitions."""
    ui: bool = False
    """Whether Spark's own page is served."""
    conf: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Any other setting of Spark."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.master is not None and self.remote is not None:
            raise ValueError("'master' and 'remote' exclude each other")
        return self


class AlertSettings(Part):
    """Where a failed run is reported besides the log. ``hook``: ``package.module:function``, called with one dict.
    ``url``: gets the same as JSON."""

    hook: str | None = None
    """package.module:function, called with one dict for each run that failed for good."""
    url: Text | None = None
    """Gets the same as JSON."""

    @field_validator("hook")
    @classmethod
    def _importable(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", value):
            raise ValueError("a hook is 'package.module:function'")
        return value


class Settings(Part):
    """A whole graph file."""

    graph: GraphSettings
    """Which graph."""
    schema_changes: Literal["refuse", "auto"] = "refuse"
    """What a batch does where the schema file is ahead of the graph. auto: applies what loses nothing; never a drop or a narrowing."""
    sources: tuple[SourceSettings, ...] = ()
    """Where batches arrive."""
    checks: CheckSettings = Field(default_factory=CheckSettings)
    """When a batch is good enough."""
    backpressure: BackpressureSettings = Field(default_factory=BackpressureSettings)
    """When writes warn, slow down and fail."""
    commit: WriteSettings = Field(default_factory=WriteSettings)
    """How writes are committed."""
    spark: SparkSettings = Field(default_factory=SparkSettings)
    """Which Spark."""
    upkeep: UpkeepSettings = Field(default_factory=UpkeepSettings)
    """What keeps the graph fast and small."""
    alerts: AlertSettings = Field(default_factory=AlertSettings)
    """Where failed runs are reported."""

    @field_validator("sources", mode="before")
    @classmethod
    def _sequence(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    def checks_of(self, source: SourceSettings) -> CheckSettings:
        return source.checks or self.checks

    def based_on(self, folder: Path) -> Settings:
        """The same with paths that are relative to ``folder`` made absolute."""
        graph = self.graph
        uri = graph.uri if isinstance(graph.uri, EnvRef) else absolute(graph.uri, folder)
        moved = graph.model_copy(update={"uri": uri, "schema_file": absolute(graph.schema_file, folder)})
        sources = tuple(
            source.model_copy(update={"batches": absolute(source.batches, folder)}) for source in self.sources
        )
        return self.model_copy(update={"graph": moved, "sources": sources})


def absolute(path: str, folder: Path) -> str:
    """A path seen from a folder; a URI stays what it is."""
    if "://" in path or os.path.isabs(path):
        return path
    joined = os.path.normpath(os.path.join(folder.absolute(), path))
    return f"{joined}/" if path.endswith("/") else joined


__all__ = [
    "SETTLE_S",
    "AlertSettings",
    "BackpressureSettings",
    "CheckSettings",
    "EnvRef",
    "FreshnessSettings",
    "GraphSettings",
    "Settings",
    "SourceSettings",
    "SparkSettings",
    "TableSettings",
    "Text",
    "UpkeepSettings",
    "WriteSettings",
    "absolute",
    "text_of",
]
