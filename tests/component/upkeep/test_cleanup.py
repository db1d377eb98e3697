"""Cleanup deletes exactly what its plan says, keeps what anybody needs, and refuses where it cannot be sure."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import errors
from omnigraph.commit.engine import MAIN
from omnigraph.commit.plan import Owner
from omnigraph.core import failpoints
from omnigraph.core.clock import ManualClock, SystemClock
from omnigraph.core.ids import new_ulid
from omnigraph.distributed.staging_txn import StagingTxn
from omnigraph.graph import Graph
from omnigraph.store import layout
from omnigraph.table.dataset import V2_MANIFEST_MAX, TableRef
from omnigraph.table.version_list import version_files
from omnigraph.upkeep import cleanup as cleaning
from omnigraph.wire.cleanup import CleanupPlan, CleanupReport
from tests.component.upkeep.material import displace, engine_of, knows, leave_ticket, make, people, pin_of, ref_of

DAY_S = 86_400
KEYS = ("node:Person", "edge:Knows", "__manifest")


@pytest.fixture
def graph(local_root: str) -> Iterator[Graph]:
    with make(local_root, commits=8) as made:
        yield made


def versions(graph: Graph, key: str) -> list[int]:
    engine = engine_of(graph)
    ref = engine.manifest.ref(None) if key == "__manifest" else ref_of(graph, key)
    return [file.version for file in version_files(engine.store, ref)]


def listing(graph: Graph) -> list[tuple[str, int]]:
    return [(entry.key, entry.size) for entry in engine_of(graph).store.list("")]


def clean(graph: Graph, keep: int = 1, **rest: Any) -> CleanupReport:
    report = graph.cleanup(keep=keep, min_age="0s", confirm=True, **rest)
    assert isinstance(report, CleanupReport)
    return report


def opens(graph: Graph, commit_id: str) -> bool:
    try:
        snapshot = graph.snapshot(at=commit_id)
        for name in ("Person", "Knows", "Place", "LivesIn"):
            assert snapshot.to_arrow(name).num_rows == snapshot.count(name)
    except errors.Reclaimed:
        return False
    return True


# --- what goes and what stays -------------------------------------------------------------------------------------------


def test_the_newest_commits_stay_and_open_and_the_others_are_reclaimed(any_root: str) -> None:
    with make(any_root, commits=6) as graph:
        ids = [commit.id for commit in graph.commits()]
        content = graph.snapshot().to_arrow("Person")
        report = clean(graph, keep=3)
        assert report.errors == () and report.versions > 0
        assert [opens(graph, one) for one in ids] == [True] * 3 + [False] * 4
        assert graph.snapshot().to_arrow("Person").equals(content)
        assert [commit.id for commit in graph.commits()] == ids  # history is for ever
        assert graph.verify(deep=True).problems == ()
        with og.open(any_root) as cold:
            assert [opens(cold, one) for one in ids] == [True] * 3 + [False] * 4
            cold.load(people("next"), mode="append")
            assert cold.verify(deep=True).problems == ()


def test_exactly_the_versions_of_the_plan_are_deleted(graph: Graph) -> None:
    plan = graph.plan_cleanup(keep=2, min_age="0s")
    before = {key: versions(graph, key) for key in KEYS}
    doomed = {line.key: set(line.doomed) for line in plan.lines}
    graph.cleanup(plan)
    for key in KEYS:
        left = set(versions(graph, key))
        assert set(before[key]) - left == doomed[key]
        assert doomed[key]


def test_a_plan_writes_nothing_and_without_confirm_nothing_is_deleted(graph: Graph) -> None:
    before = listing(graph)
    plan = graph.cleanup(keep=1, min_age="0s")
    assert isinstance(plan, CleanupPlan) and plan.versions > 0
    assert listing(graph) == before


def test_a_plan_says_why(graph: Graph) -> None:
    plan = graph.plan_cleanup(keep=2, min_age="0s")
    said = json.loads(json.dumps(plan.to_dict()))
    [manifest] = [table for table in said["tables"] if table["table_key"] == "__manifest"]
    assert manifest["doomed"] == "1-7" and manifest["versions"] == 7
    assert "older than what stays" in manifest["reason"]
    assert said["oldest"] == {MAIN: graph.commits()[1].id}
    assert "1-7" in repr(plan) and "<table>" in plan._repr_html_()


def test_a_second_run_finds_nothing_and_writes_nothing(graph: Graph) -> None:
    clean(graph, keep=2)
    before = listing(graph)
    report = clean(graph, keep=2)
    assert (report.versions, report.run) == (0, None)
    assert listing(graph) == before


def test_what_is_younger_than_the_minimum_age_stays(graph: Graph) -> None:
    assert graph.plan_cleanup(keep=1).empty
    assert graph.plan_cleanup(older_than="0s", min_age="1h").empty


def test_a_snapshot_that_somebody_may_still_hold_stays_whole(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head was old when it was replaced a moment ago: a reader may have taken it in between."""
    store = engine_of(graph).store
    _age(graph, 7200)
    held = graph.snapshot()
    graph.load(people("new"), mode="append")
    graph.load(people("newer"), mode="append")
    report = graph.cleanup(keep=1, min_age="1h", confirm=True)
    assert isinstance(report, CleanupReport) and report.versions > 0
    assert opens(graph, held.commit_id)
    assert held.to_arrow("Person").num_rows == 8
    assert store.exists("__probe")


