"""The canonical text read back: the catalog exactly as it was accepted, identities included.

This module owns what the stored document may look like. A document that is not one we write (an unknown member, another
version, an identity twice, anything that does not print back to the same bytes) is ``Corruption``: guessing would change a graph's schema.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from omnigraph.core.errors import Corruption
from omnigraph.schema.canonical import IR_VERSION, canonical_text, shape_hash
from omnigraph.schema.catalog import (
    Annotation,
    Cardinality,
    Catalog,
    Check,
    EdgeType,
    Embed,
    InterfaceType,
    NodeType,
    Property,
    PropType,
    Range,
    ScalarKind,
)
from omnigraph.schema.identity import repeated_identity

_Identity = Annotated[str, Field(min_length=1)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class _Annotation(_Model):
    name: str
    value: str | None
    kwargs: dict[str, str] = {}

    def value_of(self) -> Annotation:
        return Annotation(self.name, self.value, tuple(self.kwargs.items()))


class _Vector(_Model):
    Vector: int


_Scalar = Literal["String", "Blob", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "DateTime", "Date"]


class _PropType(_Model):
    scalar: _Scalar | _Vector
    nullable: bool
    list: bool
    enum_values: tuple[str, ...] | None

    def value_of(self) -> PropType:
        if isinstance(self.scalar, _Vector):
            return PropType(ScalarKind.VECTOR, self.nullable, self.list, self.enum_values, self.scalar.Vector)
        return PropType(ScalarKind(self.scalar), self.nullable, self.list, self.enum_values)


class _Property(_Model):
    name: str
    prop_id: _Identity
    also: tuple[_Identity, ...]
    prop_type: _PropType
    annotations: list[_Annotation]

    def value_of(self) -> Property:
        annotations = tuple(a.value_of() for a in self.annotations)
        return Property(self.name, self.prop_type.value_of(), self.prop_id, annotations, self.also)


class _Integer(_Model):
    Integer: int


class _Float(_Model):
    Float: float


class _RangeBody(_Model):
    property: str
    min: _Integer | _Float | None
    max: _Integer | _Float | None


class _CheckBody(_Model):
    property: str
    pattern: str


class _EmbedBody(_Model):
    property: str
    source: str
    model: str | None


class _Key(_Model):
    Key: tuple[str, ...]


class _Unique(_Model):
    Unique: tuple[str, ...]


class _Index(_Model):
    Index: tuple[str, ...]


class _Range(_Model):
    Range: _RangeBody


class _Check(_Model):
    Check: _CheckBody


class _Embed(_Model):
    Embed: _EmbedBody


class _Interface(_Model):
    name: str
    type_id: _Identity
    also: tuple[_Identity, ...]
    properties: list[_Property]

    def value_of(self) -> InterfaceType:
        return InterfaceType(self.name, self.type_id, tuple(p.value_of() for p in self.properties), self.also)


class _Node(_Model):
    name: str
    type_id: _Identity
    also: tuple[_Identity, ...]
    annotations: list[_Annotation]
    implements: tuple[str, ...]
    properties: list[_Property]
    constraints: list[_Key | _Unique | _Index | _Range | _Check | _Embed]

    def value_of(self) -> NodeType:
        keys = [c.Key for c in self.constraints if isinstance(c, _Key)]
        ranges = [c.Range for c in self.constraints if isinstance(c, _Range)]
        checks = [c.Check for c in self.constraints if isinstance(c, _Check)]
        embeds = [c.Embed for c in self.constraints if isinstance(c, _Embed)]
        return NodeType(
            name=self.name,
            type_id=self.type_id,
            properties=tuple(p.value_of() for p in self.properties),
            key=keys[0] if keys else None,
            uniques=tuple(c.Unique for c in self.constraints if isinstance(c, _Unique)),
            indexes=tuple(c.Index for c in self.constraints if isinstance(c, _Index)),
            ranges=tuple(Range(r.property, _bound(r.min), _bound(r.max)) for r in ranges),
            checks=tuple(Check(c.property, c.pattern) for c in checks),
            embeds=tuple(Embed(e.property, e.source, e.model) for e in embeds),
            implements=self.implements,
            annotations=tuple(a.value_of() for a in self.annotations),
            also=self.also,
        )


class _Card(_Model):
    min: int
    max: int | None


class _Edge(_Model):
    name: str
    type_id: _Identity
    also: tuple[_Identity, ...]
    from_type: str
    to_type: str
    cardinality: _Card
    annotations: list[_Annotation]
    properties: list[_Property]
    constraints: list[_Unique | _Index]

    def value_of(self) -> EdgeType:
        return EdgeType(
            name=self.name,
            src_type=self.from_type,
            dst_type=self.to_type,
            type_id=self.type_id,
            card=Cardinality(self.cardinality.min, self.cardinality.max),
            properties=tuple(p.value_of() for p in self.properties),
            uniques=tuple(c.Unique for c in self.constraints if isinstance(c, _Unique)),
            indexes=tuple(c.Index for c in self.constraints if isinstance(c, _Index)),
            annotations=tuple(a.value_of() for a in self.annotations),
            also=self.also,
        )


class _Document(_Model):
    ir_version: Literal[2]
    interfaces: list[_Interface]
    nodes: list[_Node]
    edges: list[_Edge]


def catalog_from_canonical(source: str, canonical: str) -> Catalog:
    """The catalog that ``canonical_text`` was written from. ``source`` is kept beside it, not parsed."""
    try:
        document = _Document.model_validate_json(canonical)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Corruption(
            f"the stored schema is not a canonical document of version {IR_VERSION}: {first['msg']} at {where!r}",
            object="schema",
        ) from error
    interfaces = {i.name: i.value_of() for i in document.interfaces}
    nodes = {n.name: n.value_of() for n in document.nodes}
    edges = {e.name: e.value_of() for e in document.edges}
    catalog = Catalog(interfaces, nodes, edges, source, shape_hash(canonical))  # which is checked to be canonical below
    repeated = repeated_identity(catalog)
    if repeated is not None:
        raise Corruption(f"the stored schema has the identity {repeated[:80]!r} twice", object="schema")
    if canonical_text(catalog) != canonical:
        raise Corruption("the stored schema does not print back to itself", object="schema")
    return catalog


def _bound(bound: _Integer | _Float | None) -> int | float | None:
    if bound is None:
        return None
    return bound.Integer if isinstance(bound, _Integer) else bound.Float
