"""The columns of a type's table as an Arrow schema.

This module owns the mapping from property types to Arrow types and the names of the metadata keys. Physical order is
``id`` [, ``src``, ``dst``], then the properties by name. It must not import the table format: what it says about
columns is plain metadata that the table layer hands on.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from omnigraph.schema.catalog import Catalog, EdgeType, Property, PropType, ScalarKind, TableType

TYPE_ID = b"omnigraph:type_id"
PROP_ID = b"omnigraph:prop_id"

# What the table format reads: the column that names a row, and columns whose values live beside the rows.
PRIMARY_KEY = {b"lance-schema:unenforced-primary-key": b"true"}
BLOB_COLUMN = {b"lance-encoding:blob": b"true"}

_SCALARS: dict[ScalarKind, pa.DataType] = {
    ScalarKind.STRING: pa.utf8(),
    ScalarKind.BLOB: pa.large_binary(),
    ScalarKind.BOOL: pa.bool_(),
    ScalarKind.I32: pa.int32(),
    ScalarKind.I64: pa.int64(),
    ScalarKind.U32: pa.uint32(),
    ScalarKind.U64: pa.uint64(),
    ScalarKind.F32: pa.float32(),
    ScalarKind.F64: pa.float64(),
    ScalarKind.DATETIME: pa.timestamp("us", "UTC"),
    ScalarKind.DATE: pa.date32(),
}


_MADE = "_arrow_schema"


def arrow_type(prop_type: PropType) -> pa.DataType:
    """Nullability is the field's; the elements of lists and vectors are nullable."""
    if prop_type.scalar is ScalarKind.VECTOR:
        assert prop_type.dim is not None
        return pa.list_(pa.field("item", pa.float32()), prop_type.dim)
    scalar = _SCALARS[prop_type.scalar]
    return pa.list_(pa.field("item", scalar)) if prop_type.is_list else scalar


def property_field(prop: Property) -> pa.Field[Any]:
    metadata = {PROP_ID: prop.prop_id.encode()} if prop.prop_id else {}
    if prop.type.scalar is ScalarKind.BLOB and not prop.type.is_list:
        metadata |= BLOB_COLUMN
    return pa.field(prop.name, arrow_type(prop.type), prop.type.nullable, metadata=metadata or None)


def table_schema(declared: TableType) -> pa.Schema:
    """Columns of the type's table, with the identities of the type and its properties as metadata."""
    found: pa.Schema | None = vars(declared).get(_MADE)
    if found is None:
        found = vars(declared)[_MADE] = _made(declared)  # no field: a changed copy of the type does not take it along
    return found


def _made(declared: TableType) -> pa.Schema:
    fields = [pa.field("id", pa.utf8(), nullable=False, metadata=PRIMARY_KEY)]
    if isinstance(declared, EdgeType):
        fields += [pa.field("src", pa.utf8(), nullable=False), pa.field("dst", pa.utf8(), nullable=False)]
    fields += [property_field(prop) for prop in declared.properties]
    return pa.schema(fields, metadata={TYPE_ID: declared.type_id.encode()} if declared.type_id else None)


def table_schemas(catalog: Catalog) -> dict[str, pa.Schema]:
    """By table key, in its order."""
    return {declared.table_key: table_schema(declared) for declared in catalog.types()}