def _age(graph: Graph, seconds: int) -> None:
    """As if nothing on the disk had been touched for so long."""
    for file in Path(graph.uri).rglob("*"):
        if file.is_file():
            then = file.stat().st_mtime - seconds
            os.utime(file, (then, then))


def test_versions_between_the_retained_ones_stay_openable_after_upkeep(graph: Graph) -> None:
    graph.optimize()
    ids = [commit.id for commit in graph.commits()]
    clean(graph, keep=4)
    assert [opens(graph, one) for one in ids[:6]] == [True] * 4 + [False] * 2
    assert not graph.optimize().changed
    assert graph.verify(deep=True).problems == ()


def test_the_error_for_a_reclaimed_commit_says_who_when_and_why(graph: Graph) -> None:
    ids = [commit.id for commit in graph.commits()]
    graph.cleanup(keep=2, min_age="0s", confirm=True, actor="janitor")
    with pytest.raises(errors.Reclaimed) as caught:
        graph.snapshot(at=ids[-1])
    error = caught.value
    assert error.oldest == ids[1]
    assert error.cleaned_by == "janitor" and "2 newest commits" in error.policy
    assert f"run={error.cleanup} by=janitor at=20" in error.message
    record = json.loads(engine_of(graph).store.get(layout.cleanup_key(error.cleanup)) or b"")
    assert (record["actor"], record["state"]) == ("janitor", "done")
    assert {table["table_key"] for table in record["tables"]} == set(KEYS)


# --- roots --------------------------------------------------------------------------------------------------------------


def test_a_checkpoint_keeps_its_commit_until_it_is_deleted(any_root: str) -> None:
    with make(any_root, commits=6) as graph:
        ids = [commit.id for commit in graph.commits()]
        graph.checkpoints.create("week", at=ids[4])
        clean(graph)
        assert [opens(graph, one) for one in ids] == [True, False, False, False, True, False, False]
        assert graph.verify(deep=True).problems == ()
        again = graph.checkpoints.create("week-2", at=ids[4])  # below the boundary, but kept all along
        assert again.commit_id == ids[4]
        graph.checkpoints.delete("week")
        clean(graph)
        assert opens(graph, ids[4])
        graph.checkpoints.delete("week-2")
        clean(graph)
        assert not opens(graph, ids[4])


