"""The files ``__recovery/refused/{op}.json``: why a writer ahead did not carry an offer out.

It decides nothing. An older writer may hold the same offer and land it, so the owner withdraws before it believes the refusal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from omnigraph.core import documents
from omnigraph.core.documents import Document, Ulid
from omnigraph.core.errors import Corruption, OmnigraphError, from_dict
from omnigraph.core.meter import Meter
from omnigraph.store import KeyExists, Store, layout

FORMAT: Final = 1
KEY_TAKEN: Final = "key-taken"
UNCHANGED: Final = "unchanged"
OWNER_LOOKS: Final = (KEY_TAKEN, UNCHANGED)  # no errors: the owner plans again, and finds out what to answer


class _JudgedAt(Document):
    manifest_version: int
    head: Ulid
    schema_id: str


class _Owner(Document):
    host: str
    boot_id: str
    pid: int
    started: int


class RefusalModel(Document):
    format: int
    op: Ulid
    id: Ulid
    error: dict[str, Any]
    judged_at: _JudgedAt
    refused_by: _Owner
    refused_at_us: int


@dataclass(frozen=True)
class Refusal:
    """``error``: an error body, or the code ``key-taken`` with the commit that has the idempotency key, or ``unchanged`` where every row
    of the offer is there already. ``judged_at``: the published state that it rests on."""

    op: str
    commit_id: str
    error: Mapping[str, Any]
    judged_at: Mapping[str, Any]

    @property
    def as_error(self) -> OmnigraphError | None:
        """The error for the caller; None where the owner has to look for itself."""
        return None if self.error.get("code") in OWNER_LOOKS else from_dict(self.error)


def write_refusal(
    store: Store, refusal: Refusal, *, refused_by: Mapping[str, Any], now_us: int, meter: Meter | None = None
) -> None:
    """The first one counts: a later writer comes to the same, or to what the owner finds out by itself."""
    body = {
        "format": FORMAT,
        "op": refusal.op,
        "id": refusal.commit_id,
        "error": dict(refusal.error),
        "judged_at": dict(refusal.judged_at),
        "refused_by": dict(refused_by),
        "refused_at_us": now_us,
    }
    with contextlib.suppress(KeyExists):
        store.create(layout.refused_key(refusal.op), documents.seal(body), meter=meter)


def read_refusal(store: Store, op: str, meter: Meter | None = None) -> Refusal | None:
    """The refusal of this operation; None where there is none, or it does not read: the owner finds out by itself then."""
    try:
        return checked_refusal(store, op, meter)
    except Corruption:
        return None


def checked_refusal(store: Store, op: str, meter: Meter | None = None) -> Refusal | None:
    """The refusal of this operation, or None where there is none. ``Corruption`` where it does not read as it was written."""
    data = store.get(layout.refused_key(op), meter=meter)
    if data is None:
        return None
    with documents.refusals(layout.refused_key(op), "the refusal"):
        found = documents.read(RefusalModel, data, format=FORMAT, sealed=True, named={"op": op})
    return Refusal(found.op, found.id, found.error, found.judged_at.model_dump())


def delete_refusal(store: Store, op: str, meter: Meter | None = None) -> None:
    """Delete the file, if it is there. One that stays is deleted by the next recovery: its intent is gone."""
    with contextlib.suppress(OmnigraphError):
        store.delete(layout.refused_key(op), meter=meter)
