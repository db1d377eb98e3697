"""What ingest would do now: each batch that has arrived, and whether the graph has it. Changes nothing.

Reads the landing places and the history of the graph. Knows neither Dagster nor Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import omnigraph as og
from omnigraph_pipelines.batches import Batch, check_complete, find_batches, is_key
from omnigraph_pipelines.graph_file import GraphFile
from omnigraph_pipelines.settings import SourceSettings, text_of
from omnigraph_pipelines.settled import batch_name, unchanging

State = Literal["new", "changed", "committed", "incomplete"]


@dataclass(frozen=True)
class PlannedBatch:
    """One batch. ``committed``: a commit carries its present contents, or they changed nothing; ``changed``: one carries earlier contents."""

    source: str
    batch: str
    state: State
    files: int
    bytes: int
    fingerprint: str | None = None
    commit_id: str | None = None
    reason: str | None = None

    @property
    def is_due(self) -> bool:
        return self.state in ("new", "changed")

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


def choose(file: GraphFile, names: Iterable[str] | None) -> list[SourceSettings]:
    """The sources of these names, or all; in the order of the file."""
    wanted = set(names or ())
    known = {source.name for source in file.settings.sources}
    unknown = sorted(wanted - known)
    if unknown:
        raise og.errors.NotFound(
            f"the graph file has no source {unknown[0]!r}", hint=f"it has {', '.join(sorted(known)) or 'none'}"
        )
    return [source for source in file.settings.sources if not wanted or source.name in wanted]


def plan_ingest(file: GraphFile, sources: Iterable[SourceSettings]) -> list[PlannedBatch]:
    """Every batch of these sources, oldest key first within each."""
    history = _History.of(file)
    return [_planned(source, batch, history) for source in sources for batch in find_batches(source)]


def _planned(source: SourceSettings, batch: Batch, history: _History) -> PlannedBatch:
    if not is_key(batch.key):
        return PlannedBatch(
            source.name, batch.key, "incomplete", len(batch.files), batch.bytes, reason="its name cannot be a partition"
        )
    try:
        check_complete(source, batch)
    except og.errors.InvalidInput as error:
        return PlannedBatch(source.name, batch.key, "incomplete", len(batch.files), batch.bytes, reason=error.message)
    fingerprint = batch.fingerprint()
    known = history.commits.get(f"{source.name}/{batch.key}", {})
    unchanging_ = history.unchanging.get((source.name, batch_name(batch.key)), set())
    size = (len(batch.files), batch.bytes, fingerprint)
    if fingerprint in known:
        return PlannedBatch(source.name, batch.key, "committed", *size, known[fingerprint])
    if fingerprint in unchanging_:
        return PlannedBatch(source.name, batch.key, "committed", *size, reason="it changed nothing")
    return PlannedBatch(source.name, batch.key, "changed" if known or unchanging_ else "new", *size)


@dataclass(frozen=True)
class _History:
    """What the graph tells of batches. ``commits``: by ``source/batch`` the fingerprints that were committed, and the
    commit of each. ``unchanging``: those that changed nothing."""

    commits: Mapping[str, Mapping[str, str]]
    unchanging: Mapping[tuple[str, str], set[str]]

    @staticmethod
    def of(file: GraphFile) -> _History:
        """Nothing for a graph that was not made yet."""
        graph = file.settings.graph
        options = {name: text_of(value) for name, value in graph.storage_options.items()}
        try:
            with og.open(text_of(graph.uri), read_only=True, storage_options=options or None) as opened:
                commits, nothing_changed = opened.commits(graph.branch), unchanging(opened)
        except og.errors.NotFound:
            return _History({}, {})
        found: dict[str, dict[str, str]] = {}
        for commit in commits:
            batch, slash, fingerprint = (commit.idempotency_key or "").rpartition("/")
            if slash:
                found.setdefault(batch, {}).setdefault(fingerprint, commit.id)
        return _History(found, nothing_changed)