def test_checkpoints_are_listed_by_name_and_names_are_taken_once(graph: Graph) -> None:
    head = graph.snapshot().commit_id
    graph.checkpoints.create("b")
    graph.checkpoints.create("a", at=graph.commits()[3].id)
    assert [(one.name, one.commit_id == head) for one in graph.checkpoints.list()] == [("a", False), ("b", True)]
    assert json.loads(json.dumps(graph.checkpoints.list().to_dict()))["checkpoints"][0]["name"] == "a"
    with pytest.raises(errors.AlreadyExists):
        graph.checkpoints.create("a")
    with pytest.raises(errors.NotFound):
        graph.checkpoints.delete("c")
    with pytest.raises(errors.NotFound):
        graph.checkpoints.create("c", at=new_ulid())


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".", "ä", "a b", "x" * 129, "a\x00"])
def test_names_of_checkpoints_that_are_none_are_refused(graph: Graph, name: str) -> None:
    before = listing(graph)
    with pytest.raises(errors.InvalidInput):
        graph.checkpoints.create(name)
    assert listing(graph) == before


def test_a_commit_that_was_cleaned_up_cannot_be_pinned(graph: Graph) -> None:
    ids = [commit.id for commit in graph.commits()]
    clean(graph)
    with pytest.raises(errors.Reclaimed):
        graph.checkpoints.create("late", at=ids[-1])
    assert graph.checkpoints.list() == ()


def test_a_checkpoint_made_while_a_cleanup_runs_is_kept_or_refused(graph: Graph) -> None:
    """Before the boundary: the second look spares it. After: it is taken back. At no place is it lost."""
    places = ("cleanup.marked", "cleanup.bounded", "cleanup.recorded", "cleanup.before_delete")
    for place in places:
        graph.load(people(f"at {place}") + knows(("p0", f"at {place}"))[:0], mode="append")
        target = graph.snapshot().commit_id
        graph.load(people(f"after {place}"), mode="append")
        with og.open(graph.uri) as other:
            pinned: list[bool] = []

            def pin(
                other: Graph = other, place: str = place, target: str = target, pinned: list[bool] = pinned, **_: object
            ) -> None:
                try:
                    other.checkpoints.create(place.replace(".", "-"), at=target)
                    pinned.append(True)
                except errors.Reclaimed:
                    pinned.append(False)

            with failpoints.armed(place, pin):
                clean(graph)
        assert pinned == [place == "cleanup.marked"]
        assert opens(graph, target) == pinned[0]
    assert graph.verify(deep=True).problems == ()


def test_a_checkpoint_overtaken_by_a_cleanup_is_taken_back(graph: Graph) -> None:
    target = graph.commits()[3].id
    with og.open(graph.uri) as other, failpoints.armed("checkpoint.created", lambda **_: _sweep_past(other)):
        with pytest.raises(errors.Reclaimed, match="before it could be pinned"):
            graph.checkpoints.create("slow", at=target)
    assert graph.checkpoints.list() == ()


def _sweep_past(graph: Graph) -> None:
    """A cleanup that collected its roots before the checkpoint was there, and raises the boundary after."""
    engine = engine_of(graph)
    state = engine.latest(MAIN).state
    engine.boundary.raise_to(state.identity, state.version - 1)


def test_a_pending_write_exempts_its_tables_and_its_base(graph: Graph) -> None:
    engine = engine_of(graph)
    mine, engine.owner = engine.owner, Owner("elsewhere", "another-boot", 1, 1)
    with failpoints.armed("apply.before_commit", "raise"), pytest.raises(errors.OutcomeUnknown):
        graph.load(people("late"), mode="append")
    engine.owner = mine
    base = versions(graph, "__manifest")[-1]
    before = versions(graph, "node:Person")
    plan = graph.plan_cleanup(keep=1, min_age="0s")
    lines = {line.key: line for line in plan.lines}
    assert lines["node:Person"].doomed == () and "pending load" in str(lines["node:Person"].exempt)
    assert base not in lines["__manifest"].doomed
    graph.cleanup(plan)
    assert versions(graph, "node:Person") == before
    assert len(versions(graph, "edge:Knows")) == 1


