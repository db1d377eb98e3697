"""Which ids and idempotency keys an archive fragment names, kept as hashes by the name of its file, which never changes.

A look-up that no fragment answers is the usual one: a new key, a new id. It reads the newest few fragments whole, a few narrow
columns of the others, each once and side by side, and the rows of those fragments only that may have the row.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import xxhash

from omnigraph.core.meter import Meter
from omnigraph.manifest import reading
from omnigraph.manifest import rows as r
from omnigraph.manifest.swap import Held
from omnigraph.table import strict

KNOWN_HASHES_MAX = 1_000_000  # 8 MB
_WAVES = (1, 8, 64, 512)  # fragments read side by side, more the further back the look-up goes
_WHOLE_MAX = 8  # up to so many are read whole: what is looked for is mostly in one of them, and need not be read again
_COLUMNS = ("object_id", "idempotency_key", "seq", "table_version")


@dataclass(frozen=True)
class Names:
    """``hashes``: of all ids and keys, sorted. ``first_seq`` and ``first_version``: of the oldest row."""

    hashes: array[int]
    first_seq: int
    first_version: int

    def may_name(self, value: str) -> bool:
        """Return whether a row may have this id or key. False is certain."""
        wanted = _hash(value)
        at = bisect_left(self.hashes, wanted)
        return at < len(self.hashes) and self.hashes[at] == wanted

    def reaches(self, version: int) -> bool:
        """Whether nothing older was written after this version of the line."""
        return self.first_seq == 1 or self.first_version <= version


class ArchiveNames:
    """Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Names] = OrderedDict()
        self._hashes = 0

    def newest_first(
        self, held: Held, files: Sequence[str], indices: Sequence[int], meter: Meter | None = None
    ) -> Iterator[tuple[Names, list[r.RawRow] | None]]:
        """The names of these fragments, which come newest first, and their rows where they have just been read."""
        waves = iter(_WAVES)
        size = next(waves)
        ahead: dict[int, tuple[Names, list[r.RawRow] | None]] = {}
        for position, index in enumerate(indices):
            known = self._get(files[index])
            if index not in ahead and known is None:
                wanted = [one for one in indices[position:] if self._get(files[one]) is None][:size]
                size = next(waves, size)
                ahead = self._read(held, sorted(wanted), meter)
                for one, (names, _) in ahead.items():
                    self._remember(files[one], names)
            yield ahead.pop(index) if index in ahead or known is None else (known, None)

    def _read(
        self, held: Held, indices: Sequence[int], meter: Meter | None
    ) -> dict[int, tuple[Names, list[r.RawRow] | None]]:
        first, end = indices[0], indices[-1] + 1
        if len(indices) <= _WHOLE_MAX and end - first == len(indices):
            parts = reading.read(held.handle, first, end, meter)
            return {first + at: (_names_of(rows), rows) for at, rows in enumerate(parts)}
        sizes = strict.fragment_rows(held.handle)
        table = strict.columns_of(held.handle, indices, _COLUMNS, meter)
        found: dict[int, tuple[Names, list[r.RawRow] | None]] = {}
        start = 0
        for index in indices:
            part = table.slice(start, sizes[index])
            found[index] = (_names(*(part.column(name).to_pylist() for name in _COLUMNS)), None)
            start += sizes[index]
        return found

    def _get(self, file: str) -> Names | None:
        with self._lock:
            if file in self._known:
                self._known.move_to_end(file)
            return self._known.get(file)

    def _remember(self, file: str, names: Names) -> None:
        with self._lock:
            if file in self._known:
                return
            self._known[file] = names
            self._hashes += len(names.hashes)
            while self._hashes > KNOWN_HASHES_MAX and len(self._known) > 1:
                _, dropped = self._known.popitem(last=False)
                self._hashes -= len(dropped.hashes)


def _names_of(rows: Sequence[r.RawRow]) -> Names:
    return _names(*([getattr(row, name) for row in rows] for name in _COLUMNS))


def _names(
    ids: list[str | None], keys: list[str | None], numbers: list[int | None], versions: list[int | None]
) -> Names:
    named = {_hash(one) for one in (*ids, *keys) if one is not None}
    oldest = min(range(len(numbers)), key=lambda at: numbers[at] or 0)
    return Names(array("Q", sorted(named)), numbers[oldest] or 0, versions[oldest] or 0)


def _hash(value: str) -> int:
    return xxhash.xxh3_64_intdigest(value.encode())
