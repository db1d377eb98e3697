"""A large append is written while it is checked: its files are written once, and a refusal leaves none of them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.core.errors import DataInvalid, KeyConflict, OmnigraphError
from omnigraph.table.dataset import Tables
from omnigraph.write import load as load_module
from omnigraph.write import staging_plan
from omnigraph.write.group import front

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { since: I32? }\n"
ROWS = 40


@pytest.fixture(autouse=True)
def _from_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging_plan, "AHEAD_ROWS_MIN", 1)
    monkeypatch.setattr(front, "BYTES_MAX", 0)  # inputs that are staged ahead are too large to share a plan


@pytest.fixture
def root(tmp_path: Path) -> Path:
    og.init(tmp_path / "g.omni", SCHEMA).close()
    return tmp_path / "g.omni"


def batch(first: int = 0, end: str = "p0") -> og.Batch:
    names = [f"p{i}" for i in range(first, first + ROWS)]
    people = pa.table({"name": names, "age": pa.array(range(ROWS), pa.int32())})
    return og.Batch(nodes={"Person": people}, edges={"Knows": pa.table({"from": names, "to": [end] * ROWS})})


def files(root: Path) -> set[str]:
    return {str(path) for path in root.rglob("*.lance") if path.parent.name == "data" and "__manifest" not in str(path)}


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """When tables are staged and the rows are judged, in their order."""
    seen: list[str] = []
    stage, validate = Tables.stage_append, load_module.validate

    def noted_stage(self: Tables, *args: Any, **named: Any) -> Any:
        seen.append("stage")
        return stage(self, *args, **named)

    def noted_validate(*args: Any, **named: Any) -> Any:
        found = validate(*args, **named)
        seen.append("judged")
        return found

    monkeypatch.setattr(Tables, "stage_append", noted_stage)
    monkeypatch.setattr(load_module, "validate", noted_validate)
    return seen


def test_files_are_written_once_and_before_the_verdict(
    root: Path, staged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Semaphore(0)
    stage, noted = staging_plan.stage, load_module.validate

    def stages(*args: Any, **named: Any) -> Any:
        found = stage(*args, **named)
        begun.release()
        return found

    def judges_late(*args: Any, **named: Any) -> Any:
        for _ in range(2):
            assert begun.acquire(timeout=60)
        return noted(*args, **named)

    monkeypatch.setattr(staging_plan, "stage", stages)
    monkeypatch.setattr(load_module, "validate", judges_late)
    with og.open(root) as graph:
        receipt = graph.load(batch(), mode="append")
        assert staged == ["stage", "stage", "judged"]
        assert receipt.tables["node:Person"].inserted == ROWS
        assert graph.snapshot().count("Knows") == ROWS
        assert len(files(root)) == 2
        assert graph.verify(deep=True).ok


@pytest.mark.parametrize(("first", "end", "wanted"), [(0, "nobody", DataInvalid), (ROWS - 1, "p0", KeyConflict)])
def test_a_refusal_leaves_no_file(
    root: Path, first: int, end: str, wanted: type[OmnigraphError], staged: list[str]
) -> None:
    with og.open(root) as graph:
        graph.load(batch(), mode="append")
        before, head = files(root), graph.snapshot().commit_id
        staged.clear()
        with pytest.raises(wanted):
            graph.load(batch(first or ROWS, end), mode="append")
        assert sorted(staged) == ["judged", "stage", "stage"]
        assert files(root) == before and graph.snapshot().commit_id == head
        assert graph.verify(deep=True).ok
        graph.load(batch(ROWS), mode="append")
        assert graph.snapshot().count("Person") == 2 * ROWS


def test_rows_that_do_not_read_are_not_written(root: Path, staged: list[str]) -> None:
    bad = pa.table({"name": ["x", None], "age": pa.array([1, 2], pa.int32())})
    with og.open(root) as graph, pytest.raises(DataInvalid):
        graph.load(og.Batch(nodes={"Person": bad}), mode="append")
    assert staged == ["judged"] and not files(root)


def test_what_may_leave_rows_out_or_only_asks_writes_nothing_ahead(
    root: Path, staged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: Any, **named: Any) -> Any:
        raise AssertionError("staged ahead")

    monkeypatch.setattr(staging_plan, "_stage", never)
    with og.open(root) as graph:
        graph.load(batch(), mode="append", dry_run=True)
        assert graph.check(batch(), mode="append").ok
        assert not files(root) and "stage" not in staged
        graph.load(batch(), mode="append", on_bad_row="quarantine")
        graph.load(batch(), mode="merge")
        graph.load(batch(), mode="overwrite")


def test_a_disk_that_fails_fails_the_load(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Tables.stage_append

    def fails(self: Tables, handle: Any, *args: Any, **named: Any) -> Any:
        if "knows" in handle.uri.lower():
            raise og.errors.StoreUnavailable("no")
        return stage(self, handle, *args, **named)

    with og.open(root) as graph:
        monkeypatch.setattr(Tables, "stage_append", fails)
        with pytest.raises(og.errors.StoreUnavailable):
            graph.load(batch(), mode="append")
        # What is wrong with the rows is said first: a repeat would not help.
        with pytest.raises(DataInvalid):
            graph.load(batch(end="nobody"), mode="append")
        assert not files(root)
        monkeypatch.setattr(Tables, "stage_append", stage)
        graph.load(batch(), mode="append")
        assert graph.snapshot().count("Person") == ROWS


def test_a_rival_in_between_writes_no_file_twice(
    root: Path, staged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = load_module.validate
    rivals = [True]

    def judged_beside_a_rival(*args: Any, **named: Any) -> Any:
        if rivals:
            rivals.clear()
            with og.open(root) as other:
                other.load([{"type": "Person", "data": {"name": "rival"}}], mode="append")
            staged.clear()
        return noted(*args, **named)

    monkeypatch.setattr(load_module, "validate", judged_beside_a_rival)
    with og.open(root) as graph:
        graph.load(batch(), mode="append")
        assert staged.count("stage") <= 2  # those of the first plan may have been begun before
        assert graph.snapshot().count("Person") == ROWS + 1
        assert len(files(root)) == 3
        assert graph.verify(deep=True).ok


def test_a_branch_gets_lines_of_its_own_first(root: Path) -> None:
    with og.open(root) as graph:
        graph.load(batch(), mode="append")
        graph.branches.create("review")
        graph.load(batch(ROWS), mode="append", branch="review")
        assert (graph.snapshot("review").count("Person"), graph.snapshot().count("Person")) == (2 * ROWS, ROWS)
        assert graph.verify(deep=True).ok


def test_what_is_written_beside_the_checks_is_counted_with_them(root: Path) -> None:
    seen: list[og.Progress] = []
    with og.open(root) as graph:
        graph.load(batch(), mode="append", progress=seen.append)
    checking = [one for one in seen if one.phase == "checking"]
    assert checking and checking[-1].done == checking[-1].total == 4 * ROWS
    assert [one for one in seen if one.phase == "writing"][-1].fraction == 1.0
    assert all(one.total is None or one.done <= one.total for one in seen)
