"""Upkeep after changes of the schema: fragments in pieces are made whole, indexes come back, what is dropped hard is gone, and a
cleanup says what still holds its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import omnigraph as og
from omnigraph.commit.engine import MAIN
from omnigraph.core import failpoints
from omnigraph.graph import Graph
from omnigraph.table import field_sets, indices
from omnigraph.table.dataset import TableRef
from omnigraph.testing.content import faults_of, leftovers_of

BASE = """
node Person { name: String @key age: I32? @index city: String? face: Blob? tags: [String]? v: Vector(2)? }
node Town { title: String @key }
edge Knows: Person -> Person { since: I32? }
"""
SECRET = "a secret that is to be gone from every data file"


def records(*names: str) -> list[dict[str, Any]]:
    rows = [
        {"name": name, "age": number, "city": SECRET, "face": "base64:aGk=", "tags": ["x"], "v": [1, 2]}
        for number, name in enumerate(names)
    ]
    edges = [{"edge": "Knows", "from": names[0], "to": name, "data": {"since": 1}} for name in names[1:]]
    return [*({"type": "Person", "data": row} for row in rows), {"type": "Town", "data": {"title": names[0]}}, *edges]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with og.init(tmp_path / "g", BASE) as made:
        made.load(records("ann", "bob"), mode="append")
        made.load(records("cid", "dee"), mode="append")
        yield made
        failpoints.disarm()


def changed(old: str, new: str) -> str:
    assert old in BASE
    return BASE.replace(old, new)


def handle_of(graph: Graph, key: str = "node:Person") -> Any:
    engine = graph._engine
    pin = engine.latest(MAIN).state.tables[key]
    return engine.tables.open(TableRef(pin.location, pin.ref), pin.version)


def files_of(graph: Graph) -> list[int]:
    """How many data files each fragment of Person has."""
    return [len(fragment.metadata.files) for fragment in handle_of(graph).get_fragments()]


def indexed(graph: Graph) -> set[str]:
    return {one.column for one in indices.indices_of(handle_of(graph)).values()}


def content(graph: Graph) -> dict[str, Any]:
    return {name: graph.snapshot().to_arrow(name).sort_by("id") for name in ("Person", "Town", "Knows")}


def sound(graph: Graph) -> None:
    assert faults_of(graph._engine) == []
    assert leftovers_of(graph._engine) == []
    assert graph.verify(deep=True).ok


# --- optimize -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target_rows", [None, 1])
def test_optimize_makes_one_file_of_what_a_fill_has_put_beside_a_fragment(
    graph: Graph, target_rows: int | None
) -> None:
    graph.schema.apply(changed("age: I32?", "score: F64 age: I32?"), fill={"Person.score": 0.5})
    assert files_of(graph) == [2, 2]
    before = content(graph)
    report = graph.optimize(target_rows=target_rows)
    assert set(files_of(graph)) == {1} and len(files_of(graph)) == (1 if target_rows is None else 4)
    assert report.skipped == () and content(graph) == before
    again = graph.optimize(target_rows=target_rows)
    assert [table for table in again.tables if table.committed] == []
    sound(graph)


def test_a_plan_of_compaction_has_tasks_for_fragments_in_pieces(graph: Graph) -> None:
    graph.optimize()
    graph.schema.apply(changed("age: I32?", "score: F64 age: I32?"), fill={"Person.score": {"sql": "length(name)"}})
    before = content(graph)
    plan = graph.plan_compaction()
    assert [(task.table_key, task.fragments) for task in plan.tasks] == [("node:Person", 1)]
    tasks = [type(task).from_json(task.to_json()) for task in plan.tasks]
    graph.commit_compaction([task.run() for task in tasks])
    assert files_of(graph) == [1] and content(graph) == before
    assert graph.plan_compaction().tasks == ()
    sound(graph)


def test_planted_fragments_in_pieces_that_are_not_seen_stay_so(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_sets, "is_scattered", lambda fragment, live: False)
    graph.optimize()
    graph.schema.apply(changed("age: I32?", "score: F64 age: I32?"), fill={"Person.score": 0.5})
    graph.optimize()
    assert files_of(graph) == [2]


def test_fragments_with_other_columns_become_one(graph: Graph) -> None:
    """Some were written before a property was added or dropped, some after."""
    graph.schema.apply(changed("age: I32?", "more: String? age: I32?").replace("city: String? ", ""))
    graph.load([{"type": "Person", "data": {"name": "eve", "more": "y", "tags": ["z"]}}], mode="append")
    before = content(graph)
    graph.optimize()
    assert files_of(graph) == [1] and content(graph) == before
    sound(graph)


@pytest.mark.parametrize("change", ["widened", "renamed", "asked for", "not asked for"])
def test_optimize_builds_the_indexes_that_the_schema_still_asks_for(graph: Graph, change: str) -> None:
    graph.optimize()
    assert "age" in indexed(graph)
    text, name = {
        "widened": (changed("age: I32?", "age: I64?"), "age"),
        "renamed": (changed("age: I32? @index", 'years: I32? @index @rename_from("age")'), "years"),
        "asked for": (changed("city: String?", "city: String? @index"), "city"),
        "not asked for": (changed("age: I32? @index", "age: I32?"), None),
    }[change]
    graph.schema.apply(text)
    if change == "widened":
        assert "age" not in indexed(graph), "Lance drops the index of a column that is replaced"
    report = graph.optimize()
    person = next(table for table in report.tables if table.table_key == "node:Person")
    assert report.pending_indexes == ()
    if name is not None:
        assert name in indexed(graph)
        assert graph.optimize().changed is False
    assert person.indices_built == ([name] if change in ("widened", "asked for") else [])
    assert graph.snapshot().count("Person") == 4
    sound(graph)


def test_a_name_that_an_index_kept_through_a_rename_does_not_hide_another_column(graph: Graph) -> None:
    """Lance keeps the name of an index when its column is renamed; a new column may have the old name."""
    graph.optimize()
    graph.schema.apply(changed("age: I32? @index", 'years: I32? @index @rename_from("age")'))
    graph.schema.apply(changed("age: I32? @index", "years: I32? @index age: I32? @index"))
    graph.load([{"type": "Person", "data": {"name": "eve", "age": 7}}], mode="append")
    graph.optimize()
    assert {"years", "age"} <= indexed(graph) and graph.optimize().changed is False
    assert graph.snapshot().count("Person", filter=pc.field("age") == 7) == 1
    sound(graph)


# --- hard drops ---------------------------------------------------------------------------------------------------------


def holds(graph: Graph, text: str) -> list[str]:
    """Data files of the graph that have the text in them, whatever names them."""
    folder = Path(graph.uri)
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*.lance")
        if path.is_file() and text.encode() in path.read_bytes()
    )


def newest_files(graph: Graph) -> set[str]:
    handle = handle_of(graph)
    return {file.path for fragment in handle.get_fragments() for file in fragment.metadata.files}


LESS = changed("city: String? ", "")


def test_a_hard_drop_rewrites_what_holds_the_column_and_a_cleanup_takes_the_bytes(graph: Graph) -> None:
    assert holds(graph, SECRET)
    receipt = graph.schema.apply(LESS, allow_data_loss=True)
    assert receipt.plan is not None and receipt.plan.hard
    assert field_sets.with_dropped(handle_of(graph)) == []
    assert [commit.kind for commit in graph.commits(limit=2)] == ["maintenance", "schema"]
    assert len(receipt.warnings) == 1 and "Person.city" in receipt.warnings[0] and "cleanup" in receipt.warnings[0]
    assert not any(Path(path).name in newest_files(graph) for path in holds(graph, SECRET))
    plan = graph.plan_cleanup(keep=1, min_age="0s")
    assert plan.retained == ()
    graph.cleanup(plan)
    assert holds(graph, SECRET) == []
    assert graph.snapshot().count("Person") == 4
    sound(graph)


def test_a_soft_drop_leaves_the_bytes_until_it_is_asked_for_again(graph: Graph) -> None:
    receipt = graph.schema.apply(LESS)
    assert receipt.warnings == () and len(field_sets.with_dropped(handle_of(graph))) == 2
    graph.cleanup(keep=1, min_age="0s", confirm=True)
    assert holds(graph, SECRET)
    again = graph.schema.apply(LESS, allow_data_loss=True)
    assert again.commit_id is None and field_sets.with_dropped(handle_of(graph)) == []
    graph.cleanup(keep=1, min_age="0s", confirm=True)
    assert holds(graph, SECRET) == []
    assert graph.schema.apply(LESS, allow_data_loss=True).warnings == ()
    sound(graph)


def test_a_hard_drop_of_a_type_takes_its_table_with_the_last_commit(graph: Graph) -> None:
    text = BASE.replace("node Town { title: String @key }\n", "")
    receipt = graph.schema.apply(text, allow_data_loss=True)
    assert "Town" in receipt.warnings[0]
    [kept] = graph.plan_cleanup(keep=10, min_age="0s").retained
    assert (kept.branch, kept.type, kept.prop) == ("main", "Town", None)
    graph.cleanup(keep=1, min_age="0s", confirm=True)
    assert not any("Town" in str(path) for path in (Path(graph.uri) / "nodes").glob("*"))


def test_a_cleanup_says_what_keeps_the_bytes_of_what_was_dropped(graph: Graph) -> None:
    first = graph.snapshot().commit_id
    graph.checkpoints.create("q1")
    graph.schema.apply(LESS, allow_data_loss=True)
    graph.schema.apply(BASE)  # a new property of this name
    graph.schema.apply(LESS)
    graph.schema.apply(BASE.replace("since: I32?", ""))
    plan = graph.plan_cleanup(keep=100, min_age="0s")
    commits = f"commits from {graph.commits()[-1].id} on"
    assert [(one.type, one.prop, one.kept_by) for one in plan.retained] == [
        ("Knows", "since", (commits, "checkpoint q1")),
        ("Person", "city", (commits, "checkpoint q1")),
        ("Person", "city", (commits,)),
    ]
    assert "Person.city was dropped on main; its bytes are kept by" in repr(plan)
    report = graph.cleanup(graph.plan_cleanup(keep=1, min_age="0s"))
    assert [(one.type, one.prop, one.kept_by) for one in report.retained] == [
        ("Knows", "since", ("checkpoint q1",)),
        ("Person", "city", ("checkpoint q1",)),
    ]
    assert graph.snapshot(at=first).count("Person") == 4
    graph.checkpoints.delete("q1")
    last = graph.cleanup(keep=1, min_age="0s", confirm=True)
    assert last.retained == () and holds(graph, SECRET) == []


def test_a_rename_drops_nothing(graph: Graph) -> None:
    text = changed("city: String?", 'town: String? @rename_from("city")').replace(
        "node Town", 'node City @rename_from("Town")'
    )
    graph.schema.apply(text, allow_data_loss=True)
    assert graph.plan_cleanup(keep=100, min_age="0s").retained == ()


def test_a_hard_drop_that_writers_overtake_says_so(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """The column is out of the schema all the same; the same call again goes on."""
    from omnigraph.upkeep import branch_upkeep

    monkeypatch.setattr(branch_upkeep, "ROUNDS_MAX", 0)
    receipt = graph.schema.apply(LESS, allow_data_loss=True)
    assert any("node:Person" in warning and "again" in warning for warning in receipt.warnings)
    monkeypatch.undo()
    graph.schema.apply(LESS, allow_data_loss=True)
    assert field_sets.with_dropped(handle_of(graph)) == []
    sound(graph)


@pytest.mark.parametrize("place", ["maintain.before_commit", "maintain.after_commit"])
def test_a_hard_drop_that_is_killed_is_a_drop_and_can_be_repeated(graph: Graph, place: str) -> None:
    class Killed(BaseException):
        pass

    def kill(**_: Any) -> None:
        raise Killed

    with failpoints.armed(place, kill), pytest.raises(Killed):
        graph.schema.apply(LESS, allow_data_loss=True)
    failpoints.disarm()
    graph.recover(grace_s=0)
    assert "city" not in graph.snapshot().schema("Person").names
    graph.schema.apply(LESS, allow_data_loss=True)
    assert field_sets.with_dropped(handle_of(graph)) == []
    sound(graph)


def test_a_hard_drop_whose_rewrite_fails_has_dropped_and_says_what_is_left_to_do(graph: Graph) -> None:
    def fail(**_: Any) -> None:
        raise og.errors.StoreUnavailable("the store is not there")

    with failpoints.armed("maintain.before_commit", fail):
        receipt = graph.schema.apply(LESS, allow_data_loss=True)
    assert receipt.commit_id is not None and "city" not in graph.snapshot().schema("Person").names
    assert "still holds what was dropped" in receipt.warnings[0] and "allow_data_loss again" in receipt.warnings[0]
    with failpoints.armed("maintain.before_commit", fail), pytest.raises(og.errors.StoreUnavailable):
        graph.schema.apply(LESS, allow_data_loss=True)  # there is nothing else to do, so that a failure is one
    graph.schema.apply(LESS, allow_data_loss=True)
    assert field_sets.with_dropped(handle_of(graph)) == []
    sound(graph)


def test_planted_a_hard_drop_that_sees_no_dropped_columns_leaves_the_bytes(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(field_sets, "holds_dropped", lambda fragment, live: False)
    graph.schema.apply(LESS, allow_data_loss=True)
    graph.cleanup(keep=1, min_age="0s", confirm=True)
    assert holds(graph, SECRET)
