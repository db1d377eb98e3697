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

State = Literal["new", "changed", "committed", "incomplete"]


@dataclass(frozen=True)
class PlannedBatch:
    """One batch. ``committed``: a commit carries its present contents; ``changed``: one carries earlier contents."""

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
    history = _committed(file)
    return [_planned(source, batch, history) for source in sources for batch in find_batches(source)]


def _planned(source: SourceSettings, batch: Batch, history: Mapping[str, Mapping[str, str]]) -> PlannedBatch:
    if not is_key(batch.key):
        return PlannedBatch(
            source.name, batch.key, "incomplete", len(batch.files), batch.bytes, reason="its name cannot be a partition"
        )
    try:
        check_complete(source, batch)
    except og.errors.InvalidInput as error:
        return PlannedBatch(source.name, batch.key, "incomplete", len(batch.files), batch.bytes, reason=error.message)
    fingerprint = batch.fingerprint()
    known = history.get(f"{source.name}/{batch.key}", {})
    if fingerprint in known:
        return PlannedBatch(
            source.name, batch.key, "committed", len(batch.files), batch.bytes, fingerprint, known[fingerprint]
        )
    state: State = "changed" if known else "new"
    return PlannedBatch(source.name, batch.key, state, len(batch.files), batch.bytes, fingerprint)


def _committed(file: GraphFile) -> dict[str, dict[str, str]]:
    """By ``source/batch``: the fingerprints that were committed, and the commit of each. Nothing for a graph not made yet."""
    graph = file.settings.graph
    options = {name: text_of(value) for name, value in graph.storage_options.items()}
    try:
        with og.open(text_of(graph.uri), read_only=True, storage_options=options or None) as opened:
            commits = opened.commits(graph.branch)
    except og.errors.NotFound:
        return {}
    found: dict[str, dict[str, str]] = {}
    for commit in commits:
        batch, slash, fingerprint = (commit.idempotency_key or "").rpartition("/")
        if slash:
            found.setdefault(batch, {}).setdefault(fingerprint, commit.id)
    return found
