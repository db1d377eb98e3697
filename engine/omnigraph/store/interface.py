"""The one interface to bytes under keys. Owns its contract; ``local`` and ``s3`` keep it.

A key is a relative path with forward slashes. Objects are small: they are read and written whole. What is not offered
is not needed: no rename, no append, no partial read, no update in place but ``replace``.

Three answers, never two. A write either happened, or did not, or the store has not said. ``create`` resolves the third
by reading back; where even that does not answer, ``StoreUnavailable`` carries the fact ``outcome="unknown"``, and the
write may still land later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from omnigraph.core.errors import AlreadyExists, OmnigraphError
from omnigraph.core.meter import Meter


class KeyExists(AlreadyExists):
    """Another object is there already. Facts: ``key``."""

    default_hint: ClassVar[str] = "read the object that is there; it is not the one that was to be written"


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of a listing."""

    key: str
    size: int
    modified_us: int


@dataclass(frozen=True, slots=True)
class DeleteFailure:
    """An object that ``delete_many`` could not delete, and why."""

    key: str
    error: OmnigraphError


class Store(Protocol):
    """Bytes under keys below one root. Safe to share between threads; pickles without credentials."""

    @property
    def uri(self) -> str:
        """The root, normalised: an absolute path or ``s3://bucket/prefix``, without a slash at the end."""

    @property
    def is_remote(self) -> bool: ...

    def lance_uri(self, relative: str) -> str:
        """Where Lance finds the dataset at ``relative``."""

    def lance_options(self) -> dict[str, str] | None:
        """The ``storage_options`` with which Lance reaches the same place in the same way. Holds credentials if the
        caller gave some; never keep, show or store it."""

    def check_conditional_create(self, *, meter: Meter | None = None) -> None:
        """Show that a second create of one key is refused, once for this object; ``StoreRefused`` if it is not.

        Done by itself before the first write. Costs one request where it was done before on this root, else two.
        """

    def create(self, key: str, data: bytes, *, meter: Meter | None = None) -> None:
        """Write an object that must not exist. ``KeyExists`` if a *different* object is there.

        Creating the same bytes again succeeds, which is how a lost answer is resolved. Where two rivals could write
        the same bytes and only one may win, the bytes must name the writer.
        """

    def replace(self, key: str, data: bytes, *, meter: Meter | None = None) -> None:
        """Write an object whatever was there. Readers see the old bytes or the new ones."""

    def copy(self, source: str, target: str, *, meter: Meter | None = None) -> None:
        """Make ``target`` hold what ``source`` holds, whatever its size and whatever was there. A store that can copies by
        itself. Readers see the old object or the new one. An error where there is no ``source``."""

    def get(self, key: str, *, meter: Meter | None = None) -> bytes | None:
        """The object, or ``None`` if the store says that there is none."""

    def exists(self, key: str, *, meter: Meter | None = None) -> bool: ...

    def size(self, key: str, *, meter: Meter | None = None) -> int | None:
        """Bytes of the object, or ``None`` if there is none."""

    def list(self, prefix: str, *, start_after: str | None = None, meter: Meter | None = None) -> list[Entry]:
        """Every object whose key starts with ``prefix`` and sorts after ``start_after``; complete, sorted by key."""

    def folders(self, prefix: str, *, meter: Meter | None = None) -> tuple[str, ...]:
        """The names directly below ``prefix`` (which ends with a slash) that hold objects; sorted. Looks no deeper, so
        it costs what there are names, not what there are objects. A disk may also name folders left empty."""

    def delete(self, key: str, *, meter: Meter | None = None) -> bool:
        """Afterwards the object is gone. ``False`` only where the store says that it was not there before."""

    def delete_many(self, keys: Iterable[str], *, meter: Meter | None = None) -> tuple[DeleteFailure, ...]:
        """``delete`` each; what could not be deleted is returned and does not stop the others."""

    def prune(self, prefix: str) -> None:
        """Remove empty folders below ``prefix``, which a listing does not show. Nothing to do where there are none."""

    def unfinished(self, prefix: str, before_us: int) -> tuple[Entry, ...]:
        """Files of writes, ours and Lance's, that were interrupted before a time: under names that are no keys and that no
        listing shows. An object store has none: there is nothing before it is whole."""

    def delete_unfinished(self, entries: Iterable[Entry]) -> tuple[DeleteFailure, ...]:
        """Delete those that are still as they were seen; what could not be deleted is returned."""
