"""What a notebook shows of a graph: where it stands and what its schema is, as HTML that data cannot add to."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og

SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person\n"


def test_a_graph_is_shown_with_its_state_and_its_schema(tmp_path: Path) -> None:
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": "a"}}], mode="append")
        shown = graph._repr_html_()
    assert "<table" in shown and "<svg" in shown and "Person" in shown and "Knows" in shown


@pytest.mark.parametrize("made", ["snapshot", "commits", "status", "verify", "catalog", "receipt"])
def test_what_a_call_returns_is_shown_as_html(tmp_path: Path, made: str) -> None:
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        receipt = graph.load([{"type": "Person", "data": {"name": "a"}}], mode="append", actor="<script>x</script>")
        found = {
            "snapshot": graph.snapshot,
            "commits": graph.commits,
            "status": graph.status,
            "verify": graph.verify,
            "catalog": lambda: graph.catalog,
            "receipt": lambda: receipt,
        }[made]()
        shown = found._repr_html_()
    assert shown.startswith("<") and "<script>" not in shown
