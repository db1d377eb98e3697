"""The accepted schema as plain values: what every other layer knows about types, properties and constraints.

This module owns the shapes and the look-ups. It must not parse, print, hash or touch storage: ``parser`` and
``resolve`` build a catalog from text, ``canonical`` from its stored form. All values are frozen, picklable and compare
by content; properties are sorted by name, so that the order of the source never shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from omnigraph.core.errors import NotFound
from omnigraph.core.shown import Shown, count_text, list_text

# Columns that every table has beside its properties, in physical order.
NODE_COLUMNS: tuple[str, ...] = ("id",)
EDGE_COLUMNS: tuple[str, ...] = ("id", "src", "dst")


class ScalarKind(Enum):
    """The base of a property type. The value is the word in the language."""

    STRING = "String"
    BLOB = "Blob"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATETIME = "DateTime"
    DATE = "Date"
    VECTOR = "Vector"

    @property
    def is_integer(self) -> bool:
        return self in _INTEGERS

    @property
    def is_float(self) -> bool:
        return self in _FLOATS

    @property
    def is_numeric(self) -> bool:
        return self in _INTEGERS or self in _FLOATS


_INTEGERS = frozenset({ScalarKind.I32, ScalarKind.I64, ScalarKind.U32, ScalarKind.U64})
_FLOATS = frozenset({ScalarKind.F32, ScalarKind.F64})


@dataclass(frozen=True, slots=True)
class PropType(Shown):
    """``str()`` prints it as the language writes it: ``enum(a, b)``, ``[I32]``, ``Vector(3)?``."""

    scalar: ScalarKind
    nullable: bool = False
    is_list: bool = False
    enum: tuple[str, ...] | None = None  # sorted and distinct; the scalar is then STRING
    dim: int | None = None  # length of a VECTOR, else None

    def __str__(self) -> str:
        if self.enum is not None:
            text = f"enum({', '.join(self.enum)})"
        elif self.scalar is ScalarKind.VECTOR:
            text = f"Vector({self.dim})"
        else:
            text = self.scalar.value
        if self.is_list:
            text = f"[{text}]"
        return text + "?" if self.nullable else text

    @property
    def is_keyable(self) -> bool:
        """Whether a value has a canonical key text (null set aside)."""
        return not self.is_list and self.scalar not in (ScalarKind.BLOB, ScalarKind.VECTOR)

    @property
    def is_numeric(self) -> bool:
        return not self.is_list and self.scalar.is_numeric


@dataclass(frozen=True, slots=True)
class Annotation(Shown):
    """``@name``, ``@name(value)`` or ``@name(value, k=v)``. Values are texts, as written."""

    name: str
    value: str | None = None
    kwargs: tuple[tuple[str, str], ...] = ()  # sorted by keyword


@dataclass(frozen=True, slots=True)
class Property(Shown):
    name: str
    type: PropType
    prop_id: str = ""  # minted once, survives renames; empty only before identities are minted
    # On nodes and edges without @key, @unique, @index and @embed: those have become constraints of the type.
    annotations: tuple[Annotation, ...] = ()
    also: tuple[str, ...] = ()  # sorted; older identities that mean this property since a merge

    @property
    def ids(self) -> tuple[str, ...]:
        """Every identity that means this property, its own first. Whatever is matched by identity looks in all of them."""
        return (self.prop_id, *self.also) if self.prop_id else self.also


@dataclass(frozen=True, slots=True)
class Range(Shown):
    """Inclusive bounds; a missing side is open."""

    property: str
    min: int | float | None = None
    max: int | float | None = None


@dataclass(frozen=True, slots=True)
class Check(Shown):
    """An unanchored RE2 search that a non-null value must satisfy."""

    property: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Cardinality(Shown):
    """How many edges of the type one source may have."""

    min: int = 0
    max: int | None = None

    @property
    def is_unbounded(self) -> bool:
        return self.min == 0 and self.max is None


@dataclass(frozen=True, slots=True)
class Embed(Shown):
    """A note that a vector is derived from a text. Nothing is computed from it at load."""

    property: str
    source: str
    model: str | None = None


@dataclass(frozen=True, repr=False)
class InterfaceType(Shown):
    """Properties that nodes share. It has no table."""

    name: str
    type_id: str = ""
    properties: tuple[Property, ...] = ()  # here annotations keep @key, @unique, @index and @embed
    also: tuple[str, ...] = ()  # as of a property

    @property
    def ids(self) -> tuple[str, ...]:
        """As of a property."""
        return (self.type_id, *self.also) if self.type_id else self.also

    def __repr__(self) -> str:
        return f"<InterfaceType {self.name}: {_listed(self.properties)}>"

    def property(self, name: str) -> Property:
        return _property(self.properties, name, self.name)


@dataclass(frozen=True, repr=False)
class NodeType(Shown):
    name: str
    type_id: str = ""
    properties: tuple[Property, ...] = ()  # sorted by name, those of interfaces included
    key: tuple[str, ...] | None = None  # declared order
    uniques: tuple[tuple[str, ...], ...] = ()  # each sorted, without the key
    indexes: tuple[tuple[str, ...], ...] = ()  # each sorted; the one that the key implies is not listed
    ranges: tuple[Range, ...] = ()
    checks: tuple[Check, ...] = ()
    embeds: tuple[Embed, ...] = ()
    implements: tuple[str, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    also: tuple[str, ...] = ()  # as of a property

    @cached_property
    def table_key(self) -> str:
        return f"node:{self.name}"

    @property
    def ids(self) -> tuple[str, ...]:
        """As of a property."""
        return (self.type_id, *self.also) if self.type_id else self.also

    @cached_property
    def stub(self) -> str | None:
        """The property that marks a row as a stand-in for one that is not loaded yet, if the type allows stand-ins."""
        return next((a.value for a in self.annotations if a.name == "stub"), None)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Physical columns in order."""
        return NODE_COLUMNS + tuple(p.name for p in self.properties)

    @cached_property
    def by_name(self) -> Mapping[str, Property]:
        return {p.name: p for p in self.properties}

    @cached_property
    def by_id(self) -> Mapping[str, Property]:
        """Properties by each identity that means them."""
        return {known: p for p in self.properties for known in p.ids}

    def __repr__(self) -> str:
        return f"<NodeType {self.name}: {_listed(self.properties)}>"

    def property(self, name: str) -> Property:
        return _property(self.by_name, name, self.name)


