"""Managed bytes in a table: large binary outside, Lance blob columns inside.

A column is a blob column when its field carries the mark that the schema puts on it. Lance takes marked large binary
as it is and stores each value beside the data file, by size; read back it shows a descriptor unless it is asked for
bytes. This module knows the mark, the option that asks for bytes, and how a stored schema reads from outside. It never
makes a reference to bytes outside of the graph: Lance refuses those, and nothing here allows them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

BLOB_MARK: Final[dict[bytes | str, bytes | str]] = {b"lance-encoding:blob": b"true"}

READ_BYTES: Final[dict[str, Any]] = {"blob_handling": "all_binary"}
"""Options of a scan that returns the bytes. Columns that are not asked for are not read, blobs or not."""

_STORED_TYPE = "lance.blob.v2"


def is_blob(field: pa.Field[Any]) -> bool:
    """Whether a field, as the schema declares it or as Lance shows it, is a blob column."""
    kind: Any = field.type
    if getattr(kind, "extension_name", None) == _STORED_TYPE:
        return True
    metadata: dict[Any, Any] = field.metadata or {}
    return any(metadata.get(name) == value for name, value in BLOB_MARK.items())


def blob_columns(schema: pa.Schema) -> list[str]:
    # Only what is an extension or carries a mark can be one, and most fields are neither.
    return [
        field.name
        for field in schema
        if (field.metadata is not None or isinstance(field.type, pa.BaseExtensionType)) and is_blob(field)
    ]


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """The schema to create a table with. A table created with the mark alone is changed by its first append."""
    from lance.blob import blob_field

    return _with_blobs(
        schema, lambda field: blob_field(field.name, nullable=field.nullable).with_metadata(_own_metadata(field))
    )


def logical_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of the rows that a scan with :data:`READ_BYTES` returns and a write takes."""
    return _with_blobs(
        schema,
        lambda field: pa.field(field.name, pa.large_binary(), field.nullable, _own_metadata(field) | BLOB_MARK),
    )


def _with_blobs(schema: pa.Schema, change: Callable[[pa.Field[Any]], pa.Field[Any]]) -> pa.Schema:
    if not blob_columns(schema):
        return schema
    metadata: Any = schema.metadata
    return pa.schema([change(field) if is_blob(field) else field for field in schema], metadata)


def _own_metadata(field: pa.Field[Any]) -> dict[bytes | str, bytes | str]:
    """What the schema says about a field, without the mark and what Arrow and Lance add of their own."""
    return {
        name: value
        for name, value in (field.metadata or {}).items()
        if name not in BLOB_MARK and not name.startswith(b"ARROW:extension")
    }


def as_stored(rows: pa.Table, stored: pa.Schema) -> pa.Table:
    """Rows as Lance takes them for a table of this schema: the mark is easily lost on the way through Arrow."""
    names = [name for name in blob_columns(stored) if name in rows.column_names]
    for name in names:
        at = rows.schema.get_field_index(name)
        field = logical_schema(stored).field(name)
        if rows.schema.field(at).equals(field, check_metadata=True):
            continue
        rows = rows.set_column(at, field, rows.column(at).cast(pa.large_binary()))
    return rows
