"""What a graph file may say: one graph, where its batches come from, how it is kept.

Owns the names, kinds, bounds and defaults of every setting. Strict: an unknown key or a wrong kind is an error. Reads no
file and knows neither Dagster nor Spark; ``graph_file`` reads the YAML and names lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

import omnigraph as og

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
FORMATS: Final = ("csv", "json", "ndjson", "parquet", "orc")

SETTLE_S: Final = 10.0
"""A listing without a marker is complete when it was the same at two ticks this far apart."""


def _name(value: str) -> str:
    if not NAME.match(value) or len(value) > 64:
        raise ValueError("a name has letters, digits and _, at most 64, and does not begin with a digit")
    return value


def _duration(value: str) -> str:
    if not re.fullmatch(r"\d+\s*[smhdw]", value):
        raise ValueError("a duration is a number and one of s, m, h, d, w, such as '7d'")
    return value


def _cron(value: str) -> str:
    if len(value.split()) != 5:
        raise ValueError("a cron expression has five fields, such as '0 2 * * *'")
    return value


Name = Annotated[str, AfterValidator(_name)]
Duration = Annotated[str, AfterValidator(_duration)]
Cron = Annotated[str, AfterValidator(_cron)]
Count = Annotated[int, Field(ge=1)]


class Part(BaseModel):
    """Base of every part of the file."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)


class EnvRef(Part):
    """The value of an environment variable, read when a run needs it and never shown."""

    env: str

    def value(self) -> str:
        found = os.environ.get(self.env)
        if found is None:
            raise og.errors.InvalidInput(
                f"the environment variable {self.env} is not set",
                hint=f"set {self.env} for the process that runs this",
                variable=self.env,
            )
        return found


Text = str | EnvRef


def text_of(value: Text) -> str:
    return value.value() if isinstance(value, EnvRef) else value


class GraphSettings(Part):
    """Which graph. Made from the schema at its first run if there is none."""

    name: Name
    uri: Text
    schema_file: str = Field(alias="schema")
    branch: str = "main"
    storage_options: dict[str, Text] = Field(default_factory=dict)
    actor: str = "dagster"

    @property
    def pool(self) -> str:
        """Concurrency pool of everything that publishes on the branch."""
        return f"graph_{self.name}_{re.sub(r'[^A-Za-z0-9_]', '_', self.branch)}"


class TableSettings(Part):
    """The files of a batch that hold rows of one type."""

    node: str | None = None
    edge: str | None = None
    files: str | None = None
    format: Literal["csv", "json", "ndjson", "parquet", "orc"] | None = None
    columns: dict[str, str] = Field(default_factory=dict)
    from_column: str | None = Field(default=None, alias="from")
    to_column: str | None = Field(default=None, alias="to")
    optional: bool = False

    @model_validator(mode="after")
    def _one_type(self) -> Self:
        if (self.node is None) == (self.edge is None):
            raise ValueError("a table names either a node type or an edge type: 'node: Person' or 'edge: Follows'")
        if self.node is not None and (self.from_column is not None or self.to_column is not None):
            raise ValueError("'from' and 'to' belong to edges")
        return self

    @property
    def type(self) -> str:
        return self.node or self.edge or ""

    @property
    def renamed(self) -> dict[str, str]:
        """Property, ``from`` or ``to``: the source's column."""
        ends = {"from": self.from_column, "to": self.to_column}
        return {**self.columns, **{name: column for name, column in ends.items() if column is not None}}


class CheckSettings(Part):
    """When a batch is good enough."""

    on_bad_row: Literal["fail", "quarantine"] = "fail"
    bad_rows_max: int | float | None = None
    rows_min: Annotated[int, Field(ge=0)] = 1
    validate_in: Literal["auto", "driver", "spark"] = "auto"
    memory_mb: Annotated[int, Field(ge=1)] | None = None

    @field_validator("bad_rows_max")
    @classmethod
    def _bound(cls, value: int | float | None) -> int | float | None:
        if value is not None and (value < 0 or (isinstance(value, float) and value >= 1)):
            raise ValueError("bad_rows_max is a number of rows, or a share below 1.0")
        return value


