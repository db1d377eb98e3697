"""Random schemas, over everything that the language can declare."""

from __future__ import annotations

from hypothesis import strategies as st

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

# Pools instead of patterns: drawing from them is what keeps this fast.
TYPE_NAMES = st.sampled_from(["A", "B", "Ab", "N0", "Person", "True", "Node", "Z_", "X" * 128])
NAMES = st.sampled_from(
    "a b c ab a_ a1 aB _ _r __ z9 trueish falsehood key unique range node edge enum implements type ids name email".split()
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ENUM_VALUES = st.sampled_from(["a", "B", "0", "-", "_", "--a", "true", "a-1", "Vector"])
KNOWN = {
    "key",
    "unique",
    "index",
    "range",
    "check",
    "card",
    "embed",
    "description",
    "instruction",
    "rename_from",
    "stub",
}
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0)
)


@st.composite
def prop_types(draw: st.DrawFn) -> PropType:
    nullable = draw(st.booleans())
    shape = draw(st.sampled_from(["scalar", "scalar", "list", "enum", "vector"]))
    if shape == "enum":
        values = draw(st.sets(ENUM_VALUES, min_size=1, max_size=4))
        return PropType(ScalarKind.STRING, nullable, enum=tuple(sorted(values)))
    if shape == "vector":
        return PropType(ScalarKind.VECTOR, nullable, dim=draw(st.integers(1, 2**31 - 1)))
    scalar = draw(st.sampled_from([k for k in ScalarKind if k is not ScalarKind.VECTOR]))
    return PropType(scalar, nullable, is_list=shape == "list")


@st.composite
def annotations(draw: st.DrawFn) -> tuple[Annotation, ...]:
    found = []
    for name in draw(st.lists(NAMES.filter(lambda n: n not in KNOWN), max_size=2)):
        value = draw(st.none() | TEXTS)
        kwargs = draw(st.dictionaries(NAMES, TEXTS, max_size=2)) if value is not None else {}
        found.append(Annotation(name, value, tuple(sorted(kwargs.items()))))
    if draw(st.booleans()):
        found.append(Annotation("description", draw(TEXTS.filter(str.strip))))
    return tuple(sorted(found, key=order))


def order(a: Annotation) -> tuple[object, ...]:
    return (a.name, a.value or "", a.value is not None, a.kwargs)


@st.composite
def properties(draw: st.DrawFn) -> tuple[Property, ...]:
    names = draw(st.sets(NAMES, max_size=5))
    return tuple(Property(name, draw(prop_types()), annotations=draw(annotations())) for name in sorted(names))


def columns(draw: st.DrawFn, names: list[str]) -> tuple[tuple[str, ...], ...]:
    if not names:
        return ()
    tuples = st.sets(st.sampled_from(names), min_size=1, max_size=3).map(lambda s: tuple(sorted(s)))
    return tuple(sorted(draw(st.sets(tuples, max_size=2))))


@st.composite
def nodes(draw: st.DrawFn, name: str, implements: tuple[InterfaceType, ...]) -> NodeType:
    own = {p.name: p for p in draw(properties())}
    for interface in implements:
        own |= {p.name: Property(p.name, p.type) for p in interface.properties}
    props = tuple(own[n] for n in sorted(own))
    keyable = [p.name for p in props if p.type.is_keyable]
    required = [p.name for p in props if p.type.is_keyable and not p.type.nullable]
    texts = [p.name for p in props if p.type.scalar is ScalarKind.STRING and not p.type.is_list]
    key: tuple[str, ...] | None = None
    if required and draw(st.booleans()):
        key = tuple(draw(st.lists(st.sampled_from(required), min_size=1, max_size=3, unique=True)))
    implied = tuple(sorted(key)) if key else None
    ranges: list[Range] = []
    for prop in props:
        if prop.type.is_numeric and draw(st.booleans()):
            low, high = sorted([draw(NUMBERS), draw(NUMBERS)])
            cut = draw(st.sampled_from(["none", "low", "high"]))
            ranges.append(Range(prop.name, None if cut == "low" else low, None if cut == "high" else high))
    checks = {Check(n, draw(st.sampled_from(["a", "^[a-z]+$", '\\d"', "é"]))) for n in texts if draw(st.booleans())}
    embeds = [
        Embed(p.name, draw(st.sampled_from(texts)), draw(st.none() | TEXTS))
        for p in props
        if texts and p.type.scalar is ScalarKind.VECTOR and draw(st.booleans())
    ]
    notes = draw(annotations())
    marks = [
        p.name for p in props if p.type.scalar is ScalarKind.BOOL and not p.type.is_list and p.name not in (key or ())
    ]
    if key and marks and all(p.type.nullable for p in props if p.name not in (*key, marks[0])):
        notes = tuple(sorted((*notes, Annotation("stub", marks[0])), key=order))
    return NodeType(
        name=name,
        properties=props,
        key=key,
        uniques=tuple(u for u in columns(draw, keyable) if u != implied),
        indexes=columns(draw, [p.name for p in props if p.type.scalar is not ScalarKind.BLOB]),
        ranges=tuple(ranges),
        checks=tuple(sorted(checks, key=lambda c: (c.property, c.pattern))),
        embeds=tuple(embeds),
        implements=tuple(sorted(i.name for i in implements)),
        annotations=notes,
    )


@st.composite
def catalogs(draw: st.DrawFn) -> Catalog:
    names = draw(st.lists(TYPE_NAMES, min_size=1, max_size=6, unique_by=str.lower))
    cut = draw(st.integers(1, len(names)))
    interfaces = {}
    if draw(st.booleans()):
        name = draw(TYPE_NAMES)
        interfaces[name] = InterfaceType(name, properties=draw(properties()))
    found = {
        name: draw(nodes(name, tuple(interfaces.values()) if draw(st.booleans()) else ()))
        for name in sorted(names[:cut])
    }
    edges: dict[str, EdgeType] = {}
    for name in sorted(names[cut:]):
        props = draw(properties())
        keyable = [p.name for p in props if p.type.is_keyable]
        low, high = draw(st.integers(0, 2**32 - 1)), draw(st.none() | st.integers(0, 2**32 - 1))
        edges[name] = EdgeType(
            name=name,
            src_type=draw(st.sampled_from(sorted(found))),
            dst_type=draw(st.sampled_from(sorted(found))),
            card=Cardinality(low if high is None else min(low, high), high),
            properties=props,
            uniques=columns(draw, [*keyable, "src", "dst"]),
            indexes=columns(draw, [p.name for p in props if p.type.scalar is not ScalarKind.BLOB] + ["src", "dst"]),
            annotations=draw(annotations()),
        )
    return Catalog(interfaces, found, edges, "", "")
