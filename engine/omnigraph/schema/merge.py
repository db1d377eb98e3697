"""Three states of a schema merged into one. Pure.

Types and properties are matched by identity, older ones (``also``) included. Each element is merged on its own: whether it
is there, its name, its kind, whether it takes nulls, each rule. What both sides added under one name with one shape becomes
one element: it keeps the target's identity, and the source's under ``also``, so that the next merge finds both.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph.core.errors import SchemaInvalid
from omnigraph.schema.canonical import canonical_text, schema_hash
from omnigraph.schema.catalog import Catalog, EdgeType, InterfaceType, NodeType, Property
from omnigraph.schema.identity import repeated_identity, with_identities
from omnigraph.schema.merge_elements import Elements, Names, UnknownName, build_type, elements_of
from omnigraph.schema.printer import format_property, format_schema, format_type
from omnigraph.schema.resolve import parse_schema
from omnigraph.schema.rules import interface_text

AnyType = InterfaceType | NodeType | EdgeType
_KINDS = ("interface", "node", "edge")
_PLACE = re.compile(r",? ?(?:first at )?\(?line \d+, column \d+\)?")
_DECLARED = re.compile(r"(?:interface|node|edge) (\w+)")


@dataclass(frozen=True)
class SchemaConflict:
    """Both sides changed one element differently. Texts are None where a side does not have it."""

    type: str
    prop: str | None
    element: str
    base: str | None = None
    source: str | None = None
    target: str | None = None

    @property
    def subject(self) -> str:
        return self.type if self.prop is None else f"{self.type}.{self.prop}"


@dataclass(frozen=True)
class MergedSchema:
    """``catalog`` is the target's where there are conflicts."""

    catalog: Catalog
    conflicts: tuple[SchemaConflict, ...] = ()


def merge_schemas(base: Catalog, source: Catalog, target: Catalog) -> MergedSchema:
    """The schema that a merge of ``source`` into ``target`` leads to."""
    if canonical_text(source) in (canonical_text(base), canonical_text(target)):
        return MergedSchema(target)
    if canonical_text(target) == canonical_text(base):
        return MergedSchema(source)
    merge = _Merge(base, source, target)
    catalog = merge.catalog()
    if merge.conflicts or catalog is None:
        return MergedSchema(target, tuple(merge.conflicts))
    return MergedSchema(catalog)


@dataclass(frozen=True)
class _Three:
    """One type or property in the three states."""

    base: Any = None
    source: Any = None
    target: Any = None

    @property
    def any(self) -> Any:
        return self.target or self.source or self.base

    @property
    def ids(self) -> tuple[str, ...]:
        """The identities of the merged element, that of the target first."""
        kept = (one for one in (self.target, self.source) if one is not None)
        return tuple(dict.fromkeys(known for one in kept for known in one.ids))


