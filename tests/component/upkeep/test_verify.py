"""Verify finds what is wrong, names it, and calls a sound graph sound."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.commit.queue.refusals import KEY_TAKEN, Refusal, write_refusal
from omnigraph.core.clock import Clock, ManualClock
from omnigraph.core.ids import new_ulid
from omnigraph.graph import Graph
from omnigraph.manifest.state import Change
from omnigraph.store import layout
from omnigraph.table.dataset import TableRef
from omnigraph.testing import rot
from omnigraph.upkeep.verify import verify_files
from omnigraph.wire.verify import VerifyReport
from tests.component.upkeep.material import displace, engine_of, leave_ticket, make, pin_of, ref_of, smuggle, swap


@pytest.fixture
def graph(local_root: str) -> Iterator[Graph]:
    with make(local_root) as made:
        yield made


def codes(graph: Graph, *, deep: bool = False) -> set[str]:
    return {problem.code for problem in graph.verify(deep=deep).problems}


@pytest.mark.parametrize("deep", [False, True])
def test_a_graph_that_was_only_written_is_sound(any_root: str, deep: bool) -> None:
    with make(any_root) as graph:
        report = graph.verify(deep=deep)
    assert report.ok and report.clean and report.problems == ()
    assert (report.tables, report.rows, report.verdict) == (4, 5, "sound")


def test_verify_changes_nothing(graph: Graph) -> None:
    before = [(entry.key, entry.size) for entry in engine_of(graph).store.list("")]
    graph.verify(deep=True)
    assert [(entry.key, entry.size) for entry in engine_of(graph).store.list("")] == before


def test_a_read_only_graph_can_be_verified(graph: Graph) -> None:
    with og.open(graph.uri, read_only=True) as reader:
        assert reader.verify(deep=True).ok


def test_a_file_that_is_not_whole_is_found_without_reading_every_value(graph: Graph) -> None:
    data = Path(graph.uri, pin_of(graph, "node:Person").location, "data")
    file = next(data.glob("*.lance"))
    size = file.stat().st_size
    os.truncate(file, size - 1)
    problem = next(problem for problem in graph.verify().problems if problem.code == "file")
    assert (problem.severity, problem.table_key) == ("damage", "node:Person")
    assert f"data/{file.name}: {size - 1} of {size} bytes are there" in problem.message


def test_a_pinned_version_that_is_gone_is_found(graph: Graph) -> None:
    pin = pin_of(graph, "node:Person")
    gone = f"{pin.location}/_versions/{layout.VERSION_MAX - pin.version:020d}.manifest"
    assert engine_of(graph).store.delete(gone)
    report = graph.verify()
    assert not report.ok
    assert next((p.code, p.table_key) for p in report.problems if p.severity == "damage") == (
        "pin-does-not-open",
        "node:Person",
    )


def test_a_data_file_that_is_gone_is_found(graph: Graph) -> None:
    pin = pin_of(graph, "node:Person")
    store = engine_of(graph).store
    store.delete(store.list(f"{pin.location}/data/")[0].key)
    with og.open(graph.uri, read_only=True) as reader:
        assert not reader.verify(deep=True).ok


def test_a_row_count_that_differs_is_found(graph: Graph) -> None:
    pin = pin_of(graph, "node:Person")
    swap(graph, Change(pins={pin.key: replace(pin, rows=pin.rows + 1)}))
    assert "row-count" in codes(graph)


def test_an_endpoint_that_nobody_has_is_found(graph: Graph) -> None:
    smuggle(graph, "edge:Knows", {"id": ["e1", "e2"], "src": ["p0", "nobody"], "dst": ["nowhere", "p1"]})
    report = graph.verify()
    messages = [problem.message for problem in report.problems if problem.code == "dangling-endpoint"]
    assert ["nobody" in messages[0], "nowhere" in messages[1]] == [True, True]


def test_an_id_that_stands_twice_is_found(graph: Graph) -> None:
    smuggle(graph, "node:Person", {"id": ["p0"], "name": ["p0"]})
    report = graph.verify()
    [problem] = report.problems
    assert (problem.code, problem.table_key, report.ok) == ("duplicate-id", "node:Person", False)
    assert "'p0'" in problem.message


def test_a_deep_look_finds_unique_values_that_stand_twice(graph: Graph) -> None:
    smuggle(graph, "node:Place", {"id": ["a", "b"], "title": ["Rome", "Rome"]})
    assert codes(graph) == set()
    assert codes(graph, deep=True) == {"duplicate-unique"}


def test_a_deep_look_finds_a_source_with_too_many_edges(graph: Graph) -> None:
    smuggle(graph, "edge:Knows", {"id": list("abcd"), "src": ["p0"] * 4, "dst": ["p1"] * 4})
    assert codes(graph) == set()
    assert codes(graph, deep=True) == {"cardinality"}


def test_drift_without_an_intent_is_found_and_names_its_cure(graph: Graph) -> None:
    displace(graph, "node:Person")
    report = graph.verify()
    [problem] = report.problems
    assert (problem.code, problem.severity, problem.command) == ("drift", "pending", "repair")
    assert report.ok and not report.clean


def test_drift_of_a_write_in_flight_is_its_intent(graph: Graph) -> None:
    displace(graph, "node:Person")
    op = leave_ticket(graph, "node:Person")
    [problem] = graph.verify().problems
    assert problem.code == "intent" and op in problem.message


def test_an_intent_that_does_not_read_is_damage(graph: Graph) -> None:
    key = layout.intent_key(new_ulid())
    engine_of(graph).store.create(key, b"{")
    [problem] = graph.verify().problems
    assert (problem.severity, problem.code) == ("damage", "unreadable-intent")
    assert key in problem.message


def test_a_refusal_that_was_altered_is_damage(graph: Graph) -> None:
    engine = engine_of(graph)
    head = engine.latest("main").state.head.commit_id
    judged_at = {"manifest_version": 1, "head": head, "schema_id": "x"}
    refusal = Refusal(new_ulid(), new_ulid(), {"code": KEY_TAKEN, "commit_id": head}, judged_at)
    write_refusal(engine.store, refusal, refused_by=vars(engine.owner), now_us=1)
    key = layout.refused_key(refusal.op)
    assert graph.verify().problems == ()
    data = engine.store.get(key)
    assert data is not None
    engine.store.replace(key, data.replace(b'"manifest_version":1', b'"manifest_version":2'))
    [problem] = graph.verify().problems
    assert (problem.severity, problem.code) == ("damage", "unreadable-refusal")
    assert key in problem.message


def test_datasets_and_forks_without_an_owner_are_garbage(graph: Graph) -> None:
    engine = engine_of(graph)
    handle = engine.tables.open(ref_of(graph, "node:Person"), pin_of(graph, "node:Person").version)
    fork = f"f-{new_ulid()}"
    handle.create_branch(fork, handle.version)
    path = layout.table_path("node:Person", new_ulid())
    engine.tables.create_empty(TableRef(path), handle.schema)
    report = graph.verify()
    assert {(p.code, p.severity, p.command) for p in report.problems} == {
        ("orphan-dataset", "garbage", "cleanup"),
        ("orphan-fork", "garbage", "cleanup"),
    }
    assert report.ok and report.clean


def test_a_file_that_no_version_names_is_found_by_a_deep_look(graph: Graph) -> None:
    engine = engine_of(graph)
    pin = pin_of(graph, "node:Person")
    handle = engine.tables.open(ref_of(graph, "node:Person"), pin.version)
    engine.tables.stage_append(handle, handle.to_table())
    assert codes(graph) == set()
    [problem] = graph.verify(deep=True).problems
    assert (problem.code, problem.severity, problem.table_key) == ("unreferenced-file", "garbage", "node:Person")


def test_a_retained_commit_that_lost_a_table_version_is_found_by_a_deep_look(graph: Graph) -> None:
    pin = pin_of(graph, "node:Person")
    gone = f"{pin.location}/_versions/{layout.VERSION_MAX - (pin.version - 1):020d}.manifest"
    assert engine_of(graph).store.delete(gone)
    assert codes(graph) == set()
    assert "commit-does-not-open" in codes(graph, deep=True)


def test_a_report_is_json_a_line_and_a_table(graph: Graph) -> None:
    displace(graph, "node:Person")
    report = graph.verify()
    assert json.loads(json.dumps(report.to_dict()))["problems"][0]["command"] == "repair"
    assert "drift" in repr(report)
    assert "<table>" in report._repr_html_()


# --- at a rate, beside writers --------------------------------------------------------------------------------------------


class Interrupting(ManualClock):
    """Runs something at the first sleep: in the middle of reading files."""

    def __init__(self, action: Callable[[], object]) -> None:
        super().__init__()
        self._action: Callable[[], object] | None = action

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        action, self._action = self._action, None
        if action is not None:
            action()


def scrub(graph: Graph, clock: Clock, bytes_per_s: int = 10_000) -> VerifyReport:
    return verify_files(engine_of(graph), bytes_per_s=bytes_per_s, clock=clock)


def test_a_look_at_a_rate_reads_every_file_in_its_time(graph: Graph) -> None:
    clock = ManualClock()
    report = scrub(graph, clock)
    assert report.ok and report.files > 10
    assert clock.monotonic() == pytest.approx(report.bytes / 10_000, rel=0.01)
    whole = graph.verify(deep=True)
    assert (whole.files, whole.bytes) == (report.files, report.bytes)


@pytest.mark.parametrize("where", ["node:Person", "__manifest"])
def test_a_look_at_a_rate_names_the_file_that_has_rotted(graph: Graph, where: str) -> None:
    folder = Path(graph.uri, "__manifest" if where == "__manifest" else pin_of(graph, where).location)
    file = max((folder / "_transactions").iterdir(), key=lambda path: path.name)
    rot.flip(file, at=5, bit=1)
    [problem] = scrub(graph, ManualClock()).problems
    assert (problem.severity, problem.code) == ("damage", "checksum")
    assert str(file.relative_to(graph.uri)) in problem.message


def test_what_optimize_and_cleanup_delete_meanwhile_is_no_damage(graph: Graph) -> None:
    seen: list[int] = []

    def upkeep() -> None:
        graph.optimize()
        seen.append(graph.cleanup(keep=1, min_age="0s", confirm=True).versions)

    report = scrub(graph, Interrupting(upkeep))
    assert seen[0] > 0
    assert report.problems == ()


def test_a_table_that_branches_share_is_read_once(graph: Graph) -> None:
    before = scrub(graph, ManualClock())
    graph.branches.create("work")
    after = scrub(graph, ManualClock())
    assert after.branches == ("main", "work")
    assert before.files <= after.files < before.files + 10


@pytest.mark.parametrize(
    ("deep", "rate"), [(False, 1000), (True, 0), (True, -1), (True, 1.5), (True, True), (True, "1")]
)
def test_a_rate_that_is_none_or_has_no_effect_is_refused(graph: Graph, deep: bool, rate: Any) -> None:
    with pytest.raises(og.errors.InvalidInput, match="bytes_per_s"):
        graph.verify(deep, bytes_per_s=rate)
