"""Three example graphs and ten revisions of the schema of each, with the records that loaders write whatever the schema is.

A record is logical: it names types and properties by what they were first called. ``expressed`` writes it in the names of a schema,
and leaves out what the schema does not have. Pure.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph.schema import Catalog, TableType

Fill = Mapping[str, object]
EXTRA = "Extra"
MOODS = ("calm", "busy")


@dataclass(frozen=True)
class Shape:
    """A schema as its parts. ``nodes``: properties by type; ``edges``: ends, annotations and properties by type. ``was``: the names
    before this revision, by the path of what is renamed."""

    nodes: Mapping[str, Mapping[str, str]]
    edges: Mapping[str, tuple[str, str, str, Mapping[str, str]]]
    more: Mapping[str, str] = field(default_factory=dict)  # what else the body of a node type says
    was: Mapping[str, str] = field(default_factory=dict)
    interfaces: str = ""
    implements: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        lines = [self.interfaces] if self.interfaces else []
        for name, props in self.nodes.items():
            head = f"node {name}{self._renamed(name)}" + (
                f" implements {self.implements[name]}" if name in self.implements else ""
            )
            lines.append(f"{head} {{ {self._body(name, props)} {self.more.get(name, '')} }}")
        for name, (src, dst, notes, props) in self.edges.items():
            body = f" {{ {self._body(name, props)} }}" if props else ""
            lines.append(f"edge {name}{self._renamed(name)}: {src} -> {dst} {notes}{body}")
        return "\n".join(lines) + "\n"

    def _renamed(self, path: str) -> str:
        return f' @rename_from("{self.was[path]}")' if path in self.was else ""

    def _body(self, owner: str, props: Mapping[str, str]) -> str:
        return "  ".join(f"{name}: {kind}{self._renamed(f'{owner}.{name}')}" for name, kind in props.items())

    def prop(self, owner: str, **changed: str | None) -> Shape:
        """With properties added, changed or (None) dropped."""
        props = {name: kind for name, kind in {**self.nodes[owner], **changed}.items() if kind is not None}
        return replace(self, nodes={**self.nodes, owner: props}, was={})


@dataclass(frozen=True)
class Example:
    """``main`` has a number, an enum and a text; ``other`` is renamed; ``gone`` is dropped with the edges that join it."""

    name: str
    shape: Shape
    main: str
    number: str
    other: str
    gone: str

    @property
    def revisions(self) -> list[tuple[str, Fill | None]]:
        """The first schema and ten more, with the fills of each."""
        main, number, found = self.main, self.number, []
        shape = self.shape

        def revise(change: Callable[[Shape], Shape], fill: Fill | None = None) -> None:
            nonlocal shape
            shape = change(shape)
            found.append((shape.text(), fill))

        revise(lambda s: s)
        revise(lambda s: s.prop(main, memo="String?", draft="String?"))
        revise(lambda s: s.prop(main, score="F64"), {f"{main}.score": 0.5})
        revise(lambda s: _renamed_property(s, main, number, f"{number}_now"))
        revise(lambda s: s.prop(main, **{f"{number}_now": "I64?"}))
        revise(lambda s: _with_extra(s, main))
        revise(lambda s: s.prop(main, label="String"), {f"{main}.label": {"sql": "upper(slug)"}})
        revise(lambda s: replace(s.prop(main), more={main: f"@range({number}_now, 0..) @index(score) @unique(label)"}))
        revise(lambda s: _renamed_type(s, self.other, f"{self.other}Now"))
        revise(lambda s: _without(s.prop(main, draft=None), self.gone))
        revise(
            lambda s: replace(
                s.prop(main, mood=f"enum({', '.join(MOODS)}, gone)"),
                interfaces="interface Named { slug: String }",
                implements={main: "Named"},
            )
        )
        return found

    def records(self, who: str, number: int) -> Iterator[dict[str, Any]]:
        """One batch of a loader: a node of each type, and an edge of each type between them."""
        slug = f"{who}-{number}"
        rng = random.Random(slug)
        for name in (*self.shape.nodes, EXTRA):
            values = {prop: _value(prop, kind, slug, rng) for prop, kind in self.shape.nodes.get(name, {}).items()}
            values["slug"] = slug
            if name == self.main:
                values |= {"score": 0.5, "label": slug.upper()}
            yield {"type": name, "data": values}
        for name, (_, _, _, props) in self.shape.edges.items():
            values = {prop: _value(prop, kind, slug, rng) for prop, kind in props.items()}
            yield {"edge": name, "from": slug, "to": slug, "data": values}

    def expressed(self, catalog: Catalog, records: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
        """The records in the names of a schema; types and properties that it does not have are left out."""
        found = []
        for record in records:
            member = "edge" if "edge" in record else "type"
            declared = _declared(catalog, record[member])
            if declared is None:
                continue
            data = {}
            for name, value in record["data"].items():
                known = next((one for one in (f"{name}_now", name) if one in declared.by_name), None)
                if known is not None:
                    data[known] = value
            found.append({**record, member: declared.name, "data": data})
        return found


def _declared(catalog: Catalog, name: str) -> TableType | None:
    for known in (f"{name}Now", name):
        declared = catalog.find_node(known) or catalog.find_edge(known)
        if declared is not None and declared.name == known:
            return declared
    return None


def _value(prop: str, kind: str, slug: str, rng: random.Random) -> Any:
    plain = kind.split()[0].rstrip("?")
    number = rng.randrange(1000)
    if plain.startswith("enum"):
        return MOODS[number % len(MOODS)]
    values: dict[str, Any] = {
        "String": slug if prop == "slug" else f"{prop} of {slug}",
        "I32": number,
        "F32": number / 4,
        "F64": number / 8,
        "Bool": number % 2 == 0,
        "Date": f"2026-01-{1 + number % 28:02d}",
        "DateTime": f"2026-01-{1 + number % 28:02d}T12:00:00Z",
        "[Date]": [f"2026-02-{1 + number % 28:02d}"],
        "[String]": ["x", slug],
        "Vector(3)": [1.0, 2.0, float(number)],
    }
    return values[plain]


# --- changes ------------------------------------------------------------------------------------------------------------


def _renamed_property(shape: Shape, owner: str, old: str, new: str) -> Shape:
    props = {new if name == old else name: kind for name, kind in shape.nodes[owner].items()}
    return replace(shape, nodes={**shape.nodes, owner: props}, was={f"{owner}.{new}": old})


def _renamed_type(shape: Shape, old: str, new: str) -> Shape:
    nodes = {new if name == old else name: props for name, props in shape.nodes.items()}
    edges = {
        name: (new if src == old else src, new if dst == old else dst, *rest)
        for name, (src, dst, *rest) in shape.edges.items()
    }
    return replace(shape, nodes=nodes, edges=edges, was={new: old})  # type: ignore[arg-type]  # the rest keeps its kinds


def _with_extra(shape: Shape, main: str) -> Shape:
    nodes = {**shape.nodes, EXTRA: {"slug": "String @key"}}
    edges = {**shape.edges, "ExtraOf": (EXTRA, main, "", dict[str, str]())}
    return replace(shape, nodes=nodes, edges=edges, was={})


def _without(shape: Shape, gone: str) -> Shape:
    nodes = {name: props for name, props in shape.nodes.items() if name != gone}
    edges = {name: one for name, one in shape.edges.items() if gone not in one[:2]}
    return replace(shape, nodes=nodes, edges=edges, was={})


# --- the graphs -----------------------------------------------------------------------------------------------------------

_SLUG = "String @key"
_MOOD = f"enum({', '.join(MOODS)})"
EXAMPLES: Mapping[str, Example] = {
    "market": Example(
        "market",
        Shape(
            {
                "Company": {"slug": _SLUG, "name": "String @index", "size": "I32?", "mood": _MOOD, "tags": "[String]?"},
                "Signal": {"slug": _SLUG, "text": "String?", "seen": "DateTime"},
                "Chunk": {"slug": _SLUG, "vector": "Vector(3)"},
                "Rumour": {"slug": _SLUG, "text": "String"},
            },
            {
                "Competes": ("Company", "Company", "@card(0..5)", {}),
                "About": ("Signal", "Company", "", {"weight": "F64"}),
                "PartOf": ("Chunk", "Signal", "@card(1..1)", {}),
                "Spreads": ("Rumour", "Company", "", {}),
            },
        ),
        main="Company",
        number="size",
        other="Signal",
        gone="Rumour",
    ),
    "medicine": Example(
        "medicine",
        Shape(
            {
                "Drug": {"slug": _SLUG, "phase": "I32?", "mood": _MOOD, "dose": "F64?"},
                "Trial": {"slug": _SLUG, "started": "Date", "open": "Bool"},
                "Site": {"slug": _SLUG, "city": "String? @index"},
            },
            {
                "Tests": ("Trial", "Drug", "@card(0..3)", {"arm": "String?"}),
                "RunsAt": ("Trial", "Site", "", {}),
                "Interacts": ("Drug", "Drug", "", {"risk": _MOOD}),
            },
        ),
        main="Drug",
        number="phase",
        other="Trial",
        gone="Site",
    ),
    "notes": Example(
        "notes",
        Shape(
            {
                "Note": {"slug": _SLUG, "rank": "I32?", "mood": _MOOD, "days": "[Date]?", "heat": "F32?"},
                "Person": {"slug": _SLUG, "mail": "String? @unique", "met": "Date?"},
                "Draft": {"slug": _SLUG, "done": "Bool"},
            },
            {
                "Mentions": ("Note", "Person", "", {"times": "I32"}),
                "Links": ("Note", "Note", "", {}),
                "Becomes": ("Draft", "Note", "@card(0..1)", {"at": "DateTime?"}),
                "Knows": ("Person", "Person", "", {}),
            },
        ),
        main="Note",
        number="rank",
        other="Person",
        gone="Draft",
    ),
}
