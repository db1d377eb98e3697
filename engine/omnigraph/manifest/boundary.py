"""The boundary of a line of ``__manifest``: the highest version that was ever doomed.

A series of numbered keys made with create-if-absent, so its value (the highest) cannot move down. Every author of a swap
reads it afterwards: a version at or below it proves nothing about what that author did.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from omnigraph.core import documents
from omnigraph.core.documents import Document, Ulid
from omnigraph.core.errors import Corruption
from omnigraph.core.meter import Meter
from omnigraph.store import KeyExists, Store, layout

ALL = (1 << 64) - 1  # the branch was deleted: every version of its line is doomed
NONE = 0
_TIME_US_MAX = 253_402_300_799_999_999  # the end of the year 9999


class _Note(Document):
    """The body of a boundary key: which cleanup raised it. For people; nothing is decided by it."""

    run: Ulid
    actor: str | None
    at_us: int
    policy: str
    oldest: str


def boundary_note(run: str, actor: str | None, at_us: int, policy: str, oldest: str) -> bytes:
    """The body of the key that a cleanup makes. ``oldest``: the oldest commit that it keeps."""
    return documents.canonical({"run": run, "actor": actor, "at_us": at_us, "policy": policy, "oldest": oldest})


class Boundary:
    def __init__(self, store: Store) -> None:
        self._store = store

    def value(self, identity: str, *, repeated: int = NONE, meter: Meter | None = None) -> int:
        """One LIST. ``repeated`` is what the head row says; a highest key below it means that keys were lost."""
        highest = NONE
        for entry in self._store.list(layout.boundary_prefix(identity), meter=meter):
            version = layout.boundary_version(entry.key)
            highest = max(highest, ALL if version is None else version)
        if highest < repeated:
            raise Corruption(
                "a cleanup boundary mark is missing; nothing may be deleted or trusted below it",
                object=layout.boundary_prefix(identity),
                expected=repeated,
                actual=highest,
            )
        return highest

    def note(self, identity: str, version: int, *, meter: Meter | None = None) -> Mapping[str, Any]:
        """What the cleanup noted that doomed ``version``: the body of the lowest boundary at or above it. Empty where none
        says, or its body cannot be read."""
        marks = [
            (ALL if number is None else number, entry.key)
            for entry in self._store.list(layout.boundary_prefix(identity), meter=meter)
            for number in (layout.boundary_version(entry.key),)
        ]
        above = [mark for mark in marks if mark[0] >= version]
        if not above:
            return {}
        data = self._store.get(min(above)[1], meter=meter)
        with contextlib.suppress(documents.Malformed):
            found = documents.fill(_Note, documents.loads(data or b"{}"))
            return found.model_dump() if 0 <= found.at_us <= _TIME_US_MAX else {}
        return {}

    def raise_to(self, identity: str, version: int, note: bytes = b"{}", *, meter: Meter | None = None) -> None:
        """Durable before this returns. Raising to what is there already is fine."""
        key = layout.boundary_key(identity, None if version == ALL else version)
        try:
            self._store.create(key, note, meter=meter)
        except KeyExists:
            return