def test_an_intent_left_behind_is_recovered_first(graph: Graph) -> None:
    with failpoints.armed("publish.before_swap", "raise"), pytest.raises(errors.OutcomeUnknown) as caught:
        graph.load(people("late"), mode="append")
    clean(graph)
    assert graph.outcome(caught.value.commit_id).state == "landed"
    assert len(graph.intents()) == 0
    assert graph.verify(deep=True).clean


def test_a_live_staged_batch_keeps_what_came_after_its_base(graph: Graph) -> None:
    graph.begin()
    base = pin_of(graph, "node:Person").version
    for number in range(3):
        graph.load(people(f"n{number}"), mode="append")
    clean(graph)
    assert versions(graph, "node:Person") == [base + 1, base + 2, base + 3]


def old_batch(graph: Graph) -> tuple[StagingTxn, str]:
    """A staged batch that was left for more than a day, and its file."""
    engine = engine_of(graph)
    txn = graph.begin()
    table = txn.table("node:Person")
    handle = engine.tables.open(ref_of(graph, "node:Person"), table.version)
    rows = pa.table({**{name: ["new"] for name in ("id", "name")}, "age": pa.array([1], pa.int32()), "bio": [None]})
    staged = engine.tables.stage_append(handle, rows.select(handle.schema.names).cast(handle.schema))
    txn.add(table.describe(staged.operation.fragments))
    file = f"{pin_of(graph, 'node:Person').location}/data/{staged.operation.fragments[0].files[0].path}"
    record = Path(graph.uri) / layout.staging_key(txn.id)
    assert record.exists() and engine.store.exists(file)
    then = record.stat().st_mtime - 25 * 3600
    os.utime(record, (then, then))
    return txn, file


def test_a_batch_that_nobody_loaded_for_a_day_is_given_up_in_two_runs(graph: Graph) -> None:
    engine = engine_of(graph)
    txn, file = old_batch(graph)
    record = Path(graph.uri) / layout.staging_key(txn.id)
    assert graph.plan_cleanup(keep=1, min_age="0s").expired_staging == (txn.id,)
    clean(graph)
    assert not record.exists() and engine.store.exists(file)
    graph.load(people("more"), mode="append")
    clean(graph)
    assert not engine.store.exists(file)
    assert graph.verify(deep=True).problems == ()


