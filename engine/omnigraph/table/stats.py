"""Facts of one version of a table that its pin repeats: read from a handle, or told ahead of a transaction. No request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance import LanceDataset, LanceOperation, Transaction

if TYPE_CHECKING:
    from lance.fragment import FragmentMetadata


@dataclass(frozen=True)
class TableStats:
    """Facts of one version that its pin repeats; read from the handle, no request."""

    rows: int
    fragments: int
    bytes: int
    deleted_rows: int
    unindexed_fragments: int


def stats_of(handle: LanceDataset) -> TableStats:
    """The facts of a version that status and sensors read from its pin. No request."""
    return _stats((fragment.metadata for fragment in handle.get_fragments()), _covered(handle))


def predict_stats(before: TableStats, handle: LanceDataset, transaction: Transaction) -> TableStats | None:
    """What ``stats_of`` will say once this transaction has landed on the handle, whose own stats are ``before``.

    Costs what the transaction touches, not what the table holds. None for an operation that cannot be told ahead.
    """
    operation = transaction.operation
    if isinstance(operation, LanceOperation.Append):
        return _plus(before, list(operation.fragments))
    if isinstance(operation, LanceOperation.Overwrite):
        return _plus(TableStats(0, 0, 0, 0, 0), list(operation.fragments))
    if isinstance(operation, LanceOperation.Update):
        removed = list(operation.removed_fragment_ids)
        updated, new = list(operation.updated_fragments), list(operation.new_fragments)
    elif isinstance(operation, LanceOperation.Delete):
        removed, updated, new = list(operation.deleted_fragment_ids), list(operation.updated_fragments), []
    else:
        return None
    touched = [*removed, *(fragment.id for fragment in updated)]
    old = []
    for number in touched:
        fragment = handle.get_fragment(number)
        if fragment is None:
            return None
        old.append(fragment.metadata)
    covered = _covered(handle)
    was, now = _stats(old, covered), _stats(updated, covered)
    rest = TableStats(
        before.rows - was.rows + now.rows,
        before.fragments - was.fragments + now.fragments,
        before.bytes - was.bytes + now.bytes,
        before.deleted_rows - was.deleted_rows + now.deleted_rows,
        before.unindexed_fragments - was.unindexed_fragments + now.unindexed_fragments,
    )
    return _plus(rest, new)


def _plus(before: TableStats, new: Sequence[FragmentMetadata]) -> TableStats:
    """New fragments are covered by no index."""
    added = _stats(new, None)
    return TableStats(
        before.rows + added.rows,
        before.fragments + added.fragments,
        before.bytes + added.bytes,
        before.deleted_rows + added.deleted_rows,
        before.unindexed_fragments + added.fragments,
    )


def _stats(fragments: Iterable[FragmentMetadata], covered: frozenset[int] | None) -> TableStats:
    rows = count = size = deleted = unindexed = 0
    for meta in fragments:
        gone = meta.num_deletions
        count += 1
        rows += meta.physical_rows - gone
        deleted += gone
        size += sum(file.file_size_bytes or 0 for file in meta.files)
        unindexed += covered is None or meta.id not in covered
    return TableStats(rows, count, size, deleted, unindexed)


def _covered(handle: LanceDataset) -> frozenset[int] | None:
    """Fragments that every index of the table covers; None where the table has no index."""
    covered: frozenset[int] | None = None
    for index in handle.describe_indices():
        segments = frozenset(number for segment in index.segments for number in segment.fragment_ids)
        covered = segments if covered is None else covered & segments
    return covered
