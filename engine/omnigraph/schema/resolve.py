"""Syntax tree to catalog: names are looked up, interfaces applied, rules checked.

This module owns the rules between declarations (one namespace, reserved names, limits, what implements and joins what).
The first contradiction in the order limits, names, interfaces, nodes, edges is reported, with its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from omnigraph.core.kinds import kinds_checked
from omnigraph.core.limits import DEFAULT_LIMITS, Limits
from omnigraph.schema.canonical import schema_hash
from omnigraph.schema.catalog import Cardinality, Catalog, EdgeType, InterfaceType, NodeType, Property
from omnigraph.schema.constraints import (
    Declared,
    RuleReader,
    as_annotation,
    check_property,
    check_stub,
    check_type_annotations,
    sort_annotations,
)
from omnigraph.schema.identity import mint_identities
from omnigraph.schema.parser import parse
from omnigraph.schema.source import Source
from omnigraph.schema.syntax import (
    AnnotationSyntax,
    EdgeSyntax,
    FileSyntax,
    InterfaceSyntax,
    NodeSyntax,
    PropertySyntax,
    Word,
)

# Names of an edge's ends, in tables and in records.
_EDGE_NAMES = frozenset({"src", "dst", "from", "to"})


@kinds_checked
def parse_schema(text: str, *, mint: Callable[[], str] | None = None, limits: Limits = DEFAULT_LIMITS) -> Catalog:
    """The catalog that a ``.pg`` text declares; ``SchemaInvalid`` or ``LimitExceeded`` with line and column otherwise.

    ``mint`` makes one new identity per call, for every type and property in the order of their names. Without it the
    identities stay empty: enough to compare and to check, refused by ``canonical_text``.
    """
    source = Source(text)
    catalog = _Resolver(source, parse(source, limits), types_max=limits.types).catalog()
    return catalog if mint is None else mint_identities(catalog, mint)


class _Resolver:
    def __init__(self, source: Source, tree: FileSyntax, *, types_max: int) -> None:
        self.source = source
        self.tree = tree
        self.types_max = types_max
        self.interfaces = {i.name: i for i in tree.interfaces}
        self.nodes = {n.name for n in tree.nodes}

    def catalog(self) -> Catalog:
        tree = self.tree
        self.check_count()
        self.check_names()
        interfaces = {i.name: self.interface(i) for i in _by_name(tree.interfaces)}
        nodes = {n.name: self.node(n) for n in _by_name(tree.nodes)}
        edges = {e.name: self.edge(e) for e in _by_name(tree.edges)}
        catalog_hash = schema_hash(interfaces, nodes, edges)
        return Catalog(interfaces, nodes, edges, self.source.text, catalog_hash)

    # --- names ------------------------------------------------------------------------------------------------------

    def check_count(self) -> None:
        tree = self.tree
        declared = sorted([t.at for t in tree.interfaces] + [t.at for t in tree.nodes] + [t.at for t in tree.edges])
        if len(declared) > self.types_max:
            raise self.source.over_limit(
                "too many types",
                declared[self.types_max],
                limit="types",
                bound=self.types_max,
                actual=len(declared),
            )

    def check_names(self) -> None:
        """Nodes and edges share one namespace that ignores case; interfaces, which have no table, have their own."""
        tables = [("node", n.name, n.at) for n in self.tree.nodes] + [("edge", e.name, e.at) for e in self.tree.edges]
        seen: dict[str, tuple[str, str, int]] = {}
        for kind, name, at in sorted(tables, key=lambda entry: entry[2]):
            first = seen.setdefault(name.lower(), (kind, name, at))
            if first[2] != at:
                raise self.source.invalid(
                    f"{kind} `{name}`: the name is taken by {first[0]} `{first[1]}` ({self.source.place(first[2])})",
                    at,
                    hint="node and edge types share one namespace that ignores case; choose another name",
                )
        interfaces: dict[str, int] = {}
        for interface in self.tree.interfaces:
            if interfaces.setdefault(interface.name, interface.at) != interface.at:
                first_place = self.source.place(interfaces[interface.name])
                raise self.source.invalid(
                    f"interface `{interface.name}`: declared twice, first at {first_place}", interface.at
                )

    def check_properties(self, owner: str, properties: Sequence[PropertySyntax], *, is_edge: bool = False) -> None:
        seen: set[str] = set()
        for prop in properties:
            name = prop.name
            if name == "id" or name.startswith("_row") or (is_edge and name in _EDGE_NAMES):
                raise self.source.invalid(
                    f"{owner}: the property name `{name}` is reserved", prop.at, hint="choose another property name"
                )
            if name in seen:
                raise self.source.invalid(f"{owner}: property `{name}` is declared twice", prop.at)
            seen.add(name)
            check_property(self.source, owner, prop, is_edge=is_edge)

    # --- types ------------------------------------------------------------------------------------------------------

    def interface(self, syntax: InterfaceSyntax) -> InterfaceType:
        self.check_properties(f"interface `{syntax.name}`", syntax.body.properties)
        properties = tuple(
            Property(p.name, p.type, annotations=sort_annotations([as_annotation(a) for a in p.annotations]))
            for p in sorted(syntax.body.properties, key=_name_of)
        )
        return InterfaceType(syntax.name, properties=properties)

    def node(self, syntax: NodeSyntax) -> NodeType:
        owner = f"node `{syntax.name}`"
        check_type_annotations(self.source, owner, syntax.annotations)
        self.check_properties(owner, syntax.body.properties)
        declared = {p.name: Declared(p.name, p.type, p.at, p.annotations) for p in syntax.body.properties}
        implements = self.implement(owner, syntax, declared)
        reader = RuleReader(self.source, owner, declared, is_edge=False)
        for constraint in syntax.body.constraints:
            reader.read_constraint(constraint)
        properties = tuple(
            Property(p.name, p.type, annotations=reader.read_annotations(p))
            for p in sorted(declared.values(), key=_name_of)
        )
        rules = reader.rules
        check_stub(self.source, owner, syntax.annotations, declared, rules.key)
        implied = None if rules.key is None else tuple(sorted(rules.key))
        return NodeType(
            name=syntax.name,
            properties=properties,
            key=rules.key,
            uniques=tuple(sorted(rules.uniques - {implied})),
            indexes=tuple(sorted(rules.indexes)),
            ranges=tuple(sorted(rules.ranges, key=lambda r: (r.property, *_side(r.min), *_side(r.max)))),
            checks=tuple(sorted(rules.checks, key=lambda c: (c.property, c.pattern))),
            embeds=tuple(sorted(rules.embeds, key=lambda e: e.property)),
            implements=implements,
            annotations=sort_annotations([as_annotation(a) for a in syntax.annotations]),
        )

    def implement(self, owner: str, syntax: NodeSyntax, declared: dict[str, Declared]) -> tuple[str, ...]:
        """Adds what the interfaces ask for and the node does not declare, in the order of interface names."""
        own = frozenset(declared)
        names: dict[str, Word] = {word.text: word for word in reversed(syntax.implements)}
        for word in sorted(names.values()):
            interface = self.interfaces.get(word.text)
            if interface is None:
                raise self.source.invalid(f"{owner}: no interface `{word.text}` is declared", word.at)
            for wanted in interface.body.properties:
                present = declared.get(wanted.name)
                if present is None:
                    declared[wanted.name] = Declared(wanted.name, wanted.type, word.at, wanted.annotations)
                elif present.type != wanted.type:
                    raise self.source.invalid(
                        f"{owner}: `{wanted.name}` is {present.type}, interface `{word.text}` wants {wanted.type}",
                        present.at,
                    )
                elif wanted.name not in own:
                    merged = _merge_annotations(present.annotations, wanted.annotations)
                    declared[wanted.name] = Declared(wanted.name, wanted.type, present.at, merged)
        return tuple(sorted(names))

    def edge(self, syntax: EdgeSyntax) -> EdgeType:
        owner = f"edge `{syntax.name}`"
        for role, word in (("source", syntax.src), ("target", syntax.dst)):
            if word.text not in self.nodes:
                hint = "an edge joins nodes, not interfaces" if word.text in self.interfaces else None
                raise self.source.invalid(f"{owner}: the {role} `{word.text}` is not a node type", word.at, hint=hint)
        card = Cardinality()
        if syntax.card is not None:
            card = Cardinality(syntax.card.min, syntax.card.max)
            if card.max is not None and card.min > card.max:
                raise self.source.invalid(
                    f"{owner}: the minimum {card.min} exceeds the maximum {card.max}", syntax.card.at
                )
        check_type_annotations(self.source, owner, syntax.annotations)
        for annotation in syntax.annotations:
            if annotation.name == "stub":
                raise self.source.invalid(f"{owner}: edges take no @stub, only nodes do", annotation.at)
        self.check_properties(owner, syntax.body.properties, is_edge=True)
        declared = {p.name: Declared(p.name, p.type, p.at, p.annotations) for p in syntax.body.properties}
        reader = RuleReader(self.source, owner, declared, is_edge=True)
        for constraint in syntax.body.constraints:
            reader.read_constraint(constraint)
        properties = tuple(
            Property(p.name, p.type, annotations=reader.read_annotations(p))
            for p in sorted(declared.values(), key=_name_of)
        )
        return EdgeType(
            name=syntax.name,
            src_type=syntax.src.text,
            dst_type=syntax.dst.text,
            card=card,
            properties=properties,
            uniques=tuple(sorted(reader.rules.uniques)),
            indexes=tuple(sorted(reader.rules.indexes)),
            annotations=sort_annotations([as_annotation(a) for a in syntax.annotations]),
        )


def _merge_annotations(
    first: tuple[AnnotationSyntax, ...], second: tuple[AnnotationSyntax, ...]
) -> tuple[AnnotationSyntax, ...]:
    """Two interfaces give one property: all their annotations hold, of a kind that stands once the first one."""
    once = {a.name for a in first if a.name in ("key", "unique", "index", "embed", "description", "rename_from")}
    known = {as_annotation(a) for a in first}
    return first + tuple(a for a in second if a.name not in once and as_annotation(a) not in known)


def _side(bound: int | float | None) -> tuple[bool, float, bool]:
    return bound is not None, float(bound or 0), isinstance(bound, float)


_Named = TypeVar("_Named", InterfaceSyntax, NodeSyntax, EdgeSyntax)


def _by_name(declarations: Sequence[_Named]) -> list[_Named]:
    return sorted(declarations, key=lambda declaration: declaration.name)


def _name_of(prop: PropertySyntax | Declared) -> str:
    return prop.name
