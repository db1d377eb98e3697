"""The ``.pg`` schema language: text, catalog, canonical form, columns, key texts, and how one schema becomes another.

Pure: no storage, no clock, no identities of its own making. Names are loaded when they are first used, so that
importing the package costs neither Arrow nor RE2 nor pydantic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.core.lazy import exports as _exports
from omnigraph.core.lazy import inside as _inside

if TYPE_CHECKING:
    from omnigraph.schema.arrow import table_schema
    from omnigraph.schema.canonical import canonical_text, schema_id, shape_text
    from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, Property, PropType, ScalarKind, TableType
    from omnigraph.schema.diff import apply_plan, diff_catalogs, plan_change
    from omnigraph.schema.identity import mint_identities, with_identities
    from omnigraph.schema.pattern import compile_pattern
    from omnigraph.schema.plan import Cost, Fill, SchemaPlan, SchemaStep, StepKind
    from omnigraph.schema.printer import format_schema
    from omnigraph.schema.resolve import parse_schema
    from omnigraph.schema.stored import catalog_from_canonical
    from omnigraph.schema.view import SchemaView

_HOMES = {
    "Catalog": "catalog",
    "Cost": "plan",
    "EdgeType": "catalog",
    "Fill": "plan",
    "NodeType": "catalog",
    "PropType": "catalog",
    "Property": "catalog",
    "ScalarKind": "catalog",
    "SchemaPlan": "plan",
    "SchemaStep": "plan",
    "SchemaView": "view",
    "StepKind": "plan",
    "TableType": "catalog",
    "apply_plan": "diff",
    "canonical_text": "canonical",
    "catalog_from_canonical": "stored",
    "compile_pattern": "pattern",
    "diff_catalogs": "diff",
    "format_schema": "printer",
    "mint_identities": "identity",
    "parse_schema": "resolve",
    "plan_change": "diff",
    "schema_id": "canonical",
    "shape_text": "canonical",
    "table_schema": "arrow",
    "with_identities": "identity",
}

__all__ = [
    "Catalog",
    "Cost",
    "EdgeType",
    "Fill",
    "NodeType",
    "PropType",
    "Property",
    "ScalarKind",
    "SchemaPlan",
    "SchemaStep",
    "SchemaView",
    "StepKind",
    "TableType",
    "apply_plan",
    "canonical_text",
    "catalog_from_canonical",
    "compile_pattern",
    "diff_catalogs",
    "format_schema",
    "mint_identities",
    "parse_schema",
    "plan_change",
    "schema_id",
    "shape_text",
    "table_schema",
    "with_identities",
]


if not TYPE_CHECKING:
    # Hidden from type checkers: a module with `__getattr__` has every name there is, and no mistake would be found.
    __getattr__ = _exports(__name__, _inside(__name__, _HOMES))
