"""What a type declares besides its properties, as elements that are merged one by one, and a type made of them again. Pure.

Elements name properties and types by identities, so that a rename on one side does not touch the rules of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.schema.catalog import (
    Annotation,
    Cardinality,
    Check,
    EdgeType,
    Embed,
    InterfaceType,
    NodeType,
    Property,
    Range,
)
from omnigraph.schema.rules import ONCE

AnyType = InterfaceType | NodeType | EdgeType
Elements = dict[Hashable, Any]
_ENDS = ("src", "dst")


class UnknownName(Exception):
    """An element names a property or type that the merged schema does not have. The argument is the element."""


@dataclass(frozen=True)
class Names:
    """From identities to merged names."""

    properties: Mapping[str, str]
    type: Callable[[str], str | None]

    def prop(self, known: str, element: str) -> str:
        if known in _ENDS:
            return known
        found = self.properties.get(known)
        if found is None:
            raise UnknownName(element)
        return found

    def of_type(self, known: str, element: str) -> str:
        found = self.type(known)
        if found is None:
            raise UnknownName(element)
        return found


def elements_of(declared: AnyType, same: Mapping[str, str], types: Mapping[str, str]) -> Elements:
    """By a key that the three states share. ``same``: from every identity to the one that stands for its element; ``types``:
    from the name of a type on this side to that identity."""
    if isinstance(declared, InterfaceType):
        return {}
    ids = {prop.name: same[prop.prop_id] for prop in declared.properties} | {end: end for end in _ENDS}
    found: Elements = {("unique", frozenset(ids[n] for n in columns)): True for columns in declared.uniques}
    found |= {("index", frozenset(ids[n] for n in columns)): True for columns in declared.indexes}
    count: dict[Annotation, int] = {}
    for one in declared.annotations:
        if one.name in ONCE:
            value = ids.get(one.value or "", one.value) if one.name == "stub" else one.value
            found["annotation", one.name] = (value, one.kwargs)
        else:
            count[one] = count.get(one, 0) + 1
            found["annotations", one, count[one]] = True
    if isinstance(declared, EdgeType):
        ends = (types[declared.src_type], types[declared.dst_type])
        return found | {("ends",): ends, ("card",): declared.card}
    found |= {("check", ids[c.property], c.pattern): True for c in declared.checks}
    found |= {("embed", ids[e.property]): (ids[e.source], e.model) for e in declared.embeds}
    found |= {("implements", types[name]): True for name in declared.implements}
    for bounds in declared.ranges:
        alone = sum(r.property == bounds.property for r in declared.ranges) == 1
        found["range", ids[bounds.property], None if alone else _bounds(bounds)] = _bounds(bounds)
    return found | {("key",): None if declared.key is None else tuple(ids[n] for n in declared.key)}


def build_type(
    like: AnyType,
    *,
    name: str,
    identity: tuple[str, tuple[str, ...]],
    properties: tuple[Property, ...],
    elements: Elements,
    names: Names,
) -> AnyType:
    """The type with these elements, its rules in any order. Raises ``UnknownName``."""
    type_id, also = identity
    if isinstance(like, InterfaceType):
        return replace(like, name=name, type_id=type_id, also=also, properties=properties)
    common: dict[str, Any] = {
        "name": name,
        "type_id": type_id,
        "also": also,
        "properties": properties,
        "uniques": _columns(elements, "unique", names),
        "indexes": _columns(elements, "index", names),
        "annotations": _annotations(elements, names),
    }
    if isinstance(like, EdgeType):
        src, dst = (names.of_type(known, "ends") for known in elements["ends",])
        card = elements.get(("card",), Cardinality())
        return replace(like, src_type=src, dst_type=dst, card=card, **common)
    key = elements.get(("key",))
    return replace(
        like,
        key=None if key is None else tuple(names.prop(known, "key") for known in key),
        ranges=tuple(_range(names.prop(k[1], "range"), elements[k]) for k in _of(elements, "range")),
        checks=tuple(Check(names.prop(k[1], "check"), k[2]) for k in _of(elements, "check")),
        embeds=tuple(_embed(k[1], elements[k], names) for k in _of(elements, "embed")),
        implements=tuple(sorted(names.of_type(k[1], "implements") for k in _of(elements, "implements"))),
        **common,
    )


def _of(elements: Elements, kind: str) -> list[Any]:
    return [key for key in elements if isinstance(key, tuple) and key[0] == kind]


def _columns(elements: Elements, kind: str, names: Names) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(sorted(names.prop(known, kind) for known in k[1])) for k in _of(elements, kind))


def _annotations(elements: Elements, names: Names) -> tuple[Annotation, ...]:
    found = [k[1] for k in _of(elements, "annotations")]
    for k in _of(elements, "annotation"):
        value, kwargs = elements[k]
        found.append(Annotation(k[1], names.prop(value, "stub") if k[1] == "stub" else value, kwargs))
    return tuple(found)


def _bounds(bounds: Range) -> tuple[Any, ...]:
    return bounds.min, isinstance(bounds.min, float), bounds.max, isinstance(bounds.max, float)


def _range(name: str, bounds: tuple[Any, ...]) -> Range:
    return Range(name, bounds[0], bounds[2])


def _embed(known: str, value: tuple[str, str | None], names: Names) -> Embed:
    return Embed(names.prop(known, "embed"), names.prop(value[0], "embed"), value[1])
