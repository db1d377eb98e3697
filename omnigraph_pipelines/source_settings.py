"""What a graph file says of its sources: where batches arrive, what is in them, when one is good enough."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from omnigraph_pipelines.setting_kinds import Duration, Name, Part, Text

Action = Literal["fail", "quarantine", "drop", "stub"]
CheckName = Literal["values", "duplicates", "endpoints", "cardinality"]


class TableSettings(Part):
    """The files of a batch that hold rows of one type."""

    node: str | None = None
    """The node type of the rows."""
    edge: str | None = None
    """The edge type of the rows."""
    files: str | None = None
    """A glob within the folder of a batch; left out where a batch is one file."""
    format: Literal["csv", "json", "ndjson", "parquet", "orc"] | None = None
    """Format of the files; by their suffix if left out."""
    columns: dict[str, str] = Field(default_factory=dict)
    """The column of the file by property; properties that are not named have columns of their name."""
    from_column: str | None = Field(default=None, alias="from")
    """The column with the id of the node that an edge begins at."""
    to_column: str | None = Field(default=None, alias="to")
    """The column with the id of the node that an edge ends at."""
    optional: bool = False
    """Whether a batch may lack these files."""
    on_missing_endpoint: Action | None = None
    """What becomes of edges that name a node which does not exist, in place of the checks."""

    @model_validator(mode="after")
    def _one_type(self) -> Self:
        if (self.node is None) == (self.edge is None):
            raise ValueError("a table names either a node type or an edge type: 'node: Person' or 'edge: Follows'")
        if self.node is not None and (self.from_column is not None or self.to_column is not None):
            raise ValueError("'from' and 'to' belong to edges")
        if self.node is not None and self.on_missing_endpoint is not None:
            raise ValueError("'on_missing_endpoint' belongs to edges")
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
    """Whether rows at fault refuse the batch or are left out of it."""
    bad_rows_max: int | float | None = None
    """How many rows may be left out: a number, or a share below 1.0."""
    bounds: dict[CheckName, int | float] = Field(default_factory=dict)
    """How many rows may be bad, for each check: a number, or a share up to 1.0."""
    on_missing_endpoint: Action | dict[str, Action] | None = None
    """What becomes of edges that name a node which does not exist: one for all, or by edge type; as on_bad_row if left out."""
    rows_min: Annotated[int, Field(ge=0)] = 1
    """Rows that each table that is not optional has to have."""
    validate_in: Literal["auto", "driver", "spark"] = "auto"
    """Where rows are compared with one another and with the graph."""
    memory_mb: Annotated[int, Field(ge=1)] | None = None
    """What comparing keys may take in the process of the step."""

    @field_validator("bad_rows_max")
    @classmethod
    def _bound(cls, value: int | float | None) -> int | float | None:
        if value is not None and (value < 0 or (isinstance(value, float) and value >= 1)):
            raise ValueError("bad_rows_max is a number of rows, or a share below 1.0")
        return value

    @field_validator("bounds")
    @classmethod
    def _shares(cls, value: dict[CheckName, int | float]) -> dict[CheckName, int | float]:
        for name, bound in value.items():
            if isinstance(bound, bool) or not bound >= 0 or (isinstance(bound, float) and not bound <= 1):
                raise ValueError(f"the bound of {name} is a number of rows, or a share up to 1.0")
        return value


class FreshnessSettings(Part):
    """How old the newest commit may become before Dagster warns or fails its freshness."""

    fail_after: Duration
    """Older than this is a failure, such as 26h."""
    warn_after: Duration | None = None
    """Older than this is a warning."""


class SourceSettings(Part):
    """Where batches of one kind arrive. A batch is what commits together: one file, or one folder."""

    name: Name
    """Second part of asset keys."""
    batches: str
    """A glob. With / at its end each folder is a batch, else each file."""
    ready: str | None = None
    """A folder is complete when this file is in it."""
    order: Literal["serial", "any"] = "serial"
    """Whether runs go one at a time, oldest key first."""
    after: tuple[Name, ...] = ()
    """No batch is offered while a batch of one of these sources is due, waiting or under way."""
    batches_per_run: Annotated[int, Field(ge=1, le=100)] = 1
    """Up to so many waiting batches share a run and a Spark session; each is its own partition and commit."""
    mode: Literal["append", "merge", "patch", "overwrite"]
    """What happens to rows that the graph has. patch: what a record or a table does not name keeps its value."""
    unknown_columns: Literal["fail", "ignore", "add"] = "fail"
    """What becomes of columns that the schema does not know. add: each becomes a nullable property, typed from the source, by a
    change of the schema before the batch."""
    tables: tuple[TableSettings, ...] | None = None
    """Which files hold rows of which type."""
    format: Literal["graph"] | None = None
    """graph: files of records, nodes and edges mixed, in place of tables."""
    types: tuple[str, ...] | None = None
    """With format: graph, the types that may occur; all if left out."""
    checks: CheckSettings | None = None
    """When a batch of this source is good enough, in place of the checks of the file."""
    interval_s: Annotated[int, Field(ge=5)] = 10
    """Seconds between two looks for new batches."""
    storage_options: dict[str, Text] = Field(default_factory=dict)
    """Connection of the landing place, where it is not that of the environment."""
    deps: tuple[str, ...] = ()
    """Assets that fill the landing place, each by its key with slashes."""
    group_name: Name | None = None
    """Group of the assets; the names of graph and source if left out."""
    tags: dict[str, str] = Field(default_factory=dict)
    """Tags of the assets."""
    freshness: FreshnessSettings | None = None
    """How old the newest commit of the source may become."""
    automation_condition: Any = None
    """When Dagster materializes batches by itself, beside the sensor: eager, on_missing, {on_cron: EXPRESSION}, or in a
    component a template that makes a condition."""
    description: str | None = None
    """Shown with the assets."""
    owners: tuple[str, ...] = ()
    """Owners of the assets."""

    @field_validator("tables", "types", "owners", "after", "deps", mode="before")
    @classmethod
    def _sequence(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("automation_condition")
    @classmethod
    def _condition(cls, value: Any) -> Any:
        if isinstance(value, dict):
            is_known = set(value) == {"on_cron"} and isinstance(value["on_cron"], str)
        else:
            is_known = value in ("eager", "on_missing") if isinstance(value, str) else hasattr(value, "evaluate")
        if value is not None and not is_known:
            raise ValueError("a condition is eager, on_missing, {on_cron: EXPRESSION} or a template that makes one")
        return value

    @field_validator("deps")
    @classmethod
    def _keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(not all(part for part in key.split("/")) for key in value):
            raise ValueError("an asset key is names with slashes between them, such as raw/crm")
        return value

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.format == "graph":
            if self.tables is not None:
                raise ValueError("'format: graph' files name their types themselves: leave 'tables' out")
            if self.unknown_columns != "fail":
                raise ValueError(
                    "'unknown_columns' belongs to 'tables': records have members, which are always checked"
                )
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