class SourceSettings(Part):
    """Where batches of one kind arrive. A batch is what commits together: one file, or one folder."""

    name: Name
    batches: str
    ready: str | None = None
    order: Literal["serial", "any"] = "serial"
    after: tuple[Name, ...] = ()
    mode: Literal["append", "merge", "overwrite"]
    tables: tuple[TableSettings, ...] | None = None
    format: Literal["graph"] | None = None
    types: tuple[str, ...] | None = None
    checks: CheckSettings | None = None
    interval_s: Annotated[int, Field(ge=5)] = 10
    description: str | None = None
    owners: tuple[str, ...] = ()

    @field_validator("tables", "types", "owners", "after", mode="before")
    @classmethod
    def _sequence(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.format == "graph":
            if self.tables is not None:
                raise ValueError("'format: graph' files name their types themselves: leave 'tables' out")
        elif not self.tables:
            raise ValueError("a source has 'tables', or 'format: graph'")
        elif self.types is not None:
            raise ValueError("'types' belongs to 'format: graph'")
        elif not self.in_folders and (len(self.tables) > 1 or self.tables[0].files is not None):
            raise ValueError("batches that are single files feed one table, without 'files'; folders end with '/'")
        elif self.in_folders and any(table.files is None for table in self.tables):
            raise ValueError("batches that are folders need 'files' for every table")
        if self.ready is not None and not self.in_folders:
            raise ValueError("'ready' is a file in the folder of a batch; these batches are single files")
        if self.tables is not None:
            named = [table.type for table in self.tables]
            doubled = sorted({name for name in named if named.count(name) > 1})
            if doubled:
                raise ValueError(f"one type is named twice: {doubled[0]}")
        return self

    @property
    def in_folders(self) -> bool:
        return self.batches.endswith("/")


class BackpressureSettings(Part):
    """From how many unmerged fragments or versions on a write warns, slows down and fails. ``null`` turns one off."""

    warn: Count | None = 500
    slow: Count | None = 2000
    fail: Count | None = 10_000

    def as_given(self) -> Mapping[str, int | None]:
        return {"warn": self.warn, "slow": self.slow, "fail": self.fail}


class SparkSettings(Part):
    """Which Spark. ``remote`` is a Connect server; without either it is the cores of the machine that runs."""

    master: str | None = None
    remote: Text | None = None
    app_name: str = "omnigraph"
    driver_memory: str | None = None
    shuffle_partitions: Count | None = None
    ui: bool = False
    conf: dict[str, str | int | float | bool] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.master is not None and self.remote is not None:
            raise ValueError("'master' and 'remote' exclude each other")
        return self


class OptimizeSettings(Part):
    cron: Cron = "0 2 * * *"
    target_rows: Count | None = None
    memory_mb: Count | None = None
    enabled: bool = True


class CleanupSettings(Part):
    cron: Cron = "30 2 * * *"
    keep: Count = 10
    older_than: Duration | None = "7d"
    min_age: Duration = "1h"
    versions_max: Count = 1000  # high mark: a backlog of so many versions starts a cleanup before the night
    versions_low: Annotated[int, Field(ge=0)] | None = None  # low mark; a quarter of the high one if left out
    interval_s: Annotated[int, Field(ge=5)] = 60
    enabled: bool = True

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
    fragments_low: Annotated[int, Field(ge=0)] | None = None
    interval_s: Annotated[int, Field(ge=5)] = 30
    enabled: bool = True

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
    grace_s: Annotated[float, Field(ge=0, strict=False)] = 60
    enabled: bool = True


class UpkeepSettings(Part):
    """What keeps the graph fast and small. ``paused`` leaves everything in place, switched off."""

    optimize: OptimizeSettings = Field(default_factory=OptimizeSettings)
    cleanup: CleanupSettings = Field(default_factory=CleanupSettings)
    compaction: CompactionSettings = Field(default_factory=CompactionSettings)
    reconcile: ReconcileSettings = Field(default_factory=ReconcileSettings)
    timezone: str = "UTC"
    paused: bool = False


class AlertSettings(Part):
    """Whom a failed run is told to besides the log. ``hook``: ``package.module:function``, called with one dict.
    ``url``: gets the same as JSON."""

    hook: str | None = None
    url: Text | None = None

    @field_validator("hook")
    @classmethod
    def _importable(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", value):
            raise ValueError("a hook is 'package.module:function'")
        return value


class Settings(Part):
    """A whole graph file."""

    graph: GraphSettings
    sources: tuple[SourceSettings, ...] = ()
    checks: CheckSettings = Field(default_factory=CheckSettings)
    backpressure: BackpressureSettings = Field(default_factory=BackpressureSettings)
    spark: SparkSettings = Field(default_factory=SparkSettings)
    upkeep: UpkeepSettings = Field(default_factory=UpkeepSettings)
    alerts: AlertSettings = Field(default_factory=AlertSettings)

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
