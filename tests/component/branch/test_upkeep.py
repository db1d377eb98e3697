"""Upkeep of branches: indexes and files that lie on other lines, and what a branch is not asked to keep."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import pytest

import omnigraph as og
from omnigraph.commit import pins as pinning
from omnigraph.core.errors import InvalidInput, Refused
from omnigraph.core.limits import DEFAULT_LIMITS
from omnigraph.manifest.rows import Pin
from omnigraph.table import indices, settle
from omnigraph.table.dataset import TableRef
from tests.component.upkeep.material import engine_of, knows, make, people

PERSON = "node:Person"
NOW: dict[str, Any] = {"keep": 1, "min_age": "0s", "confirm": True}


@pytest.fixture
def graph(any_root: str) -> og.Graph:
    """Main with indexes over all of its fragments, and a branch that has written a few more people."""
    graph = make(any_root, 3)
    graph.ensure_indices()
    graph.branches.create("feature")
    for number in range(3):
        graph.load(people(f"f{number}", age=number), mode="append", branch="feature")
    return graph


def pin(graph: og.Graph, branch: str = "feature", key: str = PERSON) -> Pin:
    return engine_of(graph).latest(branch).state.tables[key]


def handle(graph: og.Graph, branch: str = "feature", key: str = PERSON) -> Any:
    found = pin(graph, branch, key)
    return engine_of(graph).tables.open(TableRef(found.location, found.ref), found.version)


def looked_up(graph: og.Graph, branch: str = "feature") -> list[int]:
    """By filters that the indexes answer, on a handle that has seen nothing before."""
    found = handle(graph, branch)
    fresh = lance.dataset(found.uri, version=found.version, storage_options=engine_of(graph).store.lance_options())
    filters = ("id = 'p0'", "id = 'f0'", "age = 2", "name = 'p1'")
    return [fresh.to_table(filter=one).num_rows for one in filters]


# --- indexes of other lines -----------------------------------------------------------------------------------------------


def test_a_compaction_builds_indexes_of_another_line_anew_first(graph: og.Graph) -> None:
    """Lance would leave the remapped index named as if it lay in the other line's folder: no look-up would work any more."""
    before = looked_up(graph)
    assert indices.inherited_indices(handle(graph))
    report = graph.optimize(branches=["feature"])
    [table] = [one for one in report.tables if one.table_key == PERSON]
    assert table.rewrites and "id" in table.indices_built and table.branch == "feature"
    assert looked_up(graph) == before == [1, 1, 1, 1]
    assert not indices.inherited_indices(handle(graph)) and graph.verify(deep=True).ok


def test_no_rewrite_is_committed_beside_an_index_of_another_line(graph: og.Graph) -> None:
    """Also where a task of another process has made the rewrite."""
    from omnigraph.table import compaction

    here = handle(graph)
    assert compaction.plan_rewrites(here, compaction.Limits()) == []
    assert compaction.is_held_up(here, compaction.Limits())
    found = pin(graph)
    with pytest.raises(compaction.NotLanded):
        compaction.commit_rewrite(engine_of(graph).tables, TableRef(found.location, found.ref), here, None, "0" * 26)


def test_a_base_is_needed_while_an_index_lies_there(graph: og.Graph) -> None:
    """Without rows of the base there still are its indexes."""
    records = [{"type": "Person", "data": {"name": f"p{n}", "age": 7, "bio": "new"}} for n in range(3)]
    graph.load(records, mode="merge", branch="feature")
    assert settle.inherited_bytes(handle(graph)) == 0 or pin(graph).bases[0].needed
    if settle.inherited_bytes(handle(graph)) == 0 and indices.inherited_indices(handle(graph)):
        assert pin(graph).bases[0].needed
    for number in range(3):
        graph.load(people(f"m{number}"), mode="append")
    graph.optimize()
    graph.cleanup(**NOW)
    assert looked_up(graph) == [1, 1, 1, 1]
    graph.optimize(branches=["feature"])
    assert looked_up(graph) == [1, 1, 1, 1] and graph.verify(deep=True).ok


def test_tables_that_a_branch_inherits_are_left_to_their_owner(graph: og.Graph) -> None:
    before, versions = pin(graph, key="edge:Knows"), len(handle(graph, "main", "edge:Knows").versions())
    files = {entry.key for entry in engine_of(graph).store.list(f"{before.location}/")}
    for report in (graph.optimize(branches=["feature"]), graph.ensure_indices("feature")):
        [table] = [one for one in report.tables if one.table_key == "edge:Knows"]
        assert table.skipped == "inherited: branch main commits to it"
    assert pin(graph, key="edge:Knows") == before == pin(graph, "main", "edge:Knows")
    assert len(handle(graph, "main", "edge:Knows").versions()) == versions
    assert {entry.key for entry in engine_of(graph).store.list(f"{before.location}/")} == files, "nothing was staged"


