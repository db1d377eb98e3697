"""The ``.pg`` schema language: text, catalog, canonical form, columns and key texts.

Pure: no storage, no clock, no identities of its own making. Names are loaded when they are first used, so that
importing the package costs neither Arrow nor RE2 nor pydantic.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.schema.arrow import table_schema
    from omnigraph.schema.canonical import canonical_text, schema_id, shape_text
    from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, Property, PropType, ScalarKind, TableType
    from omnigraph.schema.identity import mint_identities, with_identities
    from omnigraph.schema.pattern import compile_pattern
    from omnigraph.schema.printer import format_schema
    from omnigraph.schema.resolve import parse_schema
    from omnigraph.schema.stored import catalog_from_canonical

_HOMES = {
    "Catalog": "catalog",
    "EdgeType": "catalog",
    "NodeType": "catalog",
    "PropType": "catalog",
    "Property": "catalog",
    "ScalarKind": "catalog",
    "TableType": "catalog",
    "canonical_text": "canonical",
    "catalog_from_canonical": "stored",
    "compile_pattern": "pattern",
    "format_schema": "printer",
    "mint_identities": "identity",
    "parse_schema": "resolve",
    "schema_id": "canonical",
    "shape_text": "canonical",
    "table_schema": "arrow",
    "with_identities": "identity",
}

__all__ = [
    "Catalog",
    "EdgeType",
    "NodeType",
    "PropType",
    "Property",
    "ScalarKind",
    "TableType",
    "canonical_text",
    "catalog_from_canonical",
    "compile_pattern",
    "format_schema",
    "mint_identities",
    "parse_schema",
    "schema_id",
    "shape_text",
    "table_schema",
    "with_identities",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