@dataclass
class _Merge:
    base: Catalog
    source: Catalog
    target: Catalog
    conflicts: list[SchemaConflict] = field(default_factory=list)
    same: dict[str, str] = field(default_factory=dict)  # from every identity to the one that stands for its element

    def catalog(self) -> Catalog | None:
        matched = {kind: self.match_types(kind) for kind in _KINDS}
        for found in matched.values():
            for three in found:
                self.unify(three)
        made = {kind: self.types(found) for kind, found in matched.items()}
        if self.conflicts:
            return None
        interfaces, nodes, edges = (made[kind] for kind in _KINDS)
        return self.checked(Catalog(interfaces, nodes, edges, "", schema_hash(interfaces, nodes, edges)))

    def checked(self, draft: Catalog) -> Catalog | None:
        """The merged schema in its canonical order, if it is one: its elements may contradict each other although each was
        merged."""
        if self.clashes(draft):
            return None
        text = format_schema(draft)
        try:
            again = parse_schema(text)
        except SchemaInvalid as error:
            # This text is in no file, so its lines say nothing: the type is named instead.
            said = _PLACE.sub("", error.message)
            wrong = _type_at(text, int(error.facts.get("line", 0)))
            self.conflicts.append(SchemaConflict(wrong, None, f"the merged schema is not valid: {said}"))
            return None
        for known in (self.target, self.source):
            if known.hash == again.hash:
                text = known.source  # with its comments
                break
        catalog = replace(_identified(again, draft), source=text)
        twice = repeated_identity(catalog)
        if twice is not None:
            self.conflicts.append(SchemaConflict("schema", None, f"two elements have the identity {twice}"))
            return None
        return catalog

    def clashes(self, draft: Catalog) -> bool:
        """Whether two types want one name: those of nodes and edges share theirs, in any case."""
        seen: dict[str, AnyType] = {}
        for declared in _with_tables(draft):
            name = declared.name.lower()
            if seen.setdefault(name, declared) is not declared:
                texts = [_text_of(side, name) for side in (self.base, self.source, self.target)]
                self.report(None, declared, "name, which each side gave to another type", *texts)
        return bool(self.conflicts)

    # --- what is one element ----------------------------------------------------------------------------------------

    def match_types(self, kind: str) -> list[_Three]:
        sides = [_of_kind(one, kind) for one in (self.base, self.source, self.target)]
        found = list(_match(*(side.values() for side in sides)))
        return list(self.joined(found, lambda one, other: _text(one) == _text(other), None))

    def match_properties(self, three: _Three) -> list[_Three]:
        sides = [one.properties if one is not None else () for one in (three.base, three.source, three.target)]
        found = list(_match(*sides))
        return list(
            self.joined(found, lambda one, other: format_property(one) == format_property(other), three.any.name)
        )

    def joined(self, found: list[_Three], equal: Any, owner: str | None) -> Iterator[_Three]:
        """What both sides added under one name as one element, if it has one shape; else it is a conflict."""
        added = {
            three.source.name: three for three in found if three.base is None and three.target is None and three.source
        }
        taken: set[str] = set()
        for three in found:
            if three.base is None and three.source is None and three.target.name in added:
                mine = added[three.target.name].source
                taken.add(mine.name)
                if not equal(mine, three.target):
                    self.report(owner, three.target, "added by both sides", None, _text(mine), _text(three.target))
                yield _Three(None, mine, three.target)
            elif three.target is not None or three.source is None or three.source.name not in taken:
                yield three

    def unify(self, three: _Three) -> None:
        for known in _all_ids(three):
            self.same[known] = three.any.ids[0]
        for prop in self.match_properties(three):
            for known in _all_ids(prop):
                self.same[known] = prop.any.ids[0]

    # --- merging one ------------------------------------------------------------------------------------------------

    def types(self, found: Iterable[_Three]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for three in found:
            merged = self.type(three)
            if merged is None:
                continue
            if merged.name in made:
                self.report(None, merged, "name", None, merged.name, merged.name)
            made[merged.name] = merged
        return dict(sorted(made.items()))

    def type(self, three: _Three) -> AnyType | None:
        kept = self.presence(None, three)
        if kept is None:
            return None
        name = self.choose(None, three, "name", *(one and one.name for one in (three.base, three.source, three.target)))
        properties = [
            merged for prop in self.match_properties(three) if (merged := self.property(three, prop)) is not None
        ]
        names = [prop.name for prop in properties]
        for twice in {name for name in names if names.count(name) > 1}:
            self.conflicts.append(SchemaConflict(str(name), twice, "name", None, twice, twice))
        type_id, *also = three.ids
        try:
            return build_type(
                kept,
                name=str(name),
                identity=(type_id, tuple(sorted(also))),
                properties=tuple(sorted(properties, key=lambda prop: prop.name)),
                elements=self.elements(None, three, self.type_elements),
                names=Names({self.same[prop.prop_id]: prop.name for prop in properties}, self.name_of_type),
            )
        except UnknownName as error:
            self.report(None, three.any, f"{error} names what the other side dropped")
            return None

    def property(self, owner: _Three, three: _Three) -> Property | None:
        name_of = owner.any.name
        kept = self.presence(name_of, three)
        if kept is None:
            return None
        sides = (three.base, three.source, three.target)
        name = self.choose(name_of, three, "name", *(one and one.name for one in sides))
        merged = self.elements(name_of, three, _property_elements)
        kind = replace(
            kept.type,
            scalar=merged["kind"][0],
            is_list=merged["kind"][1],
            dim=merged["kind"][2],
            enum=merged["kind"][3],
            nullable=merged["nullable"],
        )
        prop_id, *also = three.ids
        made: Property = replace(
            kept,
            name=str(name),
            type=kind,
            annotations=merged["annotations"],
            prop_id=prop_id,
            also=tuple(sorted(also)),
        )
        return made

    def presence(self, owner: str | None, three: _Three) -> Any:
        """One side's element if it stays, or None. Dropped on one side and changed on the other: a conflict."""
        base, source, target = three.base, three.source, three.target
        if base is None or (source is not None and target is not None):
            return target if target is not None else source
        left = source if source is not None else target
        if left is not None and self.content(left) != self.content(base):
            texts = [None if one is None else _text(one) for one in (base, source, target)]
            self.report(owner, left, "dropped by one side and changed by the other", *texts)
        return None

    def elements(self, owner: str | None, three: _Three, elements: Any) -> dict[Hashable, Any]:
        sides = [None if one is None else elements(one) for one in (three.base, three.source, three.target)]
        keys = dict.fromkeys(key for side in sides[::-1] if side is not None for key in side)
        found: dict[Hashable, Any] = {}
        for key in keys:
            values = [None if side is None else side.get(key) for side in sides]
            if sides[0] is None:  # added: by one side, or by both with one shape
                value = values[2] if sides[2] is not None else values[1]
            else:
                value = self.choose(owner, three, _element(key), *values)
            if value is not None:
                found[key] = value
        return found

    def choose(self, owner: str | None, three: _Three, element: str, base: Any, source: Any, target: Any) -> Any:
        if three.source is None or three.target is None:
            return source if three.target is None else target
        if source == target or source == base:
            return target
        if target == base:
            return source
        if three.base is not None or element == "name":
            texts = [None if value is None else _shown(value) for value in (base, source, target)]
            self.report(owner, three.any, element, *texts)
        return target

    def content(self, one: AnyType | Property) -> Any:
        """What a type or property declares, whatever the types that it names are called."""
        if isinstance(one, Property):
            return _text(one)
        return one.name, self.type_elements(one), tuple(map(_text, one.properties))

    def type_elements(self, declared: AnyType) -> Elements:
        return elements_of(declared, self.same, self.type_ids(declared))

    def type_ids(self, declared: AnyType) -> dict[str, str]:
        """From the names of types on the side of this one to the identities that stand for them."""
        side = next(one for one in (self.target, self.source, self.base) if _holds(one, declared))
        return {
            one.name: self.same[one.ids[0]] for kind in ("node", "interface") for one in _of_kind(side, kind).values()
        }

    def name_of_type(self, known: str) -> str | None:
        """The merged name of a node type or interface, by the identity that stands for it; None if it is gone."""
        base, source, target = (self.find(side, known) for side in (self.base, self.source, self.target))
        if base is not None and (source is None or target is None):
            return None
        if source is None or target is None:
            left = source or target
            return None if left is None else left.name
        return source.name if base is not None and source.name != base.name else target.name

    def find(self, side: Catalog, known: str) -> NodeType | InterfaceType | None:
        listed: tuple[NodeType | InterfaceType, ...] = (*side.nodes.values(), *side.interfaces.values())
        return next((one for one in listed if self.same[one.ids[0]] == known), None)

    def report(self, owner: str | None, one: Any, element: str, *texts: str | None) -> None:
        type_, prop = (one.name, None) if owner is None else (owner, one.name)
        found = SchemaConflict(type_, prop, element, *texts)
        if found not in self.conflicts:  # properties are matched twice: for their identities, and for their type
            self.conflicts.append(found)


# --- values -------------------------------------------------------------------------------------------------------------


def _identified(catalog: Catalog, draft: Catalog) -> Catalog:
    """The catalog with the identities of the draft, which has the same names."""
    named = with_identities(
        catalog,
        lambda kind, name: _of_kind(draft, kind)[name].type_id,
        lambda kind, name, prop: _of_kind(draft, kind)[name].property(prop).prop_id,
    )

    def also(kind: str, declared: Any) -> Any:
        like = _of_kind(draft, kind)[declared.name]
        properties = tuple(replace(p, also=like.property(p.name).also) for p in declared.properties)
        return replace(declared, also=like.also, properties=properties)

    interfaces, nodes, edges = (
        {name: also(kind, one) for name, one in _of_kind(named, kind).items()} for kind in _KINDS
    )
    return Catalog(interfaces, nodes, edges, catalog.source, catalog.hash)


def _holds(catalog: Catalog, declared: AnyType) -> bool:
    kind = {InterfaceType: "interface", NodeType: "node", EdgeType: "edge"}[type(declared)]
    return _of_kind(catalog, kind).get(declared.name) is declared


def _of_kind(catalog: Catalog, kind: str) -> Mapping[str, Any]:
    return {"interface": catalog.interfaces, "node": catalog.nodes, "edge": catalog.edges}[kind]


def _all_ids(three: _Three) -> Iterator[str]:
    for one in (three.base, three.source, three.target):
        if one is not None:
            yield from one.ids


def _match(base: Iterable[Any], source: Iterable[Any], target: Iterable[Any]) -> Iterator[_Three]:
    """Elements that share an identity, in the order of the target's names, then the source's, then the base's."""
    sides = {"target": list(target), "source": list(source), "base": list(base)}
    taken: set[tuple[str, str]] = set()
    for name, listed in sides.items():
        for one in sorted(listed, key=lambda found: found.name):
            if (name, one.ids[0]) in taken:
                continue
            ids, found = set(one.ids), {name: one}
            grown = True
            while grown:
                grown = False
                for other, candidates in sides.items():
                    if other in found:
                        continue
                    match = next(
                        (c for c in candidates if ids.intersection(c.ids) and (other, c.ids[0]) not in taken), None
                    )
                    if match is not None:
                        found[other], grown = match, True
                        ids.update(match.ids)
            taken.update((side, held.ids[0]) for side, held in found.items())
            yield _Three(**found)


def _property_elements(prop: Property) -> dict[Hashable, Any]:
    kind = prop.type
    return {
        "kind": (kind.scalar, kind.is_list, kind.dim, kind.enum),
        "nullable": kind.nullable,
        "annotations": prop.annotations,
    }


def _text(one: Any) -> str:
    if isinstance(one, Property):
        return format_property(one)
    return interface_text(one) if isinstance(one, InterfaceType) else format_type(one)


def _text_of(side: Catalog, name: str) -> str | None:
    """What the type says that has this name on a side, in whatever case."""
    return next((_text(one) for one in _with_tables(side) if one.name.lower() == name), None)


def _with_tables(side: Catalog) -> Iterator[NodeType | EdgeType]:
    yield from side.nodes.values()
    yield from side.edges.values()


def _type_at(text: str, line: int) -> str:
    """The type in which a line of a schema lies."""
    above = (_DECLARED.match(one) for one in reversed(text.splitlines()[:line]))
    return next((one[1] for one in above if one is not None), "schema")


def _element(key: Hashable) -> str:
    return str(key[0]) if isinstance(key, tuple) else str(key)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(getattr(one, "value", one)) for one in value)
    return str(value)