def test_the_owner_that_was_deleted_is_said_so(graph: og.Graph) -> None:
    graph.branches.create("b", from_="feature")
    graph.branches.delete("feature")
    [table] = [one for one in graph.optimize(branches=["b"]).tables if one.table_key == PERSON]
    assert table.skipped == "inherited: branch that was deleted commits to it"


# --- settle -----------------------------------------------------------------------------------------------------------------


def rows(graph: og.Graph, branch: str) -> list[tuple[Any, ...]]:
    """Content with row ids and stamps."""
    table = handle(graph, branch).to_table(columns=["id", "age", "_row_last_updated_at_version"], with_row_id=True)
    return sorted(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


def test_settled_tables_read_without_the_files_of_other_lines(graph: og.Graph) -> None:
    graph.mutate('query q() { delete Person where name = "p2" }', branch="feature")
    graph.branches.create("deep", from_="feature")
    graph.mutate('query q() { delete Person where name = "f2" }', branch="deep")
    before = rows(graph, "deep")
    report = graph.optimize(types=["Person"], branches=["deep"], settle=True, target_rows=1)
    [table] = report.tables
    assert table.settled_bytes > 0 and table.skipped is None, report
    found = pin(graph, "deep")
    assert [base.needed for base in found.bases] == [False, False]
    assert rows(graph, "deep") == before
    store = engine_of(graph).store
    for ref in (None, pin(graph).ref):
        folder = TableRef(found.location, ref).relative
        store.delete_many(
            entry.key
            for entry in store.list(f"{folder}/")
            if entry.key.split(folder + "/")[1].split("/")[0] in ("data", "_deletions", "_indices")
        )
    fresh = og.open(
        graph.uri, read_only=True, storage_options=store.lance_options() and dict(store.lance_options() or {})
    )
    assert fresh.snapshot("deep").count("Person") == len(before)
    assert looked_up(graph, "deep")[1] == 1


def test_settling_again_does_nothing(graph: og.Graph) -> None:
    graph.optimize(types=["Person"], branches=["feature"], settle=True)
    version = engine_of(graph).latest("feature").version
    assert not graph.optimize(types=["Person"], branches=["feature"], settle=True).changed
    assert engine_of(graph).latest("feature").version == version


def test_a_branch_is_settled_only_on_request_and_main_by_itself_up_to_a_bound(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Main writes to a type that a branch has made: its fork reads the branch's files."""
    text = str(graph.schema.show("feature")) + "node Town { name: String @key }\n"
    graph.schema.apply(text, branch="feature")
    graph.load([{"type": "Town", "data": {"name": "x"}}], mode="append", branch="feature")
    graph.branches.merge("feature")
    graph.load([{"type": "Town", "data": {"name": "y"}}], mode="append")
    town = "node:Town"
    assert pin(graph, "main", town).bases[0].needed
    graph.optimize(branches=["feature"])
    graph.optimize(settle=False, target_rows=1)
    assert pin(graph, "main", town).bases[0].needed
    small = og.open(graph.uri)
    monkeypatch.setattr(engine_of(small), "limits", DEFAULT_LIMITS.__class__(settled_bytes=1))
    small.optimize(target_rows=1)
    assert pin(graph, "main", town).bases[0].needed, "more than is copied without being asked"
    graph.optimize(target_rows=1)
    assert not pin(graph, "main", town).bases[0].needed
    graph.branches.delete("feature")
    graph.cleanup(**NOW)
    fresh = og.open(graph.uri)
    assert fresh.snapshot().count("Town") == 2 and fresh.verify(deep=True).ok


def test_a_graph_whose_tables_are_settled_can_be_moved(local_root: str) -> None:
    graph = make(local_root, 2)
    graph.ensure_indices()
    graph.branches.create("feature")
    graph.load(people("ann"), mode="append", branch="feature")
    graph.load(knows(("ann", "p0")), mode="append", branch="feature")
    graph.optimize(branches=["feature"], settle=True)
    graph.close()
    moved = local_root + "-moved"
    shutil.move(local_root, moved)
    fresh = og.open(moved)
    assert fresh.snapshot("feature").count("Person") == 3 and fresh.verify(deep=True).ok
    fresh.load(people("bob"), mode="append", branch="feature")
    fresh.optimize(branches=["feature"])
    assert fresh.snapshot("feature").get("Person", "bob")


def test_a_moved_graph_never_reads_the_files_of_the_place_it_was_copied_from(local_root: str) -> None:
    """In silence it would see what is written there later, or nothing once the original is gone."""
    graph = make(local_root, 2)
    graph.branches.create("feature")
    graph.load(people("ann"), mode="append", branch="feature")
    copied = local_root + "-copied"
    shutil.copytree(local_root, copied)
    fresh = og.open(copied)
    assert fresh.snapshot().count("Person") == 2, "main's own lines read as ever"
    for call in (
        lambda: fresh.snapshot("feature").to_arrow("Person"),
        lambda: fresh.load(people("bob"), mode="append", branch="feature"),
        lambda: fresh.branches.merge("feature"),
    ):
        with pytest.raises(og.errors.UnsupportedStorage) as caught:
            call()
        assert caught.value.place.startswith(f"{local_root}/nodes/") and "--settle" in caught.value.hint
    assert [one.code for one in fresh.verify(branches=["feature"]).problems if one.severity == "damage"] == [
        "pin-does-not-open"
    ]
    fresh.branches.delete("feature")
    fresh.cleanup(**NOW)
    assert fresh.verify(deep=True).ok and og.open(local_root).snapshot("feature").count("Person") == 3


def test_a_graph_that_is_reached_through_a_link_is_one_graph(local_root: str, tmp_path: Path) -> None:
    graph = make(local_root, 1)
    link = tmp_path / "link"
    link.symlink_to(local_root)
    linked = og.open(link)
    linked.branches.create("feature")
    linked.load(people("ann"), mode="append", branch="feature")
    assert linked.uri == graph.uri and graph.snapshot("feature").count("Person") == 2


def test_a_copy_of_a_damaged_file_is_not_made(local_root: str) -> None:
    graph = make(local_root, 2)
    graph.branches.create("feature")
    graph.load(people("ann"), mode="append", branch="feature")
    store = engine_of(graph).store
    first = next(entry for entry in store.list(f"{pin(graph).location}/data/"))
    path = Path(local_root) / first.key
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    [table] = og.open(local_root).optimize(types=["Person"], branches=["feature"], settle=True, target_rows=1).tables
    assert table.skipped is not None and "damaged" in table.skipped and first.key in table.skipped
    assert pin(graph).bases[0].needed


def test_a_writer_that_comes_between_is_not_overwritten(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    other, copy, left = og.open(graph.uri), settle.copy_inherited, [1]

    def beside(*arguments: Any) -> Any:
        copied = copy(*arguments)
        if left:
            left.pop()
            other.mutate('query q() { delete Person where name = "p0" }', branch="feature")
        return copied

    monkeypatch.setattr(settle, "copy_inherited", beside)
    graph.optimize(types=["Person"], branches=["feature"], settle=True, target_rows=1)
    fresh = og.open(graph.uri)
    assert fresh.snapshot("feature").get("Person", "p0") is None and fresh.snapshot("feature").get("Person", "p1")
    assert not pin(fresh).bases[0].needed and fresh.verify(deep=True).ok


def test_arguments(graph: og.Graph) -> None:
    with pytest.raises(InvalidInput):
        graph.optimize(settle="yes")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        graph.optimize(branches="feature")


def test_status_counts_what_each_branch_owns_and_what_it_reads_of_others(graph: og.Graph) -> None:
    main, side = graph.status().branches
    assert (main.name, main.owned_tables, main.unsettled_tables) == ("main", 4, 0)
    assert (side.name, side.owned_tables, side.unsettled_tables, side.unsettled_bytes) == ("feature", 1, 1, None)
    [deep] = graph.status(deep=True, branches=["feature"]).branches
    assert deep.head == graph.snapshot("feature").commit_id
    assert deep.unsettled_bytes == settle.inherited_bytes(handle(graph)) > 0
    graph.optimize(branches=["feature"], settle=True)
    [settled] = graph.status(deep=True, branches=["feature"]).branches
    assert (settled.unsettled_tables, settled.unsettled_bytes) == (0, 0)
    with pytest.raises(og.errors.NotFound):
        graph.status(branches=["nothing"])


# --- chains of forks --------------------------------------------------------------------------------------------------------


def test_a_chain_of_too_many_bases_is_refused_and_settling_shortens_it(
    local_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cleanup would delete a base that was cut from the chain, and with it files that the table reads."""
    monkeypatch.setattr(pinning, "BASES_MAX", 3)
    graph = make(local_root, 1)
    source = "main"
    for number in range(4):
        graph.branches.create(f"b{number}", from_=source)
        source = f"b{number}"
        if number < 3:
            graph.load(people(f"n{number}"), mode="append", branch=source)
    with pytest.raises(Refused) as caught:
        graph.load(people("n3"), mode="append", branch=source)
    assert caught.value.reason == "bases" and caught.value.table == PERSON and "--settle" in caught.value.hint
    assert list(graph.intents()) == []
    graph.optimize(types=["Person"], branches=["b2"], settle=True)
    graph.branches.create("c", from_="b2")
    graph.load(people("n3"), mode="append", branch="c")
    assert len(pin(graph, "c").bases) == 3, "those that are not needed are cut"
    graph.cleanup(**NOW)
    assert og.open(local_root).snapshot("c").count("Person") == 5


# --- back-pressure ----------------------------------------------------------------------------------------------------------


def test_fragments_that_are_inherited_never_overload_a_branch(any_root: str) -> None:
    main = make(any_root, 9)
    main.branches.create("feature")
    graph = og.open(any_root, backpressure={"warn": 8, "fail": 8})
    with pytest.raises(og.errors.Overloaded):
        graph.load(people("x"), mode="append")
    for number in range(3):
        graph.load(people(f"f{number}"), mode="append", branch="feature")
    assert pin(graph).fragments == 12, "what the manifest says, and what does not count here"
