"""Compaction elsewhere: tasks travel without credentials, results are committed or refused, content stays."""

from __future__ import annotations

import json
import multiprocessing
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import errors
from omnigraph.graph import Graph
from tests.component.upkeep.material import engine_of, make, people, pin_of


@pytest.fixture
def graph(local_root: str) -> Iterator[Graph]:
    with make(local_root, commits=6) as made:
        yield made


def _elsewhere(data: bytes) -> bytes:
    return pickle.dumps([task.run() for task in pickle.loads(data)])


def test_tasks_run_in_other_processes_and_their_results_are_committed(any_root: str) -> None:
    with make(any_root, commits=6) as graph:
        before = graph.snapshot().to_arrow("Person").sort_by("id")
        plan = graph.plan_compaction()
        assert {task.table_key for task in plan.tasks} == {"node:Person", "edge:Knows"}
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            results = pickle.loads(pool.apply(_elsewhere, (pickle.dumps(plan.tasks),)))
        report = graph.commit_compaction(results, actor="cluster")
        assert len(report.commits) == 1 and report.skipped == ()
        assert pin_of(graph, "node:Person").fragments == pin_of(graph, "edge:Knows").fragments == 1
        assert graph.snapshot().to_arrow("Person").sort_by("id").equals(before)
        assert graph.commits(limit=1)[0].actor == "cluster"
        assert graph.plan_compaction().tasks == ()
        assert graph.verify(deep=True).problems == ()


def test_a_plan_writes_nothing_and_names_no_credentials(graph: Graph) -> None:
    before = [(entry.key, entry.size) for entry in engine_of(graph).store.list("")]
    with og.open(
        graph.uri, storage_options={"aws_access_key_id": "k", "aws_secret_access_key": "canary-4711"}
    ) as opened:
        plan = opened.plan_compaction(types=["Person"])
    assert [(entry.key, entry.size) for entry in engine_of(graph).store.list("")] == before
    assert b"canary-4711" not in pickle.dumps(plan)
    assert json.loads(json.dumps(plan.to_dict()))["tasks"][0]["table_key"] == "node:Person"
    assert "1 task in 1 table" in repr(plan)


def test_a_result_whose_fragments_were_changed_is_left_out_and_named(graph: Graph) -> None:
    results = [task.run() for task in graph.plan_compaction().tasks]
    graph.load(people("p1", age=77), mode="merge")
    report = graph.commit_compaction(results)
    [person] = [table for table in report.tables if table.table_key == "node:Person"]
    assert person.skipped == "1 rewrite overtaken by a writer: plan again" and not person.committed
    assert pin_of(graph, "edge:Knows").fragments == 1
    row = graph.snapshot().get("Person", "p1")
    assert row is not None and row["age"] == 77
    assert graph.verify(deep=True).clean


def test_a_result_committed_twice_changes_nothing_the_second_time(graph: Graph) -> None:
    results = [task.run() for task in graph.plan_compaction(types=["Person"]).tasks]
    graph.commit_compaction(results)
    again = graph.commit_compaction(results)
    assert again.commits == () and again.tables[0].skipped is not None
    assert graph.snapshot().count("Person") == 6
    assert graph.verify(deep=True).clean


def test_a_result_written_before_a_cleanup_is_not_used(graph: Graph) -> None:
    results = [task.run() for task in graph.plan_compaction(types=["Person"]).tasks]
    graph.cleanup(keep=1, min_age="0s", confirm=True)
    report = graph.commit_compaction(results)
    assert report.commits == () and "cleanup" in str(report.tables[0].skipped)


def test_results_of_another_graph_table_or_plan_are_refused(graph: Graph) -> None:
    [result] = [task.run() for task in graph.plan_compaction(types=["Person"]).tasks]
    for wrong in (replace(result, uri="elsewhere"), "text"):
        bad: Any = [wrong]
        with pytest.raises(errors.InvalidInput):
            graph.commit_compaction(bad)
    report = graph.commit_compaction([replace(result, identity="another")])
    assert report.tables[0].skipped == "the table was replaced or dropped"
    with pytest.raises(errors.Corruption):
        [task] = graph.plan_compaction(types=["Person"]).tasks
        replace(task, location="../escape").run()


def test_nothing_to_commit_commits_nothing(graph: Graph) -> None:
    report = graph.commit_compaction([])
    assert (report.commits, report.tables) == ((), ())


# --- documents ----------------------------------------------------------------------------------------------------------


def _documents(graph: Graph) -> tuple[str, str]:
    task = graph.plan_compaction().tasks[0]
    return task.to_json(), task.run().to_json()


def test_tasks_and_results_travel_as_documents(graph: Graph) -> None:
    tasks = [og.CompactionTask.from_json(task.to_json()) for task in graph.plan_compaction().tasks]
    results = [og.CompactionResult.from_json(task.run().to_json()) for task in tasks]
    for result in results:
        assert result.files and all(xxh3 is not None for _, _, xxh3 in result.files)
    assert graph.commit_compaction(results).commits
    assert graph.verify(deep=True).ok


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    "change",
    [
        {"op": "01"},
        {"format": "1"},
        {"pin": 0},
        {"ref": "main"},
        {"location": "../elsewhere"},
        {"identity": 7},
        {"surplus": 1},
        {"files": []},
        {"files": [{"path": "data/x.lance", "bytes": 1, "xxh3": "short"}]},
        {"signature": None},
        "task",
    ],
    ids=str,
)
def test_what_is_no_such_document_is_refused(graph: Graph, which: int, change: Any) -> None:
    text = _documents(graph)[which]
    reader: Any = (og.CompactionTask, og.CompactionResult)[which]
    assert reader.from_json(text).to_json() == text
    body = json.loads(text)
    broken = {**body, "task": {}, "result": {}} if change == "task" else {**body, **change}
    with pytest.raises(og.errors.InvalidInput):
        reader.from_json(json.dumps(broken))
    for member in body:
        with pytest.raises(og.errors.InvalidInput):
            reader.from_json(json.dumps({name: value for name, value in body.items() if name != member}))
    for text_of in ("", "[]", text[:-1] + ',"op":"01"}', text.replace('"pin":', '"pin":NaN,"pin":', 1)):
        with pytest.raises(og.errors.InvalidInput):
            reader.from_json(text_of)
    with pytest.raises(og.errors.UnsupportedStorage):
        reader.from_json(json.dumps({**body, "format": 2}))


def test_a_result_whose_file_is_not_there_is_not_committed(graph: Graph) -> None:
    results = [task.run() for task in graph.plan_compaction().tasks]
    path = results[0].files[0][0]
    (Path(graph.uri) / results[0].location / path).unlink()
    before = graph.snapshot().commit_id
    with pytest.raises(og.errors.InvalidInput, match="is missing"):
        graph.commit_compaction(results)
    assert graph.snapshot().commit_id == before
