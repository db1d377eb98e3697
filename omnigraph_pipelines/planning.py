"""What ingest would do now: each batch that has arrived, and whether the graph has it. Changes nothing.

Reads the landing places and the history of the graph. Knows neither Dagster nor Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import omnigraph as og
from omnigraph_pipelines.accepted_schema import schema_plan
from omnigraph_pipelines.batches import Batch, check_complete, find_batches, is_key
from omnigraph_pipelines.graph_file import GraphFile
from omnigraph_pipelines.order import in_order
from omnigraph_pipelines.refusals import Refusal, refusals
from omnigraph_pipelines.settings import SourceSettings, text_of
from omnigraph_pipelines.settled import batch_name, unchanging

State = Literal["new", "changed", "committed", "incomplete", "waiting", "refused"]


@dataclass(frozen=True)
class PlannedBatch:
    """One batch. ``committed``: a commit carries its present contents, or they changed nothing; ``changed``: one carries earlier
    contents. ``refused``: a run refused these contents; ``waiting``: only for what the graph did not hold then. ``after``: sources
    before this one that are not done."""

    source: str
    batch: str
    state: State
    files: int
    bytes: int
    fingerprint: str | None = None
    commit_id: str | None = None
    reason: str | None = None
    after: tuple[str, ...] = ()

    @property
    def is_due(self) -> bool:
        return self.state in ("new", "changed", "waiting", "refused")

    @property
    def holds_up(self) -> bool:
        """Whether the sources after this one wait for the batch. A refused one needs a person."""
        return self.state in ("new", "changed", "waiting")

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None and value != ()}


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
    """Return every batch of these sources: sources behind those they come after, oldest key first within each."""
    history = _History.of(file)
    wanted = {source.name: source for source in sources}
    after = {source.name: source.after for source in file.settings.sources}
    known = {source.name: source for source in file.settings.sources}
    before = [name for source in wanted.values() for name in source.after]
    planned = {
        name: [_planned(known[name], batch, history) for batch in find_batches(known[name])]
        for name in in_order([*wanted, *before], after)
    }
    found = []
    for name, source in ((name, wanted[name]) for name in planned if name in wanted):
        open_ = tuple(one for one in source.after if any(batch.holds_up for batch in planned[one]))
        found += [replace(batch, after=open_) if batch.is_due else batch for batch in planned[name]]
    return found


def plan_schema(file: GraphFile) -> Any:
    """How the accepted schema would become that of the schema file; None for a graph that was not made yet."""
    graph = file.settings.graph
    options = {name: text_of(value) for name, value in graph.storage_options.items()}
    try:
        with og.open(text_of(graph.uri), read_only=True, storage_options=options or None) as opened:
            return schema_plan(opened, file)
    except og.errors.NotFound:
        return None


def summary(source: str, planned: Iterable[PlannedBatch]) -> dict[str, Any]:
    """Return how far one source is: counts by state, and the batches that need something, with the reason of each."""
    mine = [one for one in planned if one.source == source]
    names = {"committed": "done", "new": "due", "changed": "changed"}
    counts: dict[str, int] = {}
    for one in mine:
        what = names.get(one.state, one.state)
        counts[what] = counts.get(what, 0) + 1
    found: dict[str, Any] = {
        "source": source,
        "counts": counts,
        "after": sorted({name for one in mine for name in one.after}),
    }
    for state in ("waiting", "refused", "incomplete"):
        batches = [{"batch": one.batch, "reason": one.reason or ""} for one in mine if one.state == state]
        if batches:
            found[state] = batches
    return found


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
    refusal = history.refusals.get((source.name, batch.key, fingerprint))
    if refusal is not None:
        return PlannedBatch(
            source.name, batch.key, "waiting" if refusal.is_waiting else "refused", *size, reason=refusal.reason
        )
    return PlannedBatch(source.name, batch.key, "changed" if known or unchanging_ else "new", *size)


@dataclass(frozen=True)
class _History:
    """What the graph tells of batches. ``commits``: by ``source/batch`` the fingerprints that were committed, and the
    commit of each. ``unchanging``: those that changed nothing."""

    commits: Mapping[str, Mapping[str, str]]
    unchanging: Mapping[tuple[str, str], set[str]]
    refusals: Mapping[tuple[str, str, str], Refusal]

    @staticmethod
    def of(file: GraphFile) -> _History:
        """Nothing for a graph that was not made yet."""
        graph = file.settings.graph
        options = {name: text_of(value) for name, value in graph.storage_options.items()}
        try:
            with og.open(text_of(graph.uri), read_only=True, storage_options=options or None) as opened:
                commits, nothing_changed = opened.commits(graph.branch), unchanging(opened)
                refused = refusals(opened)
        except og.errors.NotFound:
            return _History({}, {}, {})
        found: dict[str, dict[str, str]] = {}
        for commit in commits:
            batch, slash, fingerprint = (commit.idempotency_key or "").rpartition("/")
            if slash:
                found.setdefault(batch, {}).setdefault(fingerprint, commit.id)
        return _History(found, nothing_changed, refused)