@dataclass(frozen=True, repr=False)
class EdgeType(Shown):
    name: str
    src_type: str
    dst_type: str
    type_id: str = ""
    card: Cardinality = field(default_factory=Cardinality)
    properties: tuple[Property, ...] = ()  # sorted by name
    uniques: tuple[tuple[str, ...], ...] = ()  # each sorted; may contain "src" and "dst"
    indexes: tuple[tuple[str, ...], ...] = ()  # as uniques
    annotations: tuple[Annotation, ...] = ()
    also: tuple[str, ...] = ()  # as of a property

    @cached_property
    def table_key(self) -> str:
        return f"edge:{self.name}"

    @property
    def ids(self) -> tuple[str, ...]:
        """As of a property."""
        return (self.type_id, *self.also) if self.type_id else self.also

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Physical columns in order."""
        return EDGE_COLUMNS + tuple(p.name for p in self.properties)

    @cached_property
    def by_name(self) -> Mapping[str, Property]:
        return {p.name: p for p in self.properties}

    @cached_property
    def by_id(self) -> Mapping[str, Property]:
        """Properties by each identity that means them."""
        return {known: p for p in self.properties for known in p.ids}

    def __repr__(self) -> str:
        return f"<EdgeType {self.name}: {self.src_type} -> {self.dst_type}: {_listed(self.properties)}>"

    def property(self, name: str) -> Property:
        return _property(self.by_name, name, self.name)


TableType = NodeType | EdgeType


def _listed(properties: tuple[Property, ...]) -> str:
    return list_text([f"{one.name}: {one.type}" for one in properties]) or "no properties"


def has_blobs(declared: TableType) -> bool:
    return any(prop.type.scalar is ScalarKind.BLOB for prop in declared.properties)


@dataclass(frozen=True, repr=False)
class Catalog:
    """Everything a schema text declares. ``hash`` covers the shape: neither source order nor identities change it."""

    interfaces: Mapping[str, InterfaceType]
    nodes: Mapping[str, NodeType]
    edges: Mapping[str, EdgeType]
    source: str
    hash: str

    @cached_property
    def _by_table_key(self) -> Mapping[str, TableType]:
        found: dict[str, TableType] = {t.table_key: t for t in self.nodes.values()}
        found.update((t.table_key, t) for t in self.edges.values())
        return dict(sorted(found.items()))

    @cached_property
    def _edges_folded(self) -> Mapping[str, EdgeType]:
        return {name.lower(): edge for name, edge in self.edges.items()}

    @cached_property
    def by_id(self) -> Mapping[str, TableType]:
        """Types that have a table, by each identity that means them."""
        return {known: declared for declared in self.types() for known in declared.ids}

    def __repr__(self) -> str:
        names = list_text([*self.nodes, *self.edges])
        counts = f"{count_text(len(self.nodes), 'node type')}, {count_text(len(self.edges), 'edge type')}"
        return f"<Catalog {counts}{': ' if names else ''}{names}>"

    def _repr_html_(self) -> str:
        from omnigraph.schema.view import catalog_html

        return catalog_html(self)

    def types(self) -> Iterator[TableType]:
        """Every type that has a table, in the order of table keys."""
        return iter(self._by_table_key.values())

    def by_table_key(self, table_key: str) -> TableType:
        found = self._by_table_key.get(table_key)
        if found is None:
            raise NotFound(f"no such table: {table_key[:200]!r}", table_key=table_key)
        return found

    def find_node(self, name: str) -> NodeType | None:
        return self.nodes.get(name)

    def find_edge(self, name: str) -> EdgeType | None:
        """Edge names are found whatever their case; only ASCII, as folding other scripts would let look-alikes match."""
        return self._edges_folded.get(name.lower()) if name.isascii() else None

    def node(self, name: str) -> NodeType:
        found = self.find_node(name)
        if found is None:
            raise NotFound(f"no such node type: {name[:200]!r}", type=name)
        return found

    def edge(self, name: str) -> EdgeType:
        found = self.find_edge(name)
        if found is None:
            raise NotFound(f"no such edge type: {name[:200]!r}", type=name)
        return found

    def type(self, name: str) -> TableType:
        """A node type by its exact name, else an edge type whatever the case. They share one namespace."""
        found = self.find_node(name) or self.find_edge(name)
        if found is None:
            raise NotFound(f"no such type: {name[:200]!r}", type=name)
        return found


def _property(properties: Mapping[str, Property] | tuple[Property, ...], name: str, owner: str) -> Property:
    if isinstance(properties, Mapping):
        found = properties.get(name)
    else:
        found = next((p for p in properties if p.name == name), None)
    if found is None:
        raise NotFound(f"no such property: {owner}.{name[:200]}", type=owner, property=name)
    return found
