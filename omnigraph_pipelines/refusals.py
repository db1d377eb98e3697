"""Batches that were refused: a note beside the graph for each, so that every machine can tell them from new ones.

A note says why and how many. It is deleted when the batch is committed. Knows neither Dagster nor Spark.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

import omnigraph as og
from omnigraph_pipelines.settled import batch_name

UNDER: Final = "refused"
_SAID_MAX: Final = 500


@dataclass(frozen=True)
class Refusal:
    """Why one batch, with these contents, was refused. ``judged_at``: the head it was judged against, if it may fit later."""

    source: str
    batch: str
    fingerprint: str
    code: str
    reason: str
    message: str
    judged_at: str | None = None

    @property
    def is_waiting(self) -> bool:
        return self.judged_at is not None


def note_refusal(graph: og.Graph, found: Refusal) -> None:
    """Keep a refusal in place of earlier ones of the same batch."""
    forget_refusals(graph, found.source, found.batch)
    said = {**asdict(found), "message": found.message[:_SAID_MAX]}
    graph.notes.put(f"{_of(found.source, found.batch)}/{found.fingerprint}", json.dumps(said, sort_keys=True).encode())


def forget_refusals(graph: og.Graph, source: str, batch: str) -> None:
    for name in graph.notes.list(_of(source, batch)):
        graph.notes.delete(name)


def refusals(graph: og.Graph) -> dict[tuple[str, str, str], Refusal]:
    """Return every refusal by source, batch and fingerprint. One listing, and one read for each."""
    found = {}
    for name in graph.notes.list(UNDER):
        one = _read(graph.notes.get(name))
        if one is not None:
            found[one.source, one.batch, one.fingerprint] = one
    return found


def _read(data: bytes | None) -> Refusal | None:
    """Return the refusal that a note holds, and None for one that was deleted or does not read."""
    try:
        said: Any = json.loads(data or b"")
        return Refusal(**said)
    except (ValueError, TypeError):
        return None


def _of(source: str, batch: str) -> str:
    return f"{UNDER}/{source}/{batch_name(batch)}"