def test_a_batch_that_was_given_up_is_not_loaded_while_its_files_are_deleted(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    txn, file = old_batch(graph)
    clean(graph)
    graph.load(people("more"), mode="append")
    real, refused = cleaning._loose, []

    def loose(*args: Any) -> set[str]:
        found = real(*args)
        for late in (txn.load_staged, lambda: txn.add(txn.staged)):
            try:
                late()
            except errors.NotFound as error:
                refused.append(error)
        return found

    monkeypatch.setattr(cleaning, "_loose", loose)
    clean(graph)
    assert len(refused) >= 1 and not engine_of(graph).store.exists(file)
    assert graph.snapshot().to_arrow("Person").num_rows == 9 and graph.verify(deep=True).problems == ()


def test_files_of_a_batch_stay_where_a_cleanup_is_of_some_branches_only(graph: Graph) -> None:
    """A writer on a branch that was not marked would not plan again."""
    _txn, file = old_batch(graph)
    graph.branches.create("side")
    clean(graph)
    for branches, stays in ((["main"], True), (None, False)):
        graph.load(people(f"more{stays}"), mode="append")
        graph.cleanup(keep=1, min_age="0s", branches=branches, confirm=True)
        assert engine_of(graph).store.exists(file) == stays


# --- garbage ------------------------------------------------------------------------------------------------------------


def test_datasets_and_forks_of_nobody_are_reclaimed_when_they_are_old_enough(any_root: str) -> None:
    with make(any_root, commits=2) as graph:
        engine = engine_of(graph)
        handle = engine.tables.open(ref_of(graph, "node:Person"), pin_of(graph, "node:Person").version)
        handle.create_branch(f"f-{new_ulid()}", handle.version)
        path = layout.table_path("node:Person", new_ulid())
        engine.tables.create_empty(TableRef(path), handle.schema)
        assert graph.plan_cleanup(keep=9, min_age="1h").orphans == ()
        report = clean(graph, keep=9)
        assert {orphan.path for orphan in report.orphans} == {path, pin_of(graph, "node:Person").location}
        assert engine.store.list(f"{path}/") == []
        assert graph.verify(deep=True).problems == ()
        assert graph.snapshot().count("Person") == 2


def test_files_of_a_write_that_died_are_reclaimed_when_they_are_old_enough(graph: Graph) -> None:
    """Lance spares a file that no version names for a week: it may be that of a living writer."""
    with failpoints.armed("apply.before_commit", "raise"), pytest.raises(errors.OutcomeUnknown):
        graph.load(people("late"), mode="append")
    graph.recover(grace_s=0)
    [left] = [problem for problem in graph.verify(deep=True).problems if problem.table_key == "node:Person"]
    graph.load(people("more"), mode="append")
    rows = graph.snapshot().to_arrow("Person").sort_by("id")
    clean(graph)
    assert left in graph.verify(deep=True).problems, "what is young may be somebody's"
    for file in (Path(graph.uri) / pin_of(graph, "node:Person").location).rglob("*"):
        then = file.stat().st_mtime - 8 * DAY_S
        os.utime(file, (then, then))
    graph.load(people("last"), mode="append")
    graph.load(people("very last"), mode="append")
    clean(graph)
    assert [problem for problem in graph.verify(deep=True).problems if problem.table_key == "node:Person"] == []
    assert graph.snapshot().to_arrow("Person").sort_by("id").num_rows == rows.num_rows + 2


def test_halves_of_files_that_interrupted_writes_left_are_reclaimed_after_a_week(graph: Graph) -> None:
    root, table = Path(graph.uri), pin_of(graph, "node:Person").location
    ours = (
        f"{table}/data/.tmpA1b2C3",
        f"{table}/_transactions/.tmpA1b2C3",
        f"{table}/_versions/18446744073709551000.manifest#1",
        "__manifest/_transactions/.tmpxyzXYZ",
        "__recovery/01M7RR1CBV94QP8CJZXCQJA3HF.json#7422",
        "__probe#5",
    )
    theirs = ("notes/.tmpA1b2C3", "nodes/mine/x#1", "mine#1", "__mine/x#1")
    for name in (*ours, *theirs):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"half")
    assert graph.plan_cleanup(keep=1, min_age="0s").unfinished_files == (), "what is young may be somebody's"
    for name in (*ours, *theirs):
        os.utime(root / name, (0, 0))
    plan = graph.plan_cleanup(keep=100, min_age="0s")
    assert [entry.key for entry in plan.unfinished_files] == sorted(ours) and not plan.empty
    assert "6 files of interrupted writes (24 B)" in repr(plan)
    assert plan.to_dict()["unfinished"] == {"files": 6, "bytes": 24}
    report = graph.cleanup(plan)
    assert (report.unfinished.files, report.unfinished.bytes, report.errors) == (6, 24, ())
    assert not any((root / name).exists() for name in ours)
    assert all((root / name).exists() for name in theirs), "what is not ours is not deleted"
    assert graph.plan_cleanup(keep=100, min_age="0s").empty


def test_what_is_not_ours_is_not_deleted(graph: Graph) -> None:
    store = engine_of(graph).store
    for key in ("nodes/notes.txt", "nodes/mine/data.bin", "edges/Other.lance/x", "elsewhere/y"):
        store.create(key, b"-")
    clean(graph)
    assert all(
        store.exists(key) for key in ("nodes/notes.txt", "nodes/mine/data.bin", "edges/Other.lance/x", "elsewhere/y")
    )


