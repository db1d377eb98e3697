"""Every way to name a state of the graph, at every door that takes one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

import omnigraph as og
from omnigraph.commit.engine import Engine
from omnigraph.core.clock import ManualClock
from omnigraph.core.errors import InvalidInput, NotFound, Reclaimed
from omnigraph.manifest import history
from omnigraph.read.places import snapshot_at
from omnigraph.store import open_store
from tests.component.read.material import new_graph, put
from tests.component.upkeep.material import engine_of, make, people


@pytest.fixture
def graph(local_root: str) -> og.Graph:
    """Two people on main, a third and a branch `dev` with a fourth."""
    graph = make(local_root, 2)
    graph.checkpoints.create("two")
    graph.load(people("cid"), mode="append")
    graph.branches.create("dev")
    graph.load(people("dan"), mode="append", branch="dev")
    return graph


def count(graph: og.Graph, at: Any, branch: str = "main") -> int:
    return graph.snapshot(branch, at=at).count("Person")


def test_a_state_is_found_by_each_of_its_names(graph: og.Graph) -> None:
    second = graph.commits()[1]
    assert count(graph, "two") == count(graph, "checkpoint:two") == 2
    assert count(graph, "main") == count(graph, "branch:main") == 3
    assert count(graph, "dev") == 4
    for at in (second.id, f"commit:{second.id}", second.id[:20], f"commit:{second.id[:22]}"):
        assert count(graph, at) == 2
    for at in (second.created_at, second.created_at.isoformat(), f"time:{second.created_at.isoformat()}"):
        assert count(graph, at) == 2
    assert count(graph, "0s ago") == 3 and count(graph, "0s ago", "dev") == 4
    naive = second.created_at.replace(tzinfo=None)
    assert count(graph, naive) == 2


def test_a_commit_of_any_line_is_found_by_its_whole_id(graph: og.Graph) -> None:
    on_dev = graph.commits("dev", limit=1)[0].id
    snap = graph.snapshot(at=on_dev)
    assert (snap.count("Person"), snap.branch, snap.commit_id) == (4, "dev", on_dev)
    with pytest.raises(NotFound, match="history of main"):
        graph.snapshot(at=on_dev[:24])
    assert count(graph, on_dev[:24], "dev") == 4
    graph.branches.delete("dev")
    assert og.open(graph.uri).snapshot(at=on_dev).count("Person") == 4, "its line is there until a cleanup"


def test_before_the_fork_a_time_means_a_commit_of_the_parent(graph: og.Graph) -> None:
    second = graph.commits()[1]
    snap = graph.snapshot("dev", at=second.created_at)
    assert (snap.commit_id, snap.branch) == (second.id, "dev")


def test_a_merged_commit_is_no_state_of_the_branch_that_it_was_merged_into(graph: og.Graph) -> None:
    on_dev = graph.commits("dev", limit=1)[0]
    before = graph.commits()[0]
    graph.branches.merge("dev")
    assert on_dev.id in [one.id for one in graph.commits()]
    assert graph.snapshot(at=on_dev.created_at).commit_id == before.id
    assert count(graph, on_dev.id[:24]) == 4, "it is in the history all the same"


def test_a_time_before_everything_says_when_the_graph_began(graph: og.Graph) -> None:
    first = graph.commits()[-1]
    with pytest.raises(NotFound, match=first.id):
        graph.snapshot(at=first.created_at - dt.timedelta(seconds=1))
    assert count(graph, "2400-01-01") == 3


def test_a_beginning_that_fits_several_commits_is_refused(local_root: str) -> None:
    engine = new_graph(local_root)
    stopped = Engine(open_store(engine.uri), clock=ManualClock())
    ids = [put(stopped, "Person", [{"id": name, "name": name}]) for name in "ab"]
    assert ids[0][:10] == ids[1][:10], "they were made in one millisecond"
    with pytest.raises(InvalidInput, match="2 commits of main begin with") as caught:
        snapshot_at(engine, ids[0][:10])
    assert ids[0] in caught.value.hint and ids[1] in caught.value.hint
    assert snapshot_at(engine, ids[0][:25] if ids[0][:25] != ids[1][:25] else ids[0]).count("Person") == 1
    with pytest.raises(NotFound, match="begins with"):
        snapshot_at(engine, "7ZZZZZZZZZ")


def test_the_beginning_of_an_id_is_found_in_a_large_archive(local_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = new_graph(local_root)
    ids = [put(engine, "Person", [{"id": f"p{k}", "name": f"p{k}"}]) for k in range(140)]
    monkeypatch.setattr(history, "WHOLE_ROWS_MAX", 1)  # as after internal compaction
    for k in (0, 70, 139):
        found = engine.history.starting(engine.latest("main"), ids[k][:22])
        assert ids[k] in found and all(one.startswith(ids[k][:22]) for one in found)


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("tow", "checkpoint 'two'"),
        ("Dev", "branch 'dev'"),
        ("branch:two", "branch 'main'"),
        ("zzzzzz", "checkpoint 'two'"),
    ],
)
def test_a_name_that_means_nothing_is_answered_with_what_exists(graph: og.Graph, wrong: str, hint: str) -> None:
    with pytest.raises(NotFound) as caught:
        graph.snapshot(at=wrong)
    assert hint in caught.value.hint or "branch list" in caught.value.hint


def test_a_name_of_two_things_is_refused_until_it_says_which(graph: og.Graph) -> None:
    graph.checkpoints.create("dev")
    with pytest.raises(InvalidInput, match="checkpoint and a branch"):
        graph.snapshot(at="dev")
    assert (count(graph, "branch:dev"), count(graph, "checkpoint:dev")) == (4, 3)


@pytest.mark.parametrize("bad", ["", 7, "commit:x", "time:x", b"main"])
def test_what_names_no_place_is_refused_at_every_door(graph: og.Graph, bad: Any) -> None:
    doors: list[Callable[[], object]] = [
        lambda: graph.snapshot(at=bad),
        lambda: graph.sql("select 1", at=bad),
        lambda: graph.schema.show(at=bad),
        lambda: graph.branches.create("new", at=bad),
        lambda: graph.checkpoints.create("new", at=bad),
        lambda: graph.restore(bad),
        lambda: graph.revert(bad),
        lambda: graph.branches.merge("dev", at=bad),
    ]
    for door in doors:
        with pytest.raises(InvalidInput):
            door()


def test_every_door_takes_every_place(graph: og.Graph) -> None:
    second = graph.commits()[1]
    assert graph.sql('select count(*) from "Person"', at="two").fetchall() == [(2,)]
    assert graph.schema.show(at="two").schema_id == graph.schema.show().schema_id
    for k, at in enumerate(("two", second.id[:20], second.created_at)):
        info = graph.branches.create(f"b{k}", at=at)
        assert info.parent is not None and info.parent.commit_id == second.id
        made = graph.checkpoints.create(f"c{k}", at=at)
        assert (made.commit_id, made.branch) == (second.id, "main")
    assert graph.branches.create("e", at="dev").parent.commit_id == graph.snapshot("dev").commit_id  # type: ignore[union-attr]
    plan = graph.restore("two", dry_run=True)
    assert list(plan.tables) == ["node:Person"]
    with pytest.raises(InvalidInput, match="not the id of a commit"):
        graph.revert("two")
    last = graph.commits()[0].id
    assert graph.revert(last[:24], dry_run=True).commits == (last,)


def test_a_restore_takes_a_state_of_another_branch(graph: og.Graph) -> None:
    graph.restore("dev")
    assert count(graph, "main") == 4
    graph.restore(graph.commits()[1].created_at, "main")
    assert count(graph, "main") == 3
    assert graph.verify(deep=True).ok


def test_a_restore_with_a_key_is_repeated_with_the_same_place(graph: og.Graph) -> None:
    time_ = graph.commits()[1].created_at
    first = graph.restore(time_, idempotency_key="k")
    again = graph.restore(f"time:{time_.isoformat()}", idempotency_key="k")
    assert (again.commit_id, again.replayed) == (first.commit_id, True)


def test_a_merge_takes_a_commit_of_its_source_only(graph: og.Graph) -> None:
    on_dev = graph.commits("dev", limit=1)[0].id
    graph.branches.create("other")
    graph.load(people("eva"), mode="append", branch="other")
    for at in ("other", graph.snapshot("other").commit_id):
        with pytest.raises(InvalidInput, match="history of 'dev'"):
            graph.branches.merge("dev", at=at)
    graph.load(people("fay"), mode="append", branch="dev")
    graph.branches.merge("dev", at=on_dev[:24])
    assert count(graph, "main") == 4


def test_a_checkpoint_is_of_the_line_that_its_commit_was_made_on(graph: og.Graph) -> None:
    on_dev = graph.snapshot("dev").commit_id
    made = graph.checkpoints.create("d", at=on_dev)
    assert (made.branch, made.commit_id) == ("dev", on_dev)
    fresh = graph.branches.create("fresh")
    made = graph.checkpoints.create("f", branch="fresh")
    assert made.identity == fresh.identity
    graph.branches.delete("dev")
    graph.cleanup(keep=1, min_age="0s", confirm=True)
    assert count(graph, "d") == 4 and graph.verify(deep=True).ok


def test_a_place_that_was_cleaned_up_says_what_is_left(graph: og.Graph) -> None:
    first = graph.commits()[-2]
    graph.cleanup(keep=1, min_age="0s", confirm=True)
    for at in (first.id, first.id[:24], first.created_at):
        with pytest.raises(Reclaimed) as caught:
            og.open(graph.uri).snapshot(at=at)
        assert caught.value.oldest is not None
    assert count(graph, "two") == 2, "a checkpoint keeps its state"


def test_a_snapshot_of_another_line_is_pickled_and_notices_a_cleanup(graph: og.Graph) -> None:
    import pickle

    snap = graph.snapshot(at=graph.snapshot("dev").commit_id)
    assert pickle.loads(pickle.dumps(snap)).count("Person") == 4


def test_a_whole_id_is_looked_up_without_asking_for_names(graph: og.Graph) -> None:
    from omnigraph.core.meter import Meter
    from omnigraph.read.places import find_place

    engine = engine_of(graph)
    meter = Meter()
    find_place(engine, graph.snapshot().commit_id, meter=meter)
    assert meter.snapshot().requests == 0
