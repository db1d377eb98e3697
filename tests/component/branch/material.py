"""A small graph for merging and undoing, and what it holds, by type and id."""

from __future__ import annotations

from typing import Any

from omnigraph.core import failpoints
from omnigraph.graph import Graph
from omnigraph.testing.content import faults_of, leftovers_of

SCHEMA = """
node Person { name: String @key age: I32? city: String? tags: [String]? photo: Blob? @range(age, 0..150) }
node Town { title: String @key mayor: String? @unique(mayor) }
edge Knows: Person -> Person @card(0..3) { since: I32? }
edge Lives: Person -> Town
"""

RECORDS: list[dict[str, Any]] = [
    *(
        {"type": "Person", "data": {"name": name, "age": age, "city": city, "tags": ["a", "b"], "photo": "base64:AAEC"}}
        for name, age, city in (("ann", 30, "x"), ("bob", 40, "y"), ("cid", 50, None))
    ),
    {"type": "Town", "data": {"title": "x", "mayor": "ann"}},
    {"type": "Town", "data": {"title": "y", "mayor": None}},
    {"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "k1", "since": 1}},
    {"edge": "Lives", "from": "ann", "to": "x", "data": {"id": "l1"}},
]


def person(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, **data}}


def knows(id_: str, src: str, dst: str) -> dict[str, Any]:
    return {"edge": "Knows", "from": src, "to": dst, "data": {"id": id_}}


def content(graph: Graph, at: str | None = None, branch: str = "main") -> dict[str, dict[str, dict[str, Any]]]:
    snap = graph.snapshot(branch, at)
    return {key: {row["id"]: row for row in snap.to_arrow(key).to_pylist()} for key in sorted(snap.tables)}


def sound(graph: Graph) -> None:
    failpoints.disarm()
    assert faults_of(graph._engine) == []
    assert leftovers_of(graph._engine) == []
    assert graph.verify(deep=True).ok
