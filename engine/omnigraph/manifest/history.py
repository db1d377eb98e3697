"""The history of a line: the tail in the current state, older rows in archive fragments.

A look-up asks the tail, then the archive. An archive fragment as a swap writes it is small; hashes of its ids and keys tell
whether it may have the row, and then it is read whole. One that internal compaction has made is large; a look-up asks Lance for
the rows that match and reads no others. So the archive is never held here as a whole.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import chain, groupby

from omnigraph.core.ids import is_ulid_prefix
from omnigraph.core.meter import Meter
from omnigraph.manifest import codec, fragments, reading
from omnigraph.manifest import rows as r
from omnigraph.manifest.archive_names import ArchiveNames
from omnigraph.manifest.swap import Held, archive_files
from omnigraph.table import strict

WHOLE_ROWS_MAX = 1_024  # of a fragment that a look-up reads whole
KNOWN_ROWS_MAX = 16_384  # remembered rows of such fragments; about 10 MB of receipts at most
_DECODED_AT_ONCE = 1_024
# Merges as Lance finds them: metadata is canonical JSON, whose members are sorted. It may find too many, never too few.
_JOINS = f"object_type = '{r.MERGED_COMMIT}' OR metadata LIKE '%\"merge\":{{%'"


class History:
    """Looks up commits and aborts of a line."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[r.HistoryRow, ...]] = OrderedDict()
        self._known_rows = 0
        self._names = ArchiveNames()

    def find(
        self, held: Held, row_id: str, *, since: int | None = None, meter: Meter | None = None
    ) -> r.HistoryRow | None:
        """Return the row under this id, or None. A record of this line comes before one that a merge has carried here.

        ``since``: look only for the line's own records, and only for those that were written after that version of it.
        """
        found = held.state.in_tail(row_id)
        if (found is not None and not isinstance(found, r.MergedRow)) or (
            since is not None and held.state.tail_reaches_own(since)
        ):
            return found
        after = None if since is None else since + 1
        archived = self._matching(held, "object_id", row_id, after, meter)
        own = next((row for row in archived if not isinstance(row, r.MergedRow)), None)
        return own or found or next(iter(archived), None)

    def find_key(
        self, held: Held, idempotency_key: str, *, since: int | None = None, meter: Meter | None = None
    ) -> r.CommitRow | None:
        """Return the commit that carries this idempotency key, or None.

        The line's own commit comes before one that a merge has carried here, and of those the newest comes first.
        ``since``: look only at rows that were written after that version of the line.
        """
        found = [row for row in reversed(held.state.tail) if _key_of(row) == idempotency_key]
        own = next((row for row in found if isinstance(row, r.CommitRow)), None)
        if own is None and not (since is not None and held.state.tail_reaches(since)):
            archived = self._matching(held, "idempotency_key", idempotency_key, since, meter)
            found.extend(archived)
            own = next((row for row in archived if isinstance(row, r.CommitRow)), None)
        if own is not None:
            return own
        return next((row.row for row in found if isinstance(row, r.MergedRow)), None)

    def starting(self, held: Held, prefix: str, meter: Meter | None = None) -> list[str]:
        """Return the ids of commits that begin with this part of an id, those that merges have carried here included."""
        if not is_ulid_prefix(prefix):
            return []
        rows: list[r.HistoryRow] = list(held.state.tail)
        sizes = strict.fragment_rows(held.handle)
        large: list[int] = []
        for index, file in enumerate(archive_files(held)):
            if sizes[index] > WHOLE_ROWS_MAX:
                large.append(index)
            else:
                rows.extend(self._whole(held, index, file, meter))
        if large:
            stored = strict.selected(held.handle, large, f"object_id LIKE '{prefix}%'", meter)
            rows.extend(fragments.history(codec.from_arrow(stored)))
        wanted = (row for row in rows if isinstance(row, r.CommitRow | r.MergedRow))
        return sorted({row.object_id for row in wanted if row.object_id.startswith(prefix)})

    def swap_of(self, held: Held, row: r.CommitRow, meter: Meter | None = None) -> tuple[str, ...]:
        """Return the ids of all commits that the swap of this one made visible, in order. No fragment divides them."""
        rows: Iterable[r.HistoryRow] = held.state.tail
        if row.ref != held.state.ref or not row.version:
            return (row.commit_id,)  # it was merged: on its own line it may have had company, here it is alone
        if row.version < held.state.tail_begins:
            rows = self._archived_swap(held, row, meter)
        return tuple(one.commit_id for one in rows if isinstance(one, r.CommitRow) and one.version == row.version)

    def _archived_swap(self, held: Held, row: r.CommitRow, meter: Meter | None) -> Iterable[r.HistoryRow]:
        sizes = strict.fragment_rows(held.handle)
        large: list[int] = []
        for index, file in reversed(list(enumerate(archive_files(held)))):
            if sizes[index] > WHOLE_ROWS_MAX:
                large.append(index)
                continue
            rows = self._whole(held, index, file, meter)
            if row in rows:
                return rows
        found = strict.matching(held.handle, sorted(large), "table_version", row.version, meter) if large else None
        return () if found is None else fragments.history(codec.from_arrow(found))

    def rows(self, held: Held, meter: Meter | None = None) -> Iterator[r.HistoryRow]:
        """Every history row, newest first."""
        return chain.from_iterable(self._parts(held, meter))

    def swaps(self, held: Held, meter: Meter | None = None) -> Iterator[list[r.HistoryRow]]:
        """The rows of one swap after the other, newest first; those that a merge has carried here apart. No older fragment is
        read to learn that a swap has no more rows: none divides them."""
        for part in self._parts(held, meter):
            for _, rows in groupby(part, key=lambda row: (row.version, isinstance(row, r.MergedRow))):
                yield list(rows)

    def _parts(self, held: Held, meter: Meter | None) -> Iterator[Iterable[r.HistoryRow]]:
        """The tail, then the fragments of the archive, newest first in each."""
        yield reversed(held.state.tail)
        sizes = strict.fragment_rows(held.handle)
        for index, file in reversed(list(enumerate(archive_files(held)))):
            small = sizes[index] <= WHOLE_ROWS_MAX
            yield reversed(self._whole(held, index, file, meter)) if small else _decoded(held, index, meter)

    def joins(self, held: Held, meter: Meter | None = None) -> Iterator[r.HistoryRow]:
        """The commits of merges, and what they carried here: what decides about ancestors. Newest first."""
        yield from (row for row in reversed(held.state.tail) if _joins(row))
        sizes = strict.fragment_rows(held.handle)
        large: list[int] = []
        for index, file in reversed(list(enumerate(archive_files(held)))):
            if sizes[index] > WHOLE_ROWS_MAX:
                large.append(index)
            else:
                yield from (row for row in reversed(self._whole(held, index, file, meter)) if _joins(row))
        if large:
            stored = strict.selected(held.handle, sorted(large), _JOINS, meter)
            found = [row for row in fragments.history(codec.from_arrow(stored)) if _joins(row)]
            yield from sorted(found, key=lambda row: -row.seq)

    def _matching(
        self, held: Held, column: str, value: str, since: int | None, meter: Meter | None
    ) -> list[r.HistoryRow]:
        """The archived rows with this value, newest first; with ``since`` not those of fragments that are older."""
        sizes, files = strict.fragment_rows(held.handle), archive_files(held)
        found: list[r.HistoryRow] = []
        large: list[int] = []
        small = [index for index in reversed(range(len(files))) if sizes[index] <= WHOLE_ROWS_MAX]
        named = self._names.newest_first(held, files, small, meter)
        for index in reversed(range(len(files))):
            if sizes[index] > WHOLE_ROWS_MAX:
                large.append(index)
                continue
            names, whole = next(named)
            if names.may_name(value):
                rows = self._whole(held, index, files[index], meter, whole)
                found.extend(row for row in rows if _value(row, column) == value)
                if any(not isinstance(row, r.MergedRow) for row in found):
                    return found  # a line has one own record of an id or key, and that is what counts
            if since is not None and names.reaches(since):
                break
        if large:
            stored = strict.matching(held.handle, sorted(large), column, value, meter)
            found.extend(fragments.history(codec.from_arrow(stored)))
        return sorted(found, key=lambda row: -row.seq)

    def _whole(
        self, held: Held, index: int, file: str, meter: Meter | None, stored: list[r.RawRow] | None = None
    ) -> tuple[r.HistoryRow, ...]:
        """All rows of an archive fragment, oldest first. ``stored``: as they have been read already."""
        with self._lock:
            known = self._known.get(file)
            if known is not None:
                self._known.move_to_end(file)
                return known
        if stored is None:
            [stored] = reading.read(held.handle, index, index + 1, meter)
        rows = fragments.history(fragments.archived(stored))
        with self._lock:
            if file not in self._known:
                self._known[file] = rows
                self._known_rows += len(rows)
                while self._known_rows > KNOWN_ROWS_MAX and len(self._known) > 1:
                    _, dropped = self._known.popitem(last=False)
                    self._known_rows -= len(dropped)
        return rows


def _joins(row: r.HistoryRow) -> bool:
    return isinstance(row, r.MergedRow) or (isinstance(row, r.CommitRow) and row.merge is not None)


def _value(row: r.HistoryRow, column: str) -> str | None:
    return row.object_id if column == "object_id" else _key_of(row)


def _key_of(row: r.HistoryRow) -> str | None:
    if isinstance(row, r.MergedRow):
        return row.row.idempotency_key
    return row.idempotency_key if isinstance(row, r.CommitRow) else None


def _decoded(held: Held, index: int, meter: Meter | None) -> Iterator[r.HistoryRow]:
    """The rows of one large fragment, newest first, a part of them at a time."""
    [stored] = reading.read(held.handle, index, index + 1, meter)
    ordered = fragments.archived(stored)
    for end in range(len(ordered), 0, -_DECODED_AT_ONCE):
        yield from reversed(fragments.history(ordered[max(0, end - _DECODED_AT_ONCE) : end]))
