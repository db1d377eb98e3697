"""Which rows of two versions of one table may differ, told from their manifests. No row is read for it.

Two versions share most of their fragments; a shared one holds equal rows. Of the other fragments each row has a stamp: its
stable row id and the version in which it was last written. Equal stamps mean equal rows where both versions have the stamp
from the history that they share. Two forks of one version give equal stamps to different rows, so a stamp that is younger
than the version in which the lines part says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import numpy as np
import numpy.typing as npt

from omnigraph.core import meter as m
from omnigraph.table.files import data_file_name
from omnigraph.table.reading import reading

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.fragment import FragmentMetadata

Numbers = npt.NDArray[np.uint64]
Reason = Literal["columns", "unrelated"]

STAMPS_MAX = 8_000_000
"""Stamps of one version that are held at once, 24 bytes each. Of more rows the stamps are compared in several passes."""

STAMP: Final = "_row_last_updated_at_version"
_OFFSET = np.uint64(0xFFFFFFFF)
_BATCH_ROWS = 1 << 20
_ALL_VERSIONS = 2**63


@dataclass(frozen=True)
class Line:
    """A line of versions, and the one of its versions that a table has, or was forked from."""

    ref: str | None
    version: int


@dataclass(frozen=True)
class Compared:
    """A version to compare. ``lines``: its own line first, then those it was forked from, nearest first. ``columns``: Lance's
    ids of the fields of each column that is compared, in the order of the other version; nothing for one that it lacks."""

    handle: LanceDataset
    lines: tuple[Line, ...]
    columns: tuple[frozenset[int], ...]


@dataclass
class Candidates:
    """Addresses of rows that may differ, in order. ``stamps``: how many were looked at. ``reason``: why they are all rows of
    the table, where they are: a column was written anew, or the versions have no line in common."""

    before: Numbers
    after: Numbers
    stamps: int = 0
    reason: Reason | None = None


def ancestor(before: Sequence[Line], after: Sequence[Line]) -> int | None:
    """The newest version up to which both have one history; None if they have none. Any version, if one line holds both."""
    if before[0].ref == after[0].ref:
        return _ALL_VERSIONS
    others = {line.ref: line.version for line in after}
    return next((min(line.version, others[line.ref]) for line in before if line.ref in others), None)


def candidates(before: Compared, after: Compared, meter: m.Meter | None = None) -> Candidates:
    """The rows of either version that may lack an equal row in the other one."""
    split = _split(before, after)
    limit = ancestor(before.lines, after.lines)
    found: tuple[list[Numbers], list[Numbers]] = ([], [])
    seen = 0
    for number in range(split.passes):
        stamps: tuple[list[_Stamps], list[_Stamps]] = ([], [])
        for side, some in _read(before, after, split, meter):
            mine = some if split.passes == 1 else some.where(some.row_ids % np.uint64(split.passes) == number)
            stamps[side].append(mine)
        old, new = map(_joined, stamps)
        seen += len(old.addresses) + len(new.addresses)
        for side, left in enumerate(_unmatched(old, new, limit)):
            found[side].append(left)
    reason: Reason | None = None
    if split.before and split.after:
        reason = "unrelated" if limit is None else "columns" if split.same_rows else None
    left_over = [np.sort(np.concatenate(some)) for some in found]
    return Candidates(left_over[0], left_over[1], seen, reason)


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
    from which different rows were deleted."""

    before: tuple[FragmentMetadata, ...]
    after: tuple[FragmentMetadata, ...]
    both: tuple[tuple[FragmentMetadata, FragmentMetadata], ...]

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
    mine: list[FragmentMetadata] = []
    theirs: list[FragmentMetadata] = []
    both = []
    for files in {**old, **new}:
        one, other = old.get(files, []), new.get(files, [])
        if len(one) == len(other) == 1:
            if _deletion(one[0]) != _deletion(other[0]):
                both.append((one[0], other[0]))
        else:
            mine += one
            theirs += other
    return _Split(tuple(mine), tuple(theirs), tuple(both))


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
        mine = _joined(_scan(before.handle, [one.id], meter))
        theirs = _joined(_scan(after.handle, [other.id], meter))
        rows = one.physical_rows
        yield 0, mine.where(~_present(theirs, rows)[mine.addresses & _OFFSET])
        yield 1, theirs.where(~_present(mine, rows)[theirs.addresses & _OFFSET])


def _present(stamps: _Stamps, rows: int) -> npt.NDArray[np.bool_]:
    """By offset in the fragment, whether a row is live."""
    found = np.zeros(rows, dtype=np.bool_)
    found[stamps.addresses & _OFFSET] = True
    return found


def _scan(handle: LanceDataset, fragments: Sequence[int], meter: m.Meter | None) -> Iterator[_Stamps]:
    if not fragments:
        return
    scanner = handle.scanner(
        columns=[STAMP],
        with_row_id=True,
        with_row_address=True,
        fragments=[cast(Any, handle.get_fragment(number)) for number in fragments],
        batch_size=_BATCH_ROWS,
    )
    with reading(handle, meter, m.DATA, "reading the stamps of rows"):
        for batch in scanner.to_batches():
            yield _Stamps(
                *(
                    np.asarray(batch.column(name).to_numpy(zero_copy_only=False), dtype=np.uint64)
                    for name in ("_rowaddr", "_rowid", STAMP)
                )
            )


def _joined(parts: Iterable[_Stamps]) -> _Stamps:
    held = list(parts)
    if len(held) == 1:
        return held[0]
    none = np.empty(0, dtype=np.uint64)
    return _Stamps(
        np.concatenate([none, *(one.addresses for one in held)]),
        np.concatenate([none, *(one.row_ids for one in held)]),
        np.concatenate([none, *(one.versions for one in held)]),
    )


def _unmatched(old: _Stamps, new: _Stamps, limit: int | None) -> tuple[Numbers, Numbers]:
    """The addresses of rows without an equal stamp on the other side. A row id is that of one row of a version at most."""
    if limit is None or not len(old.row_ids) or not len(new.row_ids):
        return old.addresses, new.addresses
    order = np.argsort(old.row_ids, kind="stable")
    place = np.searchsorted(old.row_ids, new.row_ids, sorter=order)
    place = order[np.minimum(place, len(order) - 1)]
    same = (
        (old.row_ids[place] == new.row_ids) & (old.versions[place] == new.versions) & (new.versions <= np.uint64(limit))
    )
    left = np.ones(len(old.row_ids), dtype=np.bool_)
    left[place[same]] = False
    return old.addresses[left], new.addresses[~same]
