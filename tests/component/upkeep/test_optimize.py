"""Optimize keeps content, ends in a state that needs nothing, and may lose or die anywhere without harm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import errors
from omnigraph.commit.engine import MAIN
from omnigraph.commit.maintain import BUSY, UpkeepWork, run_turn
from omnigraph.commit.upkeep_steps import StripSettings, UpkeepLine
from omnigraph.core import failpoints
from omnigraph.core.meter import Meter
from omnigraph.graph import Graph
from omnigraph.manifest.state import TAIL_KEEP, TAIL_ROLL
from omnigraph.table import compaction, strict
from omnigraph.table.compaction import Limits
from tests.component.upkeep.material import (
    SCHEMA,
    displace,
    engine_of,
    knows,
    leave_ticket,
    make,
    people,
    pin_of,
    ref_of,
)

TYPES = ("Person", "Place", "Knows", "LivesIn")


@pytest.fixture
def graph(local_root: str) -> Iterator[Graph]:
    with make(local_root, commits=5) as made:
        yield made


def content(graph: Graph) -> dict[str, pa.Table]:
    snapshot = graph.snapshot()
    return {name: snapshot.to_arrow(name).sort_by("id") for name in TYPES}


def manifest_version(graph: Graph) -> int:
    return engine_of(graph).latest(MAIN).version


# --- what it does -------------------------------------------------------------------------------------------------------


def test_optimize_makes_one_fragment_of_many_and_keeps_every_row(any_root: str) -> None:
    with make(any_root, commits=5) as graph:
        before = content(graph)
        report = graph.optimize()
        assert report.changed and report.skipped == () and len(report.commits) == 2
        assert content(graph) == before
        for key in ("node:Person", "edge:Knows"):
            pin = pin_of(graph, key)
            assert (pin.fragments, pin.unindexed_fragments) == (1, 0)
        assert graph.verify(deep=True).problems == ()
        with og.open(any_root, read_only=True) as cold:
            assert content(cold) == before


def test_a_second_run_does_nothing_and_writes_nothing(any_root: str) -> None:
    with make(any_root, commits=3) as graph:
        graph.optimize()
        listed = [(entry.key, entry.size, entry.modified_us) for entry in engine_of(graph).store.list("")]
        report = graph.optimize()
        assert not report.changed and report.commits == ()
        assert [(entry.key, entry.size, entry.modified_us) for entry in engine_of(graph).store.list("")] == listed


def test_optimize_and_write_may_take_turns_for_long(graph: Graph) -> None:
    for number in range(12):
        graph.load(people(f"n{number}", "hot", age=number) + knows(("hot", f"n{number}"))[:0], mode="merge")
        assert graph.optimize().skipped == ()
        assert not graph.optimize().changed
    names = graph.snapshot().to_arrow("Person")["name"].to_pylist()
    assert sorted(names) == sorted([*(f"p{n}" for n in range(5)), *(f"n{n}" for n in range(12)), "hot"])
    assert graph.snapshot().get("Person", "hot") is not None
    assert graph.verify(deep=True).clean
    assert pin_of(graph, "node:Person").fragments <= 9


def test_deleted_rows_leave_the_files(graph: Graph) -> None:
    graph.load(people("p1", age=7), mode="merge")
    graph.load(people("p2", age=7), mode="merge")
    graph.optimize()
    assert pin_of(graph, "node:Person").deleted_rows == 0


def test_a_look_up_by_id_uses_the_index_that_optimize_built(graph: Graph) -> None:
    graph.optimize()
    handle = engine_of(graph).tables.open(ref_of(graph, "node:Person"), pin_of(graph, "node:Person").version)
    assert "ScalarIndexQuery" in handle.scanner(filter="id = 'p1'").explain_plan()
    found = handle.scanner(full_text_query="p1", columns=["id", "_score"]).to_table()
    assert found["id"].to_pylist() == ["p1"]


def test_the_commits_of_optimize_are_commits_of_the_history(graph: Graph) -> None:
    report = graph.optimize(actor="keeper")
    newest = graph.commits(limit=2)
    assert [commit.id for commit in newest] == list(report.commits)[::-1]
    assert {commit.kind for commit in newest} == {"maintenance"}
    assert {commit.actor for commit in newest} == {"keeper"}
    assert graph.snapshot(at=newest[0].id).count("Person") == 5


def test_types_can_be_chosen(graph: Graph) -> None:
    report = graph.optimize(types=["Person"])
    assert [table.table_key for table in report.tables] == ["node:Person"]
    assert pin_of(graph, "edge:Knows").fragments == 4
    with pytest.raises(errors.NotFound, match="no type 'Nobody'"):
        graph.optimize(types=["Nobody"])
    with pytest.raises(errors.InvalidInput):
        graph.optimize(types="Person")


@pytest.mark.parametrize("bad", [{"target_rows": 0}, {"memory_mb": 1}, {"target_rows": "many"}, {"memory_mb": True}])
def test_bounds_that_make_no_sense_are_refused(graph: Graph, bad: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidInput):
        graph.optimize(**bad)


def test_blobs_vectors_and_lists_survive_a_rewrite(local_root: str) -> None:
    schema = "node Doc { name: String @key body: Blob? place: Vector(2)? @index tags: [String]? seen: DateTime? }"
    with og.init(local_root, schema) as graph:
        for number in range(6):
            data = {
                "name": f"d{number}",
                "body": f"base64:{'QUJD' * number}",
                "place": [float(number), 1.0],
                "tags": [f"t{n}" for n in range(number)],
                "seen": f"2024-01-0{number + 1}T00:00:00Z",
            }
            graph.load([{"type": "Doc", "data": data}], mode="append")
        before = graph.snapshot().to_arrow("Doc").sort_by("id")
        report = graph.optimize()
        assert report.skipped == () and report.tables[0].fragments == 1
        assert graph.snapshot().to_arrow("Doc").sort_by("id").equals(before)
        assert graph.verify(deep=True).clean


def test_a_target_keeps_fragments_apart(graph: Graph) -> None:
    graph.optimize(target_rows=2)
    assert 2 <= pin_of(graph, "node:Person").fragments <= 4
    assert not graph.optimize(target_rows=2).changed


def test_a_memory_budget_is_enough(graph: Graph) -> None:
    before = content(graph)
    graph.optimize(memory_mb=16)
    assert content(graph) == before and pin_of(graph, "node:Person").fragments == 1


@pytest.mark.parametrize("memory_mb", [16, 128, 1024])
def test_a_memory_budget_bounds_what_is_read_ahead(graph: Graph, memory_mb: int) -> None:
    pin = pin_of(graph, "node:Person")
    handle = engine_of(graph).tables.open(ref_of(graph, "node:Person"), pin.version)
    given = compaction.options(handle, Limits(None, memory_mb))
    a_row = sum(file.file_size_bytes or 0 for f in handle.get_fragments() for file in f.metadata.files) // pin.rows
    assert given["num_threads"] == 1
    assert given["io_buffer_size"] + 16 * given["batch_size"] * a_row <= memory_mb * 2**20


def test_a_rewrite_with_a_budget_gives_memory_back_and_one_without_leaves_the_allocator_alone(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[bool] = []
    monkeypatch.setattr("omnigraph.upkeep.optimize.give_freed_memory_back", lambda: told.append(True))
    graph.optimize()
    assert told == []
    graph.optimize(memory_mb=128)
    assert told == [True]


def test_settings_that_let_lance_delete_versions_are_taken_out(graph: Graph) -> None:
    engine = engine_of(graph)
    pin, ref = pin_of(graph, "node:Place"), ref_of(graph, "node:Place")
    graph.load([{"type": "Place", "data": {"title": "Rome"}}], mode="append")
    handle = lance.dataset(engine.tables.uri(ref))
    handle.update_config({"lance.auto_cleanup.interval": "3", "keep": "this"})

    pin = pin_of(graph, "node:Place")
    from dataclasses import replace

    from omnigraph.manifest.state import Change
    from tests.component.upkeep.material import swap

    swap(graph, Change(pins={pin.key: replace(pin, version=handle.version)}))
    report = graph.optimize(types=["Place"])
    assert report.tables[0].settings_stripped == ["lance.auto_cleanup.interval"]
    now = engine.tables.open(ref, pin_of(graph, "node:Place").version)
    assert now.config() == {"keep": "this"}


def test_a_report_is_json_a_line_and_a_table(graph: Graph) -> None:
    report = graph.optimize()
    assert json.loads(json.dumps(report.to_dict()))["tables"][0]["table_key"] == "edge:Knows"
    assert "2 of 4 tables changed" in repr(report)
    assert "__manifest" in report._repr_html_()


def test_a_read_only_graph_is_not_optimized(graph: Graph) -> None:
    with og.open(graph.uri, read_only=True) as reader:
        for call in (reader.optimize, reader.ensure_indices, reader.compact_manifest):
            with pytest.raises(errors.InvalidInput, match="read-only"):
                call()


# --- indexes ------------------------------------------------------------------------------------------------------------


def test_ensure_indices_builds_what_is_missing_in_one_commit_and_rewrites_nothing(graph: Graph) -> None:
    report = graph.ensure_indices()
    assert len(report.commits) == 1 and report.manifest is None
    built = {table.table_key: table.indices_built for table in report.tables if table.committed}
    assert built == {"node:Person": ["age", "bio", "id", "name"], "edge:Knows": ["dst", "id", "src"]}
    assert pin_of(graph, "node:Person").fragments == 5
    assert not graph.ensure_indices().changed
    assert graph.verify(deep=True).clean


def test_an_index_that_cannot_be_trained_yet_is_pending_with_its_reason(local_root: str) -> None:
    with og.init(local_root, "node Doc { name: String @key place: Vector(2)? @index }") as graph:
        graph.load([{"type": "Doc", "data": {"name": "a"}}], mode="append")
        [pending] = graph.ensure_indices().pending_indexes
        assert (pending.table_key, pending.column, pending.reason) == ("node:Doc", "place", "no vector to train on yet")
        graph.load([{"type": "Doc", "data": {"name": "b", "place": [1.0, 2.0]}}], mode="append")
        report = graph.ensure_indices()
        assert report.pending_indexes == () and report.tables[0].indices_built == ["place"]


# --- losing and dying ---------------------------------------------------------------------------------------------------


def test_rows_changed_while_they_were_rewritten_are_not_lost(graph: Graph) -> None:
    """The rewrite holds the old row; the turn notices that its fragment has changed, and rewrites again."""
    with og.open(graph.uri) as other:

        def change(**_: object) -> None:
            other.load(people("p1", age=99), mode="merge")

        engine = engine_of(graph)
        original = compaction.rewrite
        calls = 0

        def slow(task: Any, handle: Any, meter: Any = None) -> Any:
            nonlocal calls
            result = original(task, handle, meter)
            calls += 1
            if calls == 1:
                change()
            return result

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compaction, "rewrite", slow)
            report = graph.optimize(types=["Person"])
    row = graph.snapshot().get("Person", "p1")
    assert row is not None and row["age"] == 99
    assert report.tables[0].conflicts == 1 and report.skipped == ()
    assert pin_of(graph, "node:Person").fragments <= 2
    assert graph.verify(deep=True).clean
    assert engine.intents.names() == []


def test_one_conflict_costs_one_rewrite(local_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several rewrites of one table, the one whose row was changed is made again; the others stand."""
    original = compaction.rewrite
    made: list[int] = []
    with make(local_root, commits=12) as graph, og.open(local_root) as other:
        tasks = len(graph.plan_compaction(types=["Person"], target_rows=4).tasks)
        assert tasks >= 3

        def slow(task: Any, handle: Any, meter: Any = None) -> Any:
            made.append(compaction.source_count(task))
            result = original(task, handle, meter)
            if len(made) == 1:
                other.load(people("p1", age=99), mode="merge")
            return result

        before = graph.snapshot().to_arrow("Person").num_rows
        monkeypatch.setattr(compaction, "rewrite", slow)
        [report] = graph.optimize(types=["Person"], target_rows=4).tables
        assert report.conflicts == 1 and report.skipped is None
        assert report.rewrites in (tasks, tasks - 1)  # of what was left of the one, there may be nothing to merge
        assert len(made) <= tasks + 1
        row = graph.snapshot().get("Person", "p1")
        assert row is not None and row["age"] == 99
        assert graph.snapshot().to_arrow("Person").num_rows == before
        assert graph.verify(deep=True).clean


