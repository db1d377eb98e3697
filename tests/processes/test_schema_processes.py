"""Ten revisions of a schema beside two loaders and a compactor, each with a graph handle of its own: the end equals a graph of the
last schema with the same records."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import omnigraph as og
from omnigraph.testing.content import faults_of, leftovers_of

pytestmark = pytest.mark.timeout(300)

KNOWS = "edge Knows: {0} -> {0}"
REVISIONS: list[tuple[str, dict[str, object] | None]] = [
    ("node P { name: String @key n: I32? a: String? }\n" + KNOWS.format("P"), None),
    ("node P { name: String @key n: I32? a: String? note: String? }\n" + KNOWS.format("P"), None),
    ('node P { name: String @key n: I64? a: String? note: String? }\n' + KNOWS.format("P"), None),
    ("node P { name: String @key n: I64? a: String? note: String? v: F64? }\n" + KNOWS.format("P"), {"P.v": 0.5}),
    ("node P { name: String @key n: I64? a: String? note: String? v: F64? @index }\n" + KNOWS.format("P"), None),
    ("node P { name: String @key n: I64? a: String? note: String? v: F64? @index @range(n, 0..) }\n" + KNOWS.format("P"), None),
    ("node P { name: String @key n: I64? a: String? v: F64? @index @range(n, 0..) }\n" + KNOWS.format("P"), None),
    ('node P { name: String @key n: I64? b: String? @rename_from("a") v: F64? @index @range(n, 0..) }\n' + KNOWS.format("P"), None),
    (
        "node P { name: String @key n: I64? b: String? v: F64? label: String? @range(n, 0..) }\n" + KNOWS.format("P"),
        {"P.label": {"sql": "upper(name)"}},
    ),
    ("node P { name: String @key n: I64? b: String? v: F64? label: String? @range(n, 0..) }\nnode Q { k: String @key }\n" + KNOWS.format("P"), None),
    ("node P { name: String @key n: I64? b: String? v: F64? label: String? @range(n, 0..) }\nnode Q { k: String @key }\n" + KNOWS.format("P") + " @card(0..1)", None),
]  # fmt: skip


def test_ten_revisions_beside_two_loaders_and_a_compactor(tmp_path: Path) -> None:
    place = tmp_path / "g"
    og.init(place, REVISIONS[0][0]).close()
    done = Event()

    def loader(who: str) -> list[str]:
        """Load pairs of people, each with an edge, until the last revision is accepted."""
        names: list[str] = []
        with og.open(place, actor=who) as graph:
            while not done.is_set() or len(names) < 2:
                pair = [f"{who}{len(names)}", f"{who}{len(names) + 1}"]
                records: list[dict[str, Any]] = [{"type": "P", "data": {"name": name, "n": 1}} for name in pair]
                records.append({"edge": "Knows", "from": pair[0], "to": pair[1]})
                graph.load(records, mode="append", idempotency_key=f"{who}/{len(names)}", deadline_s=120)
                names += pair
        return names

    def compactor() -> None:
        with og.open(place, actor="compactor") as graph:
            while not done.is_set():
                graph.optimize()

    with ThreadPoolExecutor(3) as pool:
        loaders = [pool.submit(loader, who) for who in ("a", "b")]
        compacting = pool.submit(compactor)
        try:
            with og.open(place, actor="reviser") as graph:
                for text, fill in REVISIONS[1:]:
                    graph.schema.apply(text, fill=fill, deadline_s=120)
        finally:
            done.set()
        names = [name for one in loaders for name in one.result()]
        compacting.result()
    with og.open(place) as graph:
        assert sum(commit.kind == "schema" for commit in graph.commits()) == len(REVISIONS) - 1
        rows = graph.snapshot().to_arrow("P").sort_by("id").to_pylist()
        assert [row["name"] for row in rows] == sorted(names)
        assert graph.snapshot().count("Knows") == len(names) // 2
        assert all(row["n"] == 1 and row["b"] is None for row in rows)
        # A row has the value of a fill if it was there when the property was added, and none if it came later.
        assert {row["v"] for row in rows} <= {0.5, None}
        assert all(row["label"] in (None, row["name"].upper()) for row in rows)
        assert faults_of(graph._engine) == [] and leftovers_of(graph._engine) == []
        graph.snapshot().export(tmp_path / "all.jsonl")
        with og.init(tmp_path / "fresh", REVISIONS[-1][0]) as fresh:
            fresh.load(tmp_path / "all.jsonl", mode="append")
            assert fresh.snapshot().to_arrow("P").sort_by("id").to_pylist() == rows
            assert fresh.catalog.hash == graph.catalog.hash