# --- refusals -----------------------------------------------------------------------------------------------------------


def refused(graph: Graph, act: Callable[[], object], reason: str) -> errors.Refused:
    """It is refused for this reason, and no version is gone."""
    before = {key: versions(graph, key) for key in KEYS}
    with pytest.raises(errors.Refused) as caught:
        act()
    assert caught.value.reason == reason
    assert all(set(before[key]) <= set(versions(graph, key)) for key in KEYS)
    return caught.value


@pytest.mark.parametrize("bad", [{}, {"keep": 0}, {"keep": -3}, {"older_than": "-1h"}, {"keep": 1, "min_age": "soon"}])
def test_a_cleanup_that_makes_no_sense_is_refused(graph: Graph, bad: dict[str, Any]) -> None:
    before = listing(graph)
    with pytest.raises(errors.InvalidInput):
        graph.cleanup(**bad, confirm=True)
    assert listing(graph) == before


def test_an_intent_that_does_not_read_refuses_everything(graph: Graph) -> None:
    engine_of(graph).store.create(layout.intent_key(new_ulid()), b"{")
    refused(graph, lambda: clean(graph), "unreadable-intent")


def test_a_checkpoint_that_does_not_read_refuses_everything(graph: Graph) -> None:
    engine_of(graph).store.create(layout.checkpoint_key("broken"), b"{")
    refused(graph, lambda: clean(graph), "unreadable-checkpoint")


def test_a_branch_that_is_not_there_refuses_everything(graph: Graph) -> None:
    with pytest.raises(errors.NotFound):
        graph.plan_cleanup(keep=1, branches=["main", "gone"])


def test_a_branch_whose_retained_commit_does_not_read_refuses_everything(graph: Graph) -> None:
    """What it names cannot be told, so nothing may go, neither of the manifest nor of any table."""
    oldest = graph.commits()[2]
    uri = graph.uri
    graph.close()
    [file] = Path(uri).glob(f"__manifest/_versions/{V2_MANIFEST_MAX - oldest.manifest_version:020d}.manifest")
    file.write_bytes(file.read_bytes()[:40])
    with og.open(uri) as opened:
        error = refused(opened, lambda: clean(opened, keep=3), "unreadable-branch")
        assert error.branch == "main"
        refused(opened, lambda: opened.plan_cleanup(keep=3, min_age="0s"), "unreadable-branch")
        assert opened.status().manifest.boundary == 0 and opened.snapshot().count("Person") == 8


def test_a_version_that_is_missing_between_retained_ones_refuses_everything(graph: Graph) -> None:
    """What stands below it is not known to be reclaimed: with the file back from a backup every commit is there."""
    commits = graph.commits()
    uri, lost = graph.uri, commits[2]
    graph.close()
    [file] = Path(uri).glob(f"__manifest/_versions/{V2_MANIFEST_MAX - lost.manifest_version:020d}.manifest")
    kept = file.read_bytes()
    file.unlink()
    with og.open(uri) as opened:
        error = refused(opened, lambda: clean(opened, keep=100), "unreadable-branch")
        assert error.version == lost.manifest_version and str(error.file).endswith(file.name)
    file.write_bytes(kept)
    with og.open(uri) as opened:
        for commit in commits:
            assert opened.snapshot(at=commit.id).commit_id == commit.id


def test_drift_is_healed_or_left_to_its_writer(graph: Graph) -> None:
    displace(graph, "node:Person")
    clean(graph)
    assert graph.verify(deep=True).problems == ()
    displace(graph, "node:Person")
    leave_ticket(graph, "node:Person")
    before = versions(graph, "node:Person")
    clean(graph)
    assert set(before) <= set(versions(graph, "node:Person"))


