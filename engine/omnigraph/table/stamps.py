"""Which rows of two versions of one table may differ, told from their manifests. No row is read for it.

Two versions share most of their fragments; a shared one holds equal rows. Of the other fragments each row has a stamp: its
stable row id and the version in which it was last written. Equal stamps mean equal rows where both versions have the stamp
from the history that they share. Two forks of one version give equal stamps to different rows, so a stamp that is younger
than the version in which the lines part says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.core import meter as m
from omnigraph.table.files import data_file_name
from omnigraph.table.predicate import addresses_among
from omnigraph.table.reading import reading

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.fragment import FragmentMetadata

Numbers = npt.NDArray[np.uint64]
Reason = Literal["columns", "unrelated"]

STAMPS_MAX = 8_000_000
"""Stamps of one version that are held at once, 24 bytes each. Of more rows the stamps are compared in several passes."""

STAMP: Final = "_row_last_updated_at_version"
FILTERED_MAX = 4096
"""Addresses in one filter; of more rows the whole fragment is scanned."""
_OFFSET = np.uint64(0xFFFFFFFF)
_NONE: Final = np.empty(0, dtype=np.uint64)
_BATCH_ROWS = 1 << 20
_ALL_VERSIONS = 2**63


@dataclass(frozen=True)
class Line:
    """A line of versions, and the one of its versions that a table has, or was forked from."""

    ref: str | None
    version: int


KnownDeletions = Callable[["FragmentMetadata"], "npt.NDArray[np.int64] | None"]
"""The offsets of the rows that were deleted from a fragment, rising; None where they would have to be read."""


def nothing_known(_: FragmentMetadata) -> None:
    """No deletions are known without reading them."""


@dataclass(frozen=True)
class Compared:
    """A version to compare. ``lines``: its own line first, then those it was forked from, nearest first. ``columns``: Lance's
    ids of the fields of each column that is compared, in the order of the other version; nothing for one that it lacks."""

    handle: LanceDataset
    lines: tuple[Line, ...]
    columns: tuple[frozenset[int], ...]
    deletions: KnownDeletions = nothing_known


@dataclass
class Candidates:
    """Addresses of rows that may differ, in order. ``stamps``: how many were looked at. ``reason``: why they are all rows of
    the table, where they are: a column was written anew, or the versions have no line in common. ``replaced``: the rows
    that were replaced and those that stand in their place, position by position, where ``after`` comes from ``before`` and each
    of its rows was written once since; None where that is not known."""

    before: Numbers
    after: Numbers
    stamps: int = 0
    reason: Reason | None = None
    replaced: tuple[Numbers, Numbers] | None = None


def ancestor(before: Sequence[Line], after: Sequence[Line]) -> int | None:
    """The newest version up to which both have one history; None if they have none. Any version, if one line holds both."""
    if before[0].ref == after[0].ref:
        return _ALL_VERSIONS
    others = {line.ref: line.version for line in after}
    return next((min(line.version, others[line.ref]) for line in before if line.ref in others), None)


def commits_since(before: Sequence[Line], after: Sequence[Line]) -> int | None:
    """How many versions lie after ``before`` up to ``after``, on its line or on forks that were made of it; None where ``after``
    does not come from it."""
    if before[0].ref != after[0].ref and before[0] not in after[1:]:
        return None
    found = after[0].version - before[0].version
    return found if found > 0 else None


def is_written_once(
    newest: int, last: int, commits: int, fragments: Sequence[FragmentMetadata], stamps: Numbers
) -> bool:
    """Whether no commit after version ``last`` has touched a row that another one of them had written. ``newest``: the number of
    the newest fragment at ``last``; ``fragments``: those written since that are still there, with the ``stamps`` of their rows.

    Of one commit that is so. Of more, each has written rows, all of them are live, and no fragment in between is missing:
    what one of them took away would lack. A Restore or a compaction has no stamp of its own. Pure.
    """
    if commits == 1:
        return True
    numbers = sorted(one.id for one in fragments)
    whole = numbers == list(range(newest + 1, newest + 1 + len(numbers))) and not any(map(_deletion, fragments))
    return whole and np.array_equal(np.unique(stamps), np.arange(last + 1, last + 1 + commits, dtype=np.uint64))


def candidates(before: Compared, after: Compared, meter: m.Meter | None = None) -> Candidates:
    """The rows of either version that may lack an equal row in the other one."""
    split = _split(before, after)
    limit = ancestor(before.lines, after.lines)
    left: tuple[list[_Stamps], list[_Stamps]] = ([], [])
    seen = 0
    for number in range(split.passes):
        stamps: tuple[list[_Stamps], list[_Stamps]] = ([], [])
        for side, some in _read(before, after, split, meter):
            mine = some if split.passes == 1 else some.where(some.row_ids % np.uint64(split.passes) == number)
            stamps[side].append(mine)
        old, new = map(_joined, stamps)
        seen += len(old.addresses) + len(new.addresses)
        for side, some in enumerate(_unmatched(old, new, limit)):
            left[side].append(some)
    reason: Reason | None = None
    if split.before and split.after:
        reason = "unrelated" if limit is None else "columns" if split.same_rows else None
    old, new = map(_joined, left)
    return Candidates(
        np.sort(old.addresses), np.sort(new.addresses), seen, reason, _replaced(before, after, split, old, new)
    )


def _replaced(
    before: Compared, after: Compared, split: _Split, old: _Stamps, new: _Stamps
) -> tuple[Numbers, Numbers] | None:
    """The pairs of rows with one row id, where each row was written once: it keeps its row id when it is replaced."""
    commits = commits_since(before.lines, after.lines)
    last = before.lines[0].version
    if commits is None or not is_written_once(split.newest, last, commits, split.after, new.versions):
        return None
    new = new.where(new.versions > np.uint64(last))
    _, mine, theirs = np.intersect1d(old.row_ids, new.row_ids, assume_unique=True, return_indices=True)
    return old.addresses[mine], new.addresses[theirs]


def kept_at(before: Compared, after: Compared, wanted: Numbers, meter: m.Meter | None = None) -> Numbers | None:
    """Where these rows of ``before`` are in ``after``, if all of them still lie at the same place of the same files: such rows
    are equal. None if one of them does not."""
    pairs = {one.id: (one, other) for one, other in _same_files(_by_files(before), _by_files(after))}
    numbers = (wanted >> np.uint64(32)).astype(np.int64)
    found = np.empty_like(wanted)
    for number in np.unique(numbers).tolist():
        if number not in pairs:
            return None
        one, other = pairs[number]
        offsets = wanted[numbers == number] & _OFFSET
        if _deletion(other) not in (None, _deletion(one)):
            live = _stamps_at(after.handle, other, np.sort(offsets).astype(np.int64), meter)
            if len(live.addresses) != len(offsets):
                return None
        found[numbers == number] = (np.uint64(other.id) << np.uint64(32)) | offsets
    return found


def addresses(handle: LanceDataset, meter: m.Meter | None = None, fragments: Sequence[int] | None = None) -> Numbers:
    """The addresses of all live rows, or of those of some fragments, in order."""
    numbers = [one.fragment_id for one in handle.get_fragments()] if fragments is None else fragments
    return np.sort(_joined(_scan(handle, numbers, meter)).addresses)


@dataclass(frozen=True)
class _Stamps:
    """Rows with their stamps, position by position."""

    addresses: Numbers
    row_ids: Numbers
    versions: Numbers

    def where(self, mask: npt.NDArray[np.bool_]) -> _Stamps:
        return _Stamps(self.addresses[mask], self.row_ids[mask], self.versions[mask])


@dataclass(frozen=True)
class _Split:
    """The fragments to look at. ``before``, ``after``: those with files of their own. ``both``: pairs with the same files,
    from which different rows were deleted. ``newest``: the highest number of a fragment of ``before``, -1 if it has none."""

    before: tuple[FragmentMetadata, ...]
    after: tuple[FragmentMetadata, ...]
    both: tuple[tuple[FragmentMetadata, FragmentMetadata], ...]
    newest: int

    @property
    def passes(self) -> int:
        rows = [
            sum(_live_rows(one) for one in whole)
            + sum(max(0, _live_rows(pair[at]) - _live_rows(pair[1 - at])) for pair in self.both)
            for at, whole in enumerate((self.before, self.after))
        ]
        return max(1, -(-max(rows) // STAMPS_MAX))

    @property
    def same_rows(self) -> bool:
        """Whether a fragment has a file of either version, but not all: a column was written anew beside the others."""
        old = {data_file_name(file) for one in self.before for file in one.files}
        return any(data_file_name(file) in old for one in self.after for file in one.files)


def _split(before: Compared, after: Compared) -> _Split:
    old, new = _by_files(before), _by_files(after)
    same = _same_files(old, new)
    mine, theirs = {one.id for one, _ in same}, {other.id for _, other in same}
    return _Split(
        tuple(meta for metas in old.values() for meta in metas if meta.id not in mine),
        tuple(meta for metas in new.values() for meta in metas if meta.id not in theirs),
        tuple((one, other) for one, other in same if _deletion(one) != _deletion(other)),
        max((meta.id for metas in old.values() for meta in metas), default=-1),
    )


_ByFiles = Mapping[tuple[str | None, ...], Sequence["FragmentMetadata"]]


def _same_files(before: _ByFiles, after: _ByFiles) -> list[tuple[FragmentMetadata, FragmentMetadata]]:
    """The fragments of two versions that have the same files, where just one of each version has them."""
    pairs = ((one, after.get(files, ())) for files, one in before.items())
    return [(one[0], other[0]) for one, other in pairs if len(one) == len(other) == 1]


def _by_files(side: Compared) -> dict[tuple[str | None, ...], list[FragmentMetadata]]:
    """The fragments by the files that hold the compared columns. File names are unique, on whatever line the file lies."""
    found: dict[tuple[str | None, ...], list[FragmentMetadata]] = {}
    for fragment in side.handle.get_fragments():
        meta = fragment.metadata
        path_of = {field: data_file_name(file) for file in meta.files for field in file.fields}
        files = tuple(next((path_of[field] for field in fields if field in path_of), None) for fields in side.columns)
        found.setdefault(files, []).append(meta)
    return found


def _deletion(meta: FragmentMetadata) -> tuple[int, int] | None:
    file = meta.deletion_file
    return None if file is None else (file.read_version, file.id)


def _live_rows(meta: FragmentMetadata) -> int:
    return int(meta.physical_rows - meta.num_deletions)


def _read(before: Compared, after: Compared, split: _Split, meter: m.Meter | None) -> Iterator[tuple[int, _Stamps]]:
    """The stamps to compare, each with the number of its side."""
    for at, (side, whole) in enumerate(((before, split.before), (after, split.after))):
        for some in _scan(side.handle, [one.id for one in whole], meter):
            yield at, some
    for one, other in split.both:
        mine, theirs = _deleted(before, one, meter), _deleted(after, other, meter)
        yield 0, _stamps_at(before.handle, one, np.setdiff1d(theirs, mine, assume_unique=True), meter)
        yield 1, _stamps_at(after.handle, other, np.setdiff1d(mine, theirs, assume_unique=True), meter)


def _deleted(side: Compared, meta: FragmentMetadata, meter: m.Meter | None) -> npt.NDArray[np.int64]:
    """The offsets of deleted rows, rising. Only of those that are not known are the live rows read: that takes as long as the
    fragment is large."""
    if _deletion(meta) is None:
        return np.empty(0, dtype=np.int64)
    known = side.deletions(meta)
    if known is not None:
        return known
    live = np.zeros(meta.physical_rows, dtype=np.bool_)
    scanner = _scanner(side.handle, [meta.id], columns=[], with_row_address=True)
    with reading(side.handle, meter, m.DATA, "reading which rows are deleted"):
        for batch in scanner.to_batches():
            live[_numbers(batch, "_rowaddr") & _OFFSET] = True
    return np.flatnonzero(~live)


def _stamps_at(
    handle: LanceDataset, meta: FragmentMetadata, offsets: npt.NDArray[np.int64], meter: m.Meter | None
) -> _Stamps:
    """The stamps of some live rows of a fragment."""
    wanted = (np.uint64(meta.id) << np.uint64(32)) | offsets.astype(np.uint64)
    if not len(wanted) or len(wanted) > FILTERED_MAX:
        found = _joined(_scan(handle, [meta.id] if len(wanted) else [], meter))
        return found.where(np.isin(found.addresses, wanted, assume_unique=True))
    return _joined(_scan(handle, [meta.id], meter, filter=addresses_among(pa.array(wanted))))


def _scan(
    handle: LanceDataset, fragments: Sequence[int], meter: m.Meter | None, filter: str | None = None
) -> Iterator[_Stamps]:
    if not fragments:
        return
    scanner = _scanner(handle, fragments, columns=[STAMP], with_row_id=True, with_row_address=True, filter=filter)
    with reading(handle, meter, m.DATA, "reading the stamps of rows"):
        for batch in scanner.to_batches():
            yield _Stamps(*(_numbers(batch, name) for name in ("_rowaddr", "_rowid", STAMP)))


def _scanner(handle: LanceDataset, fragments: Sequence[int], **options: Any) -> Any:
    chosen = [cast(Any, handle.get_fragment(number)) for number in fragments]
    return handle.scanner(fragments=chosen, batch_size=_BATCH_ROWS, **options)


def _numbers(batch: pa.RecordBatch, name: str) -> Numbers:
    return np.asarray(batch.column(name).to_numpy(zero_copy_only=False), dtype=np.uint64)


def _joined(parts: Iterable[_Stamps]) -> _Stamps:
    held = list(parts)
    if len(held) == 1:
        return held[0]
    return _Stamps(
        np.concatenate([_NONE, *(one.addresses for one in held)]),
        np.concatenate([_NONE, *(one.row_ids for one in held)]),
        np.concatenate([_NONE, *(one.versions for one in held)]),
    )


def _unmatched(old: _Stamps, new: _Stamps, limit: int | None) -> tuple[_Stamps, _Stamps]:
    """The rows without an equal stamp on the other side. A row id is that of one row of a version at most."""
    if limit is None or not len(old.row_ids) or not len(new.row_ids):
        return old, new
    order = np.argsort(old.row_ids, kind="stable")
    place = np.searchsorted(old.row_ids, new.row_ids, sorter=order)
    place = order[np.minimum(place, len(order) - 1)]
    same = (
        (old.row_ids[place] == new.row_ids) & (old.versions[place] == new.versions) & (new.versions <= np.uint64(limit))
    )
    left = np.ones(len(old.row_ids), dtype=np.bool_)
    left[place[same]] = False
    return old.where(left), new.where(~same)
