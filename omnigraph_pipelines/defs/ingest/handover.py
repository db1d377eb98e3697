"""What the staging step leaves for the commit step: a description of staged files, not the files.

Owns where it lies. It lies beside the graph, as a note, so that the commit step finds it from any machine; where exactly, and
a hash of it, the staging step records with its results, in Dagster's event log. It is a JSON document: reading it runs nothing.
Bytes with another hash are not used: a program that may write to the store of a graph cannot make its commit steps trust a
report that no staging step has made.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

import omnigraph as og
from omnigraph_pipelines.settled import batch_name

if TYPE_CHECKING:
    from omnigraph_pipelines.spark.staged_batch import StagedBatch

UNDER: Final = "handed-over"
# What of it stands in the metadata of the staged tables.
_DIGEST: Final = "handed_over"
_TOLD: Final = (
    "batch",
    "fingerprint",
    "idempotency_key",
    "staging_id",
    "files",
    "source_bytes",
    "seconds",
    "spark_ui",
    _DIGEST,
)


@dataclass(frozen=True)
class HandOver:
    """One batch as its staging step left it. Nothing is ``staged`` where the graph had the batch already."""

    batch: str
    fingerprint: str
    idempotency_key: str
    files: int
    source_bytes: int
    seconds: float
    staging_id: str | None = None
    spark_ui: str | None = None  # the page of the Spark that staged it
    handed_over: str | None = None
    run_id: str | None = None  # of the run that staged it

    def to_metadata(self) -> dict[str, Any]:
        """Return what stands with the staged tables. The number of files is a text: the pages plot every number, and this is one
        and the same for all batches of most sources."""
        found = {name: value for name in _TOLD if (value := getattr(self, name)) is not None}
        return {**found, "files": str(self.files)}


def leave(graph: og.Graph, source: str, batch: str, staged: StagedBatch) -> str:
    """Keep it for the commit step; returns the hash by which that knows it."""
    data = staged.to_json().encode()
    graph.notes.put(_name(source, batch, staged.staging_id), data)
    return hashlib.sha256(data).hexdigest()


def told(instance: dg.DagsterInstance, asset: dg.AssetKey, batch: str) -> HandOver | None:
    """What the newest staging of a batch said, on any machine."""
    wanted = dg.AssetRecordsFilter(asset_key=asset, asset_partitions=[batch])
    for record in instance.fetch_materializations(wanted, limit=1).records:
        made = record.asset_materialization
        found = {} if made is None else {name: one.value for name, one in made.metadata.items() if name in _TOLD}
        try:
            said: dict[str, Any] = {"seconds": 0.0, **found, "files": int(str(found.get("files", 0)))}
            return HandOver(**said, run_id=record.run_id)
        except (TypeError, ValueError):
            return None  # of another release
    return None


def take(graph: og.Graph, source: str, what: HandOver) -> StagedBatch | None:
    """The staged batch that was left; None if it is gone, is not what was left, or is of another release."""
    if what.staging_id is None or what.handed_over is None:
        return None
    data = graph.notes.get(_name(source, what.batch, what.staging_id))
    if data is None or hashlib.sha256(data).hexdigest() != what.handed_over:
        return None
    from omnigraph_pipelines.spark import StagedBatch

    try:
        found = StagedBatch.from_json(data)
    except (og.errors.InvalidInput, og.errors.UnsupportedStorage):
        return None  # of another release: the batch is staged again
    return found if found.staging_id == what.staging_id else None


def forget(graph: og.Graph, source: str, batch: str) -> None:
    """Everything that was left of a batch: what a rival of the run has staged beside it, too."""
    for name in graph.notes.list(f"{UNDER}/{source}/{batch_name(batch)}"):
        graph.notes.delete(name)


def _name(source: str, batch: str, staging_id: str) -> str:
    return f"{UNDER}/{source}/{batch_name(batch)}/{staging_id}"


def folder(instance: Any, *names: str) -> Path:
    """A folder of ours in the storage of an instance."""
    return Path(instance.storage_directory(), "omnigraph", *names)