def test_drift_that_nothing_explains_refuses_everything(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.upkeep.cleanup.heal", lambda *_args, **_rest: {})
    displace(graph, "node:Person")
    refused(graph, lambda: clean(graph), "drift")


def test_a_missing_boundary_mark_stops_everything(graph: Graph) -> None:
    clean(graph, keep=3)
    graph.load(people("more"), mode="append")
    store = engine_of(graph).store
    for entry in store.list(layout.BOUNDARIES):
        store.delete(entry.key)
    error = refused(graph, lambda: clean(graph), "unreadable-branch")
    assert "boundary mark is missing" in error.message


@pytest.mark.parametrize("off_s", [3600, -3600, 86_400, -86_400])
def test_a_clock_that_is_off_refuses_everything(graph: Graph, off_s: int) -> None:
    wrong = ManualClock(SystemClock().now_us() + off_s * 1_000_000)
    plan = graph.plan_cleanup(keep=1, min_age="0s")
    engine_of(graph).clock = wrong
    error = refused(graph, lambda: graph.cleanup(plan), "clock")
    assert abs(abs(error.skew_s) - abs(off_s)) < 60
    if off_s < 0:
        refused(graph, lambda: graph.plan_cleanup(keep=1, min_age="0s"), "clock")


def test_a_read_only_graph_can_be_planned_and_not_cleaned(graph: Graph) -> None:
    with og.open(graph.uri, read_only=True) as reader:
        plan = reader.plan_cleanup(keep=1, min_age="0s")
        assert plan.versions > 0
        with pytest.raises(errors.InvalidInput, match="read-only"):
            reader.cleanup(plan)


def test_a_plan_of_another_graph_is_refused(graph: Graph, tmp_path: Path) -> None:
    plan = replace(graph.plan_cleanup(keep=1, min_age="0s"), uri="elsewhere")
    with pytest.raises(errors.InvalidInput, match="elsewhere"):
        graph.cleanup(plan)
    with pytest.raises(errors.InvalidInput):
        graph.cleanup(plan, keep=3)


# --- beside others, and cut anywhere ------------------------------------------------------------------------------------


def test_a_writer_whose_mark_is_old_plans_again(graph: Graph) -> None:
    with og.open(graph.uri) as other, failpoints.armed("publish.before_swap", lambda **_: clean_beside(other)):
        receipt = graph.load(people("beside"), mode="append")
    assert receipt.commit_id is not None
    assert graph.snapshot().get("Person", "beside") is not None
    assert graph.verify(deep=True).clean


def clean_beside(graph: Graph) -> None:
    clean(graph)


CUTS = (
    "cleanup.marked",
    "cleanup.bounded",
    "cleanup.recorded",
    "cleanup.before_delete",
)


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("place", CUTS)
def test_a_cleanup_that_stops_anywhere_harms_nothing_and_can_be_repeated(graph: Graph, place: str, at: int) -> None:
    ids = [commit.id for commit in graph.commits()]
    with failpoints.armed(place, "raise", at=at):
        try:
            clean(graph, keep=2)
        except failpoints.FailpointHit:
            pass
    assert all(opens(graph, one) for one in ids[:2])
    for one in ids[2:]:
        opens(graph, one)  # opens whole, or is reclaimed; anything else raises
    report = graph.verify(deep=True)
    assert report.ok, report
    clean(graph, keep=2)
    assert [opens(graph, one) for one in ids] == [True] * 2 + [False] * (len(ids) - 2)
    graph.load(people("next"), mode="append")
    assert graph.verify(deep=True).problems == ()


def test_two_cleaners_never_move_the_boundary_down(graph: Graph) -> None:
    plan = graph.plan_cleanup(keep=6, min_age="0s")
    with og.open(graph.uri) as other, failpoints.armed("cleanup.marked", lambda **_: clean(other, keep=1)):
        report = graph.cleanup(plan)
    assert isinstance(report, CleanupReport)
    engine = engine_of(graph)
    state = engine.latest(MAIN).state
    assert engine.boundary.value(state.identity) == state.head.boundary >= report.boundaries.get(MAIN, 1)
    assert opens(graph, state.head.commit_id)
    assert graph.verify(deep=True).problems == ()
