"""Whole fragments of a manifest line, read and checked against their digests."""

from __future__ import annotations

import threading
from collections import OrderedDict
from itertools import accumulate, pairwise
from typing import Any

from omnigraph.core.collector import collector_paused
from omnigraph.core.errors import Corruption
from omnigraph.core.meter import Meter
from omnigraph.manifest import codec, digests
from omnigraph.manifest import rows as r
from omnigraph.table import strict

KNOWN_ROWS_MAX = 16_384  # remembered rows of schema and base fragments: two of a graph with 2,000 types are 8,000
_ATTEMPTS = 2  # a fault on the way is gone the second time, one on the disk is not


def read(handle: Any, first: int, end: int, meter: Meter | None = None) -> list[list[r.RawRow]]:
    """The rows of neighbouring fragments, fetched side by side. Raise ``Corruption`` where they are not what was written."""
    expected = digests_of(handle)
    files = strict.fragment_files(handle)[first:end]
    sizes = strict.fragment_rows(handle)[first:end]
    wrong: list[str] = []
    for _ in range(_ATTEMPTS):
        found = strict.read_fragments(handle, first, end, meter)
        with collector_paused():
            columns = codec.columns(found)
            cuts = [0, *accumulate(sizes)]
            parts = [[column[start:end] for column in columns] for start, end in pairwise(cuts)]
            wrong = [
                file
                for file, part in zip(files, parts, strict=True)
                if digests.digest_of_columns(part) != expected[file]
            ]
            if not wrong and cuts[-1] == found.num_rows:
                return [codec.from_columns(part) for part in parts]
    raise Corruption(
        f"the rows in data/{wrong[0] if wrong else files[0]} of __manifest are not those that were written",
        hint="keep the files, look at the store, and run `omnigraph verify --deep`",
        object="__manifest",
        version=handle.version,
        file=wrong[0] if wrong else files[0],
    )


class Known:
    """The rows of schema and base fragments by data file. They never change, and most versions list those of their base."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: OrderedDict[str, list[r.RawRow]] = OrderedDict()
        self._count = 0

    def state(self, handle: Any, first: int, meter: Meter | None = None) -> list[list[r.RawRow]]:
        """The fragments of a version from ``first`` on: what is known, and the rest read in one go."""
        files = strict.fragment_files(handle)[first:]
        known = []
        for file in files[:-1]:
            rows = self._get(file)
            if rows is None:
                break
            known.append(rows)
        found = read(handle, first + len(known), first + len(files), meter)
        for file, rows in zip(files[len(known) : -1], found, strict=False):
            self.remember(file, rows)
        return [*known, *found]

    def _get(self, file: str) -> list[r.RawRow] | None:
        with self._lock:
            if file in self._rows:
                self._rows.move_to_end(file)
            return self._rows.get(file)

    def remember(self, file: str, rows: list[r.RawRow]) -> None:
        with self._lock:
            self._count += len(rows) - len(self._rows.pop(file, []))
            self._rows[file] = rows
            while self._count > KNOWN_ROWS_MAX and len(self._rows) > 2:
                _, dropped = self._rows.popitem(last=False)
                self._count -= len(dropped)


def digests_of(handle: Any) -> dict[str, str]:
    """The digest of each data file of a version, which the version itself carries. No request."""
    try:
        return digests.parse(handle.schema.metadata or {}, strict.fragment_files(handle))
    except (ValueError, TypeError) as error:
        raise Corruption(
            f"a version of __manifest does not say what its files hold: {error}",
            object="__manifest",
            version=handle.version,
        ) from error
