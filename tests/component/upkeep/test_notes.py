"""Notes: bytes of a program that feeds the graph, kept beside it, apart from everything that the engine decides by."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.core.limits import DEFAULT_LIMITS

SCHEMA = "node Person { name: String @key }"


def test_a_note_is_found_again_by_another_handle_and_replaced_and_deleted(any_root: str) -> None:
    with og.init(f"{any_root}/g.omni", SCHEMA) as graph:
        graph.notes.put("crm/b1", b"one")
        graph.notes.put("crm/b1", b"two")
        graph.notes.put("feed/b1", b"")
    with og.open(f"{any_root}/g.omni", read_only=True) as graph:
        assert graph.notes.get("crm/b1") == b"two"
        assert graph.notes.get("feed/b1") == b""
        assert graph.notes.get("crm/b2") is None
        assert graph.notes.list() == ("crm/b1", "feed/b1")
        assert graph.notes.list("crm") == ("crm/b1",)
        with pytest.raises(og.errors.InvalidInput, match="read-only"):
            graph.notes.put("crm/b1", b"three")
        with pytest.raises(og.errors.InvalidInput, match="read-only"):
            graph.notes.delete("crm/b1")
    with og.open(f"{any_root}/g.omni") as graph:
        graph.notes.delete("crm/b1")
        graph.notes.delete("crm/b1")
        assert graph.notes.list() == ("feed/b1",)


@pytest.mark.parametrize(
    "name", ["", "/", "a/", "/a", "a//b", "../a", "a/..", ".a", "a b", "a\x00", "a/b/c/d/e", "é", "a" * 129]
)
def test_a_name_that_could_lead_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        for work in (
            lambda: graph.notes.put(name, b""),
            lambda: graph.notes.get(name),
            lambda: graph.notes.delete(name),
        ):
            with pytest.raises(og.errors.InvalidInput, match="not the name of a note"):
                work()


def test_a_note_has_a_bound(tmp_path: Path) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph, pytest.raises(og.errors.LimitExceeded, match="note_bytes"):
        graph.notes.put("big", bytes(DEFAULT_LIMITS.note_bytes + 1))


def test_a_note_is_no_part_of_the_graph_and_survives_its_cleanup(tmp_path: Path) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        for name in ("a", "b", "c"):
            graph.load([{"type": "Person", "data": {"name": name}}], mode="append")
        graph.optimize()
        before = len(graph.commits())
        graph.notes.put("crm/b1", b"one")
        graph.cleanup(keep=1, min_age="0s", confirm=True)
        assert graph.notes.get("crm/b1") == b"one"
        assert graph.verify(deep=True).clean
        assert len(graph.commits()) == before
