"""The history of a branch: the tail in the current state, older rows in archive fragments.

Archive fragments never change, so what was read of one is remembered by the name of its file. Look-ups go newest first
and stop as early as the answer allows.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator

from omnigraph.core.meter import Meter
from omnigraph.manifest import rows as r
from omnigraph.manifest.swap import Held
from omnigraph.table import strict

ARCHIVE_ROWS_MAX = 200_000  # remembered rows; about 100 MB of receipts at most


class History:
    """Looks up commits and aborts of a branch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._archives: OrderedDict[str, tuple[r.HistoryRow, ...]] = OrderedDict()
        self._held_rows = 0

    def find(
        self, held: Held, commit_id: str, *, since: int | None = None, meter: Meter | None = None
    ) -> r.HistoryRow | None:
        """The row under this id. ``since``: a manifest version before which it cannot have been written."""
        row = held.state.in_tail(commit_id)
        if row is not None or (since is not None and held.state.tail_reaches(since)):
            return row
        for rows in self._newest_first(held, meter):
            for row in rows:
                if row.commit_id == commit_id:
                    return row
            if since is not None and rows and rows[0].manifest_version <= since + 1:
                return None
        return None

    def find_key(
        self, held: Held, idempotency_key: str, *, since: int | None = None, meter: Meter | None = None
    ) -> r.CommitRow | None:
        """The commit that carries this idempotency key."""
        for row in reversed(held.state.tail):
            if isinstance(row, r.CommitRow) and row.idempotency_key == idempotency_key:
                return row
        if since is not None and held.state.tail_reaches(since):
            return None
        for rows in self._newest_first(held, meter):
            for row in rows:
                if isinstance(row, r.CommitRow) and row.idempotency_key == idempotency_key:
                    return row
            if since is not None and rows and rows[0].manifest_version <= since + 1:
                return None
        return None

    def rows(self, held: Held, meter: Meter | None = None) -> Iterator[r.HistoryRow]:
        """Every history row, newest first."""
        yield from reversed(held.state.tail)
        for rows in self._newest_first(held, meter):
            yield from reversed(rows)

    def _newest_first(self, held: Held, meter: Meter | None) -> Iterator[tuple[r.HistoryRow, ...]]:
        """Archive fragments, newest first; rows inside one are oldest first."""
        files = strict.fragment_files(held.handle)[:-1]
        for index in range(len(files) - 1, -1, -1):
            yield self._archive(held, index, files[index], meter)

    def _archive(self, held: Held, index: int, file: str, meter: Meter | None) -> tuple[r.HistoryRow, ...]:
        with self._lock:
            known = self._archives.get(file)
            if known is not None:
                self._archives.move_to_end(file)
                return known
        rows = r.parse_archive(strict.read_fragment(held.handle, index, meter))
        with self._lock:
            if file not in self._archives:
                self._archives[file] = rows
                self._held_rows += len(rows)
                while self._held_rows > ARCHIVE_ROWS_MAX and len(self._archives) > 1:
                    _, dropped = self._archives.popitem(last=False)
                    self._held_rows -= len(dropped)
        return rows
