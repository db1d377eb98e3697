"""A schema, or a plan between two, as boxes and arrows: what every picture of it is drawn from.

This module owns what a picture says: one box for each type with its properties, one arrow for each edge type and each
``implements``, and what a plan adds, changes, renames and drops. It must not know any format of pictures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from omnigraph.schema.catalog import Catalog, EdgeType, InterfaceType, NodeType, Property
from omnigraph.schema.plan import SchemaPlan, SchemaStep, StepKind

_Type = TypeVar("_Type", InterfaceType, NodeType, EdgeType)
Mark = Literal["same", "added", "changed", "dropped"]
# Before a line of a picture that shows a plan, so that it does not depend on colours.
SIGNS: Mapping[Mark, str] = {"same": "", "added": "+ ", "changed": "~ ", "dropped": "- "}


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    mark: Mark = "same"

    def __str__(self) -> str:
        return SIGNS[self.mark] + self.text


@dataclass(frozen=True, slots=True)
class Box:
    """A node type or an interface. ``name`` is unique among the boxes of one kind."""

    kind: Literal["node", "interface"]
    name: str
    lines: tuple[Line, ...] = ()
    mark: Mark = "same"

    @property
    def title(self) -> str:
        return SIGNS[self.mark] + (f"interface {self.name}" if self.kind == "interface" else self.name)


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one box to another, both by their place in the diagram. ``lines`` are the properties of an edge type."""

    source: int
    target: int
    label: str
    lines: tuple[Line, ...] = ()
    mark: Mark = "same"
    is_dashed: bool = False  # implements

    @property
    def title(self) -> str:
        return SIGNS[self.mark] + self.label


@dataclass(frozen=True, slots=True)
class Diagram:
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def diagram_of(shown: Catalog | SchemaPlan) -> Diagram:
    """A catalog as it is; a plan as its new schema, with what is dropped beside it."""
    if isinstance(shown, Catalog):
        return _Painter(shown, shown, ()).diagram()
    return _Painter(shown.old, shown.new, shown.steps).diagram()


class _Painter:
    def __init__(self, old: Catalog, new: Catalog, steps: Iterable[SchemaStep]) -> None:
        self.old = old
        self.new = new
        self.marks: dict[tuple[str, str | None], Mark] = {}
        for step in steps:
            self.mark(step)

    def mark(self, step: SchemaStep) -> None:
        own: Mark = "changed"
        if step.kind in (StepKind.ADD_TYPE, StepKind.ADD_PROPERTY):
            own = "added"
        elif step.kind in (StepKind.DROP_TYPE, StepKind.DROP_PROPERTY):
            own = "dropped"
        if step.prop is not None:
            self.marks.setdefault((step.type_id, step.prop_id), own)
            own = "changed"
        self.marks.setdefault((step.type_id, None), own)

    def diagram(self) -> Diagram:
        boxes: list[Box] = []
        places: dict[str, int] = {}
        for interface in _both(self.old.interfaces, self.new.interfaces):
            places[f"interface {interface.name}"] = len(boxes)
            boxes.append(self.box("interface", interface))
        for node in _both(self.old.nodes, self.new.nodes):
            for known in node.ids or (node.name,):
                places[known] = len(boxes)
            boxes.append(self.box("node", node))
        return Diagram(tuple(boxes), tuple(self.arrows(places)))

    def box(self, kind: Literal["node", "interface"], declared: NodeType | InterfaceType) -> Box:
        key = () if isinstance(declared, InterfaceType) else declared.key or ()
        return Box(kind, declared.name, self.lines(declared, key), self.type_mark(declared))

    def type_mark(self, declared: NodeType | EdgeType | InterfaceType) -> Mark:
        return self.marks.get((declared.type_id, None), "same")

    def lines(self, declared: NodeType | EdgeType | InterfaceType, key: tuple[str, ...] = ()) -> tuple[Line, ...]:
        found = [self.line(declared.type_id, prop, prop.name in key) for prop in declared.properties]
        before = self.before(declared)
        if before is not None:
            now = {p.prop_id for p in declared.properties}
            found += [
                Line(f"{p.name}: {p.type}", "dropped")
                for p in before.properties
                if p.prop_id not in now and self.marks.get((declared.type_id, p.prop_id)) == "dropped"
            ]
        return tuple(found)

    def line(self, type_id: str, prop: Property, is_key: bool) -> Line:
        text = f"{prop.name}: {prop.type}" + (" @key" if is_key else "")
        return Line(text, self.marks.get((type_id, prop.prop_id), "same") if prop.prop_id else "same")

    def before(self, declared: NodeType | EdgeType | InterfaceType) -> NodeType | EdgeType | None:
        if self.old is self.new or isinstance(declared, InterfaceType):
            return None
        return self.old.by_id.get(declared.type_id)

    def arrows(self, places: Mapping[str, int]) -> Iterable[Arrow]:
        for node in _both(self.old.nodes, self.new.nodes):
            at = places[node.type_id or node.name]
            for name in node.implements:
                yield Arrow(at, places[f"interface {name}"], "implements", is_dashed=True)
        for edge in _both(self.old.edges, self.new.edges):
            # The ends of an edge are found in the schema that declares it.
            owner = self.new if self.new.edges.get(edge.name) is edge else self.old
            ends = [owner.nodes[name] for name in (edge.src_type, edge.dst_type)]
            source, target = (places[node.type_id or node.name] for node in ends)
            yield Arrow(source, target, _edge_label(edge), self.lines(edge), self.type_mark(edge))


def _edge_label(edge: EdgeType) -> str:
    if edge.card.is_unbounded:
        return edge.name
    return f"{edge.name} {edge.card.min}..{'' if edge.card.max is None else edge.card.max}"


def _both(old: Mapping[str, _Type], new: Mapping[str, _Type]) -> list[_Type]:
    """What the new schema declares, then what only the old one has, by identity."""
    found = [new[name] for name in sorted(new)]
    if old is new:
        return found
    now = {known for declared in found for known in declared.ids}
    return found + [old[name] for name in sorted(old) if not now & set(old[name].ids)]
