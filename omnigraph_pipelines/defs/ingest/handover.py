"""What the staging step leaves for the commit step: a description of staged files, not the files.

Owns where it lies (Dagster's own storage, one place a batch) and its form. Both steps of a run read the same folder; a run
that is taken up on a machine without it finds nothing here, and stages again.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import omnigraph as og

if TYPE_CHECKING:
    from omnigraph_pipelines.spark.staging import StagedBatch


@dataclass(frozen=True)
class HandOver:
    """One staged batch; or the receipt of the commit that it is in already."""

    batch: str
    fingerprint: str
    idempotency_key: str
    files: int
    bytes: int
    seconds: float
    staged: StagedBatch | None = None
    receipt: og.Receipt | None = None


def folder(instance: Any, *names: str) -> Path:
    """A folder of ours in the storage of an instance."""
    return Path(instance.storage_directory(), "omnigraph", *names)


def _place(instance: Any, graph: str, source: str, batch: str) -> Path:
    return folder(instance, graph, source) / f"{hashlib.sha256(batch.encode()).hexdigest()[:32]}.staged"


def leave(instance: Any, graph: str, source: str, what: HandOver) -> None:
    place = _place(instance, graph, source, what.batch)
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_suffix(f".{os.getpid()}")
    fresh.write_bytes(pickle.dumps(what))
    os.replace(fresh, place)


def take(instance: Any, graph: str, source: str, batch: str) -> HandOver | None:
    """What was left for a batch; None if nothing is there, or something of another release."""
    place = _place(instance, graph, source, batch)
    try:
        # As trusted as everything else that Dagster pickles into this folder.
        found = pickle.loads(place.read_bytes())  # noqa: S301
    except FileNotFoundError:
        return None
    except (pickle.UnpicklingError, AttributeError, ImportError, EOFError, TypeError, ValueError, LookupError):
        return None
    return found if isinstance(found, HandOver) and found.batch == batch else None


def forget(instance: Any, graph: str, source: str, batch: str) -> None:
    _place(instance, graph, source, batch).unlink(missing_ok=True)
