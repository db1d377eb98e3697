"""Which numbers the fragments of a transaction get: what is expected before it lands, and what they are afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lance import LanceOperation

from omnigraph.table.files import data_file_name

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.fragment import FragmentMetadata


@dataclass(frozen=True)
class Changed:
    """The fragments that an operation adds, in the order in which they are numbered, and those that it takes out."""

    new: tuple[FragmentMetadata, ...]
    gone: frozenset[int]


def changed_by(operation: Any) -> Changed | None:
    """None for an operation after which fragments of the same number may hold other rows."""
    if isinstance(operation, LanceOperation.Append):
        return Changed(tuple(operation.fragments), frozenset())
    if isinstance(operation, LanceOperation.Update):
        return Changed(tuple(operation.new_fragments), frozenset(operation.removed_fragment_ids))
    if isinstance(operation, LanceOperation.Delete):
        return Changed((), frozenset(operation.deleted_fragment_ids))
    return None


def expected_numbers(handle: LanceDataset, new: Sequence[FragmentMetadata]) -> tuple[int, ...]:
    """The numbers after the highest one of the handle. A version without its last fragment goes on from a higher one, which it
    does not tell: so what is expected has to be confirmed."""
    first = max(handle.fragment_ids(), default=-1) + 1
    return tuple(range(first, first + len(new)))


def are_numbered(landed: LanceDataset, new: Sequence[FragmentMetadata], numbers: Sequence[int]) -> bool:
    """Whether these fragments have these numbers: told by their data files."""
    if not new and not numbers:
        return True
    found = [landed.get_fragment(number) for number in numbers]
    return len(new) == len(numbers) and all(
        one is not None and _files(one.metadata) == _files(given) for one, given in zip(found, new, strict=True)
    )


def numbers_in(landed: LanceDataset, new: Sequence[FragmentMetadata]) -> tuple[int, ...] | None:
    """The numbers of these fragments; None if one of them is not there."""
    by_files = {_files(one.metadata): one.metadata.id for one in landed.get_fragments()}
    found = [by_files.get(_files(one)) for one in new]
    known = tuple(number for number in found if number is not None)
    return known if len(known) == len(new) else None


def indexed_fragments(handle: LanceDataset, column: str) -> frozenset[int]:
    """The fragments that a BTREE on the column covers."""
    from omnigraph.table.layout import covered

    return covered(handle).get(column, frozenset())


def _files(fragment: FragmentMetadata) -> tuple[str, ...]:
    return tuple(map(data_file_name, fragment.files))
