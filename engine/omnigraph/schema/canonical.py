"""The canonical form of a schema: one JSON document, the same for every text that declares the same.

Two renderings of one document, with one digest each. The *canonical* text has identities and is what the graph
stores; its digest, ``schema_id``, decides whether two states have the same schema: a property that is dropped and added
again has the same shape, another identity and another column. The *shape* leaves identities out; its digest,
``Catalog.hash``, only compares graphs. ``stored`` rebuilds the catalog from the canonical text. Everything that has no
order is sorted (by code point), key columns keep theirs. This module writes; it must not read, and its output may never
change for a schema that is stored somewhere.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from omnigraph.schema.catalog import (
    Annotation,
    Catalog,
    EdgeType,
    InterfaceType,
    NodeType,
    Property,
    PropType,
    Range,
    ScalarKind,
)
from omnigraph.schema.identity import repeated_identity

IR_VERSION = 2

_Json = dict[str, Any]


def canonical_text(catalog: Catalog) -> str:
    """The document with identities, compact. What the graph stores."""
    repeated = repeated_identity(catalog)
    if repeated is not None:
        raise ValueError(f"the identity {repeated!r} stands for two things; every type and property has its own")
    document = _document(catalog.interfaces, catalog.nodes, catalog.edges, with_ids=True)
    return _compact(document)


def shape_text(catalog: Catalog) -> str:
    """The document without identities, compact: equal for two catalogs that declare the same."""
    return _compact(_document(catalog.interfaces, catalog.nodes, catalog.edges, with_ids=False))


def schema_id(canonical: str) -> str:
    """``sha256:`` and the hexadecimal digest of the canonical text, identities included."""
    return _digest(canonical)


# Where `_head` and `_property` put identities. Keywords of annotations may have these names, but never in this order and form.
_TEXT = r'"(?:[^"\\]|\\.)*"'
_IDENTITIES = re.compile(rf',"(?:type_id|prop_id)":{_TEXT},"also":\[(?:{_TEXT}(?:,{_TEXT})*)?\]')


@lru_cache(maxsize=16)
def shape_hash(canonical: str) -> str:
    """The ``schema_hash`` of a canonical text. Raises ``ValueError`` where it is no JSON."""
    json.loads(canonical)
    return _digest(_IDENTITIES.sub("", canonical))


def schema_hash(
    interfaces: Mapping[str, InterfaceType], nodes: Mapping[str, NodeType], edges: Mapping[str, EdgeType]
) -> str:
    """``sha256:`` and the hexadecimal digest of the shape."""
    return _digest(_compact(_document(interfaces, nodes, edges, with_ids=False)))


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


def _document(
    interfaces: Mapping[str, InterfaceType],
    nodes: Mapping[str, NodeType],
    edges: Mapping[str, EdgeType],
    *,
    with_ids: bool,
) -> _Json:
    return {
        "ir_version": IR_VERSION,
        "interfaces": [_interface(interfaces[name], with_ids) for name in sorted(interfaces)],
        "nodes": [_node(nodes[name], with_ids) for name in sorted(nodes)],
        "edges": [_edge(edges[name], with_ids) for name in sorted(edges)],
    }


def _interface(declared: InterfaceType, with_ids: bool) -> _Json:
    return _head(declared, with_ids) | {"properties": _properties(declared.properties, with_ids)}


def _node(declared: NodeType, with_ids: bool) -> _Json:
    # By kind in alphabetical order, within a kind by columns.
    constraints: list[_Json] = [{"Check": {"property": c.property, "pattern": c.pattern}} for c in declared.checks]
    constraints += [{"Embed": {"property": e.property, "source": e.source, "model": e.model}} for e in declared.embeds]
    constraints += [{"Index": list(columns)} for columns in declared.indexes]
    if declared.key is not None:
        constraints.append({"Key": list(declared.key)})
    constraints += [{"Range": _range(bounds)} for bounds in declared.ranges]
    constraints += [{"Unique": list(columns)} for columns in declared.uniques]
    return _head(declared, with_ids) | {
        "annotations": _annotations(declared.annotations),
        "implements": list(declared.implements),
        "properties": _properties(declared.properties, with_ids),
        "constraints": constraints,
    }


def _edge(declared: EdgeType, with_ids: bool) -> _Json:
    return _head(declared, with_ids) | {
        "from_type": declared.src_type,
        "to_type": declared.dst_type,
        "cardinality": {"min": declared.card.min, "max": declared.card.max},
        "annotations": _annotations(declared.annotations),
        "properties": _properties(declared.properties, with_ids),
        "constraints": [{"Index": list(columns)} for columns in declared.indexes]
        + [{"Unique": list(columns)} for columns in declared.uniques],
    }


def _head(declared: InterfaceType | NodeType | EdgeType, with_ids: bool) -> _Json:
    if not with_ids:
        return {"name": declared.name}
    return {
        "name": declared.name,
        "type_id": _required(declared.type_id, declared.name),
        "also": sorted(declared.also),
    }


def _properties(properties: Iterable[Property], with_ids: bool) -> list[_Json]:
    return [_property(prop, with_ids) for prop in properties]


def _property(prop: Property, with_ids: bool) -> _Json:
    head: _Json = {"name": prop.name}
    if with_ids:
        head["prop_id"] = _required(prop.prop_id, prop.name)
        head["also"] = sorted(prop.also)
    return head | {"prop_type": _prop_type(prop.type), "annotations": _annotations(prop.annotations)}


def _prop_type(prop_type: PropType) -> _Json:
    is_vector = prop_type.scalar is ScalarKind.VECTOR
    return {
        "scalar": {"Vector": prop_type.dim} if is_vector else prop_type.scalar.value,
        "nullable": prop_type.nullable,
        "list": prop_type.is_list,
        "enum_values": None if prop_type.enum is None else list(prop_type.enum),
    }


def _annotations(annotations: Iterable[Annotation]) -> list[_Json]:
    return [{"name": a.name, "value": a.value} | ({"kwargs": dict(a.kwargs)} if a.kwargs else {}) for a in annotations]


def _range(bounds: Range) -> _Json:
    return {"property": bounds.property, "min": _number(bounds.min), "max": _number(bounds.max)}


def _number(value: int | float | None) -> _Json | None:
    if value is None:
        return None
    return {"Float": value} if isinstance(value, float) else {"Integer": value}


def _required(identity: str, name: str) -> str:
    if not identity:
        raise ValueError(f"`{name}` has no identity; parse the schema with mint=…, or call mint_identities")
    return identity


def _compact(document: _Json) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
