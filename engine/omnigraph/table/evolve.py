"""Transactions that change the columns of a table, or bring back an older version of it. No data is written here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from lance import LanceOperation, Transaction

from omnigraph.core.errors import Corruption
from omnigraph.table.blob import stored_schema
from omnigraph.table.column_files import ColumnFile
from omnigraph.table.fields import Projection, extended, projected


def add_columns(handle: Any, fields: Iterable[pa.Field[Any]], order: Sequence[str] = ()) -> Transaction:
    """More columns, null in every row that is there. Rows keep the stamp of their last change."""
    fragments = [fragment.metadata for fragment in handle.get_fragments()]
    return Transaction(handle.version, LanceOperation.Merge(fragments, extended(handle, _stored(fields), order=order)))


def fill_columns(
    handle: Any,
    filled: Sequence[pa.Field[Any]],
    empty: Sequence[pa.Field[Any]],
    files: Iterable[ColumnFile],
    *,
    replaced: frozenset[str] = frozenset(),
    order: Sequence[str] = (),
) -> Transaction:
    """More columns, those of ``filled`` with the values of the files: one for each fragment. ``replaced``: columns whose name
    an added one takes."""
    by_fragment = {file.fragment: file for file in files}
    first = int(handle.max_field_id) + 1
    fragments = []
    for fragment in handle.get_fragments():
        file = by_fragment.get(fragment.metadata.id)
        if file is None:
            raise Corruption(
                f"no values were written for fragment {fragment.metadata.id}",
                hint="nothing was committed; repeat the change",
                fragment=fragment.metadata.id,
            )
        fragments.append(file.beside(fragment.metadata, first))
    schema = extended(handle, [*filled, *_stored(empty)], replaced=replaced, order=order)
    return Transaction(handle.version, LanceOperation.Merge(fragments, schema))


def _stored(fields: Iterable[pa.Field[Any]]) -> list[pa.Field[Any]]:
    """The fields as a table is created with them: blobs have a type of their own."""
    return list(stored_schema(pa.schema(list(fields))))


def project(handle: Any, change: Projection) -> Transaction:
    return Transaction(handle.version, LanceOperation.Project(projected(handle, change)))


def restore(handle: Any, version: int) -> Transaction:
    """The content of ``version`` of the same line, as the next version."""
    return Transaction(handle.version, LanceOperation.Restore(version))
