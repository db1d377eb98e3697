"""Batches that the graph has already: by the commit that carries their key, or by a note that there was nothing to change.

A commit carries the key of its batch. A batch that changes nothing makes no commit, so its key would be known nowhere, and
the same batch taken up later, when others have changed its rows, would change them back. It is noted beside the graph. Knows
neither Dagster nor Spark.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final

import omnigraph as og

UNDER: Final = "settled"


def idempotency_key(source: str, batch: str, fingerprint: str) -> str:
    return f"{source}/{batch}/{fingerprint}"


def batch_name(batch: str) -> str:
    """A batch in the name of a note: keys of batches may hold anything that a file name may."""
    return hashlib.sha256(batch.encode()).hexdigest()[:32]


def committed_as(graph: og.Graph, branch: str, key: str) -> og.Receipt | None:
    """What came of the batch that this is the key of; None if it is new to the graph."""
    txn = graph.begin(branch)
    try:
        receipt = txn.replay(key)
    finally:
        txn.abort()
    if receipt is not None:
        return receipt
    return og.Receipt(None, branch, {}, replayed=True) if graph.notes.get(_note(key)) is not None else None


def note_nothing_changed(graph: og.Graph, key: str, receipt: og.Receipt) -> None:
    """Remember a batch that was judged to change nothing."""
    source, batch, fingerprint = _parts(key)
    unchanged = sum(one.unchanged or 0 for one in receipt.tables.values())
    said = {"source": source, "batch": batch, "fingerprint": fingerprint, "rows_unchanged": unchanged}
    graph.notes.put(_note(key), json.dumps(said, sort_keys=True).encode())


def unchanging(graph: og.Graph) -> dict[tuple[str, str], set[str]]:
    """By source and ``batch_name``: fingerprints that changed nothing. One listing."""
    found: dict[tuple[str, str], set[str]] = {}
    for name in graph.notes.list(UNDER):
        _, source, batch, fingerprint = name.split("/")
        found.setdefault((source, batch), set()).add(fingerprint)
    return found


def _note(key: str) -> str:
    source, batch, fingerprint = _parts(key)
    return f"{UNDER}/{source}/{batch_name(batch)}/{fingerprint}"


def _parts(key: str) -> tuple[str, str, str]:
    source, _, rest = key.partition("/")
    batch, _, fingerprint = rest.rpartition("/")
    return source, batch, fingerprint
