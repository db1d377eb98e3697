"""``load(dry_run=True)``: what would be written is told, and nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.core.errors import DataInvalid

SCHEMA = "node Person { name: String @key age: I32? }\nedge Knows: Person -> Person\n"
PEOPLE = [{"type": "Person", "data": {"name": name}} for name in ("ada", "bob")]
EDGE = {"edge": "Knows", "from": "ada", "to": "bob"}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "g.omni", SCHEMA)


def bytes_of(root: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path(root).rglob("*") if path.is_file()}


def test_a_dry_run_tells_effects_and_counts_and_changes_no_byte(graph: og.Graph) -> None:
    graph.load(PEOPLE, mode="append")
    before = bytes_of(graph.uri)
    changed = [{"type": "Person", "data": {"name": "ada", "age": 3}}, PEOPLE[1], EDGE]
    plan = graph.load(changed, mode="merge", dry_run=True)
    assert plan.effects == {key: table.effects for key, table in plan.tables.items()} and plan.effects
    assert {key: dict(one) for key, one in plan.counts.items()} == {
        key: {"inserted": t.inserted, "updated": t.updated, "deleted": t.deleted, "unchanged": t.unchanged}
        for key, t in plan.tables.items()
    }
    assert plan.read_set == plan.reads
    assert bytes_of(graph.uri) == before
    person, knows = plan.tables["node:Person"], plan.tables["edge:Knows"]
    assert (person.effects, person.version_before, person.version) == (("rows",), 2, 3)
    assert (person.inserted, person.updated, person.unchanged) == (0, 1, 1)
    assert (knows.effects, knows.inserted) == (("append",), 1)
    assert plan.base_commit == graph.snapshot().commit_id


def test_what_a_dry_run_tells_is_what_the_load_does(graph: og.Graph) -> None:
    plan = graph.load([*PEOPLE, EDGE], mode="merge", dry_run=True)
    receipt = graph.load([*PEOPLE, EDGE], mode="merge")
    assert {key: (table.version, table.inserted) for key, table in plan.tables.items()} == {
        key: (change.version, change.inserted) for key, change in receipt.tables.items()
    }


def test_a_dry_run_names_what_was_checked_against(graph: og.Graph) -> None:
    graph.load(PEOPLE, mode="append")
    plan = graph.load([EDGE], mode="append", dry_run=True)
    assert plan.reads == {"node:Person": 2}


def test_a_dry_run_of_what_is_there_already_does_nothing(graph: og.Graph) -> None:
    graph.load(PEOPLE, mode="merge")
    plan = graph.load(PEOPLE, mode="merge", dry_run=True)
    assert plan.tables == {} and plan.unchanged == {"node:Person": 2} and "nothing to do" in repr(plan)


def test_a_dry_run_refuses_what_the_load_refuses(graph: og.Graph) -> None:
    with pytest.raises(DataInvalid):
        graph.load([EDGE], mode="append", dry_run=True)


def test_a_dry_run_works_on_a_read_only_handle(graph: og.Graph) -> None:
    with og.open(graph.uri, read_only=True) as reader:
        assert reader.load(PEOPLE, mode="append", dry_run=True).tables["node:Person"].inserted == 2