def test_rows_appended_while_others_were_rewritten_stay(graph: Graph) -> None:
    with og.open(graph.uri) as other, pytest.MonkeyPatch.context() as patch:
        original = compaction.rewrite

        def slow(task: Any, handle: Any, meter: Any = None) -> Any:
            result = original(task, handle, meter)
            other.load(people(f"late{handle.version}"), mode="append")
            return result

        patch.setattr(compaction, "rewrite", slow)
        report = graph.optimize(types=["Person"])
    assert report.skipped == () and report.tables[0].rewrites == 1
    assert graph.snapshot().count("Person") == 6
    assert graph.verify(deep=True).clean


def test_a_write_that_lands_between_the_commits_of_a_turn_is_not_published_by_it(graph: Graph) -> None:
    """The version of a writer who does not queue stands among ours: ours is undone, and done again."""
    before = content(graph)
    with failpoints.armed("maintain.before_commit", lambda **_: displace(graph, "node:Person"), at=1):
        report = graph.optimize(types=["Person"])
    assert content(graph) == before
    assert report.skipped == () and pin_of(graph, "node:Person").fragments == 1
    assert graph.verify(deep=True).clean


PLACES = (
    "maintain.armed",
    "maintain.before_commit",
    "maintain.after_commit",
    "maintain.before_swap",
    "maintain.after_swap",
)


