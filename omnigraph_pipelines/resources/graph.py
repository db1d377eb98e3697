"""The graph as a Dagster resource: settings in, an open graph when it is asked for.

Owns opening, making the graph at its first use, and closing after the run. Nothing is opened while definitions load.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field, PrivateAttr

import omnigraph as og
from omnigraph_pipelines.settings import EnvRef, Settings, Text


class OmniGraphResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """One graph. Use ``graph`` to write and ``snapshot()`` to read; both are opened when first asked for."""

    uri: str = Field(description="Path or s3:// URI of the graph.")
    schema_file: str | None = Field(
        default=None, description="A .pg file: the graph is made from it where there is none."
    )
    branch: str = Field(default="main", description="The branch that is read and written.")
    actor: str | None = Field(default=None, description="Who commits, as it appears in the history.")
    storage_options: dict[str, str] = Field(default_factory=dict, description="Connection of the store, Lance's names.")
    storage_options_env: dict[str, str] = Field(
        default_factory=dict, description="Further options, each the name of an environment variable that holds it."
    )
    backpressure: dict[str, int | None] | None = Field(
        default=None, description="From how many unmerged fragments or versions on a write warns, slows down and fails."
    )

    durability: str | None = Field(
        default=None,
        description="What a commit on a local disk survives: commit or relaxed; the environment's if left out.",
    )
    verify_reads: bool | None = Field(
        default=None,
        description="Compare files with their checksums before their first use; the environment's if left out.",
    )
    group: bool | None = Field(
        default=None, description="Whether writes of several threads may share a swap; the environment's if left out."
    )
    combine: bool | None = Field(
        default=None,
        description="Whether writes of several processes may share a swap; the environment's if left out.",
    )
    offers: bool | None = Field(
        default=None,
        description="Whether processes that wait for the same tables may carry out each other's small writes; the environment's if "
        "left out.",
    )

    # Not og.Graph: fields are looked at when the class is made, and that name loads Lance.
    _graph: Any = PrivateAttr(default=None)
    _reader: Any = PrivateAttr(default=None)

    @staticmethod
    def from_settings(settings: Settings) -> OmniGraphResource:
        graph = settings.graph
        options = graph.storage_options
        return OmniGraphResource(
            uri=_later(graph.uri),
            schema_file=graph.schema_file,
            branch=graph.branch,
            actor=graph.actor,
            storage_options={name: value for name, value in options.items() if isinstance(value, str)},
            storage_options_env={name: value.env for name, value in options.items() if isinstance(value, EnvRef)},
            backpressure=dict(settings.backpressure.as_given()),
            durability=graph.durability,
            verify_reads=graph.verify_reads,
            group=settings.commit.group,
            combine=settings.commit.combine,
            offers=settings.commit.offers,
        )

    # --- for assets -------------------------------------------------------------------------------------------------

    @property
    def graph(self) -> og.Graph:
        """The graph, open for writing until the run ends. Opening it first ends what dead writers left behind."""
        if self._graph is None:
            self._graph = self.open()
        held: og.Graph = self._graph
        return held

    def snapshot(self, at: str | None = None) -> og.Snapshot:
        """The branch as it is now, or at a place ``at``. It never changes, and reading it takes no lock."""
        return self._handle().snapshot(self.branch, at=at)

    def changes(
        self, since: str, until: str | None = None, types: Sequence[str] | None = None, *, before: bool = False
    ) -> Any:
        """What the commits of the branch did after ``since``, as ``graph.changes`` has it. Its ``cursor`` is the ``since`` of the
        next run."""
        return self._handle().changes(since, until, types, self.branch, before)

    def _handle(self) -> og.Graph:
        """The graph as the run has it open; else a handle that reads."""
        handle: og.Graph | None = self._graph or self._reader
        if handle is None:
            handle = self._reader = self.open(read_only=True)
        return handle

    def open(self, *, read_only: bool = False) -> og.Graph:
        """A handle of the caller's own, which the caller closes. Makes the graph if there is none and ``schema_file`` says
        what it holds."""
        options = self.options()
        try:
            return self._open(options, read_only=read_only)
        except og.errors.NotFound:
            if self.schema_file is None or read_only:
                raise
        try:
            og.init(
                self.uri,
                Path(self.schema_file),
                storage_options=options,
                actor=self.actor,
                durability=self.durability,
            ).close()
        except og.errors.AlreadyExists:
            pass  # another run was quicker
        return self._open(options, read_only=False)

    def _open(self, options: dict[str, str] | None, *, read_only: bool) -> og.Graph:
        return og.open(
            self.uri,
            read_only=read_only,
            storage_options=options,
            actor=self.actor,
            backpressure=None if read_only else self.backpressure,
            durability=self.durability,
            verify_reads=self.verify_reads,
            group=self.group,
            commit=self._sharing(),
        )

    def _sharing(self) -> dict[str, bool] | None:
        """What is said of sharing with other processes; None where nothing is."""
        given = {"combine": self.combine, "offers": self.offers}
        return {name: value for name, value in given.items() if value is not None} or None

    def options(self) -> dict[str, str] | None:
        """Options for the store, those from the environment included."""
        found = dict(self.storage_options)
        for name, variable in self.storage_options_env.items():
            found[name] = EnvRef(env=variable).value()
        return found or None

    # --- life -------------------------------------------------------------------------------------------------------

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        self.close()

    def close(self) -> None:
        held, self._graph, reader, self._reader = self._graph, None, self._reader, None
        for one in (held, reader):
            if one is not None:
                one.close()


def _later(value: Text) -> Any:
    """A value for a field of a resource; a variable is looked up when a run needs it."""
    return dg.EnvVar(value.env) if isinstance(value, EnvRef) else value