DECISIONS = dict.fromkeys(PLACES, "roll-back") | {"maintain.after_swap": "finish"}


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("place", PLACES)
def test_a_run_that_stops_anywhere_is_undone_or_done_and_can_be_repeated(graph: Graph, place: str, at: int) -> None:
    before = content(graph)
    with failpoints.armed(place, "raise", at=at), pytest.raises(failpoints.FailpointHit):
        graph.optimize()
    assert content(graph) == before
    report = graph.recover()
    assert report.clean
    # With nothing sent yet the turn takes its own intent back; after that, only a recovery does.
    assert [one.decision for one in report.recovered] == ([] if place == "maintain.armed" else [DECISIONS[place]])
    assert content(graph) == before
    assert graph.verify(deep=True).clean
    graph.load(people("next"), mode="append")
    graph.optimize()
    assert graph.snapshot().count("Person") == 6
    assert pin_of(graph, "edge:Knows").fragments == 1
    assert graph.verify(deep=True).clean


def test_a_turn_leaves_a_table_alone_whose_writer_is_at_work(graph: Graph) -> None:
    version = displace(graph, "node:Person")
    engine = engine_of(graph)
    op = leave_ticket(graph, "node:Person")
    note = engine.tables.transaction_at(
        ref_of(graph, "node:Person"),
        engine.tables.open(ref_of(graph, "node:Person"), pin_of(graph, "node:Person").version),
        version,
    )
    assert note is not None
    engine.tables._transactions[(ref_of(graph, "node:Person"), version)] = type(note)(
        version, note.uuid, {"omnigraph:op": op}, note.kind
    )
    touched: list[str] = []
    work = UpkeepWork("node:Person", pin_of(graph, "node:Person"), None, (StripSettings(),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("omnigraph.commit.queue.arming.Arming.admit", lambda _self: None)
        patch.setattr("omnigraph.commit.queue.arming.Arming.overtaken", lambda _self: False)
        patch.setattr(UpkeepLine, "make", lambda self, _steps: touched.append(self.pin.key))
        turn = run_turn(engine, MAIN, [work], actor=None, deadline_s=20, meter=Meter())
    assert turn.tables["node:Person"].state == BUSY and touched == []


def test_a_table_that_cannot_be_rewritten_is_skipped_with_the_reason(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = compaction.rewrite

    def refuse(task: Any, handle: Any, meter: Any = None) -> Any:
        if "Person" in handle.uri:
            raise errors.InvalidInput("columns of this kind cannot be rewritten")
        return original(task, handle, meter)

    before = content(graph)
    monkeypatch.setattr(compaction, "rewrite", refuse)
    report = graph.optimize()
    skipped = {table.table_key: table.skipped for table in report.skipped}
    assert skipped == {"node:Person": "columns of this kind cannot be rewritten"}
    assert pin_of(graph, "edge:Knows").fragments == 1
    assert content(graph) == before
    assert graph.verify(deep=True).clean


def test_drift_of_nobody_is_healed_on_the_way(graph: Graph) -> None:
    displace(graph, "node:Person")
    before = content(graph)
    report = graph.optimize()
    assert report.skipped == () and content(graph) == before
    assert graph.verify(deep=True).clean


# --- the archive of the manifest ----------------------------------------------------------------------------------------


def test_merging_the_archive_adds_no_commit_and_loses_no_row(local_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.manifest.state.TAIL_ROLL", 8)
    monkeypatch.setattr("omnigraph.manifest.state.TAIL_KEEP", 4)
    assert (TAIL_ROLL, TAIL_KEEP) == (128, 64)
    with og.init(local_root, SCHEMA) as graph:
        ids = [graph.load(people(f"p{n}"), mode="append").commit_id for n in range(30)]
        before = [commit.id for commit in graph.commits()]
        version = manifest_version(graph)
        report = graph.compact_manifest()
        assert report.fragments_before > 3 and report.fragments == 1 and report.changed
        assert manifest_version(graph) == version + 1
        assert [commit.id for commit in graph.commits()] == before
        with og.open(local_root) as cold:
            assert [commit.id for commit in cold.commits()] == before
            assert cold.snapshot(at=ids[0]).count("Person") == 1
            assert cold.outcome(str(ids[3])).state == "landed"
        assert not graph.compact_manifest().changed
        graph.load(people("after"), mode="append")
        assert graph.verify(deep=True).problems == ()


def test_merging_the_archive_beside_a_writer_loses_nothing(local_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.manifest.state.TAIL_ROLL", 8)
    monkeypatch.setattr("omnigraph.manifest.state.TAIL_KEEP", 4)
    with og.init(local_root, SCHEMA) as graph, og.open(local_root) as other:
        for n in range(16):
            graph.load(people(f"p{n}"), mode="append")

        def overtake(**_: object) -> None:
            for n in range(6):
                other.load(people(f"q{n}"), mode="append")

        with failpoints.armed("compact.before_swap", overtake):
            report = graph.compact_manifest()
        assert report.changed
        assert len(graph.commits()) == 1 + 16 + 6
        assert graph.verify(deep=True).problems == ()


@pytest.mark.parametrize("where", ["a name in a record", "a value"])
def test_what_is_read_wrongly_while_the_archive_is_merged_is_not_carried_on(
    local_root: str, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr("omnigraph.manifest.state.TAIL_ROLL", 8)
    monkeypatch.setattr("omnigraph.manifest.state.TAIL_KEEP", 4)
    old, new = {"a name in a record": ("created_at_us", "created_at_ur"), "a value": ('"ada"', '"adb"')}[where]
    flips = iter([True, True])
    with og.init(local_root, SCHEMA) as graph:
        for n in range(16):
            graph.load(people(f"p{n}"), mode="append", actor="ada")
        before, read = manifest_version(graph), strict.read_fragments

        def flipping(*args: Any) -> pa.Table:
            table = read(*args)
            if not next(flips, False):
                return table
            texts = [text and text.replace(old, new, 1) for text in table["metadata"].to_pylist()]
            return table.set_column(
                table.schema.get_field_index("metadata"), table.field("metadata"), pa.array(texts, pa.string())
            )

        with monkeypatch.context() as patch:
            patch.setattr(strict, "read_fragments", flipping)
            with pytest.raises(errors.Corruption, match=r"data/\w+\.lance"):
                graph.compact_manifest()
            assert next(flips, None) is None, "a fault on the way would be gone the second time"
        assert manifest_version(graph) == before
        assert graph.compact_manifest().changed, "the next one reads what is there"
    with og.open(local_root) as cold:
        assert [commit.actor for commit in cold.commits()][:16] == ["ada"] * 16
        assert cold.verify(deep=True).problems == ()


@pytest.mark.parametrize("bad", [0, -1, "2", True])
def test_a_bound_of_fragments_that_makes_no_sense_is_refused(graph: Graph, bad: Any) -> None:
    with pytest.raises(errors.InvalidInput):
        graph.compact_manifest(fragments_max=bad)
