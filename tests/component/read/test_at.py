"""A commit id opens the state that the commit left, or says why it does not."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from pathlib import Path
from typing import Any

import lance
import pytest

from omnigraph.commit.engine import Engine
from omnigraph.core.errors import Corruption, InvalidInput, NotFound, Reclaimed
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import AbortRow
from omnigraph.manifest.state import Change
from omnigraph.read.commits import find_commit, list_commits
from omnigraph.read.places import snapshot_at
from omnigraph.read.snapshot import snapshot_of_branch
from omnigraph.store import open_store
from tests.component.read.material import SOCIAL, cold, new_graph, people, put


@pytest.fixture
def graph(local_root: str) -> tuple[Engine, list[str]]:
    """A graph and its commits, oldest first; commit k has k people."""
    engine = new_graph(local_root)
    first = engine.latest("main").state.head.commit_id
    return engine, [first, *(put(engine, "Person", people(f"p{k}"), actor="ab"[k % 2]) for k in range(6))]


def swap(engine: Engine, change: Change) -> None:
    held = engine.latest("main")
    written = engine.manifest.write(held, change)
    engine.remember("main", engine.manifest.swap(held, written, uuid="0" * 31 + "1"))


def manifest_file(root: str, version: int) -> str:
    return f"{root}/__manifest/_versions/{(1 << 64) - 1 - version:020d}.manifest"


def remove_versions(engine: Engine, *versions: int) -> None:
    lance.dataset(f"{engine.uri}/__manifest").cleanup_old_versions(versions=list(versions))


def reclaim(engine: Engine, *versions: int) -> None:
    """What a cleanup does to ``__manifest``: the boundary first, then the versions."""
    identity = engine.latest("main").state.identity
    engine.boundary.raise_to(identity, max(versions))
    remove_versions(engine, *versions)


def test_each_commit_opens_as_it_was(graph: tuple[Engine, list[str]]) -> None:
    engine, commits = graph
    for opened in (engine, cold(engine)):
        for k, commit_id in enumerate(commits):
            snap = snapshot_at(opened, commit_id)
            assert snap.commit_id == commit_id
            assert snap.count("Person") == k
            assert [row["id"] for row in snap.head("Person")] == [f"p{n}" for n in range(k)]


def test_commits_in_the_archive_open_as_well(local_root: str) -> None:
    engine = new_graph(local_root)
    commits = [put(engine, "Person", people(f"p{k}")) for k in range(140)]
    opened = cold(engine)
    assert len(opened.latest("main").state.tail) < 140
    for k in (0, 5, 70, 139):
        assert snapshot_at(opened, commits[k]).count("Person") == k + 1
    assert [c.id for c in list_commits(opened)][:-1] == commits[::-1]
    assert find_commit(opened, commits[0]).parents != ()


def test_an_unknown_commit_is_not_found(graph: tuple[Engine, list[str]]) -> None:
    engine, commits = graph
    for unknown in ("01ARZ3NDEKTSV4RRFFQ69G5FAV", commits[0].lower(), "'", "x" * 5000):
        with pytest.raises(NotFound, match="history"):
            snapshot_at(engine, unknown)
        with pytest.raises(NotFound):
            find_commit(engine, unknown)
    with pytest.raises(InvalidInput):
        snapshot_at(engine, 7)  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="branch"):
        snapshot_at(engine, commits[0], branch="dev")


def test_an_aborted_commit_is_not_found_and_not_listed(graph: tuple[Engine, list[str]]) -> None:
    engine, commits = graph
    aborted = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    swap(engine, Change(history=(AbortRow(aborted, aborted, None, 3, 0),)))
    with pytest.raises(NotFound, match="aborted"):
        snapshot_at(engine, aborted)
    assert [c.id for c in list_commits(engine)] == commits[::-1]
    # A swap that is no commit leaves the head commit, and the snapshot of it, where they were.
    assert snapshot_at(cold(engine), commits[-1]).count("Person") == 6


def test_a_reclaimed_commit_names_the_oldest_that_is_left(graph: tuple[Engine, list[str]]) -> None:
    engine, commits = graph
    reclaim(engine, 1, 2, 4)
    for opened in (cold(engine), engine):
        opened.tables.forget(opened.manifest.ref(None))
        for gone in (0, 1, 3):
            with pytest.raises(Reclaimed, match="cleaned up") as caught:
                snapshot_at(opened, commits[gone])
            assert caught.value.oldest == commits[2]
            assert commits[2] in caught.value.hint
        # Below the boundary, retained: it opens and says its id.
        assert snapshot_at(opened, commits[2]).count("Person") == 2
        assert snapshot_at(opened, commits[6]).count("Person") == 6


def test_a_version_that_is_missing_above_the_boundary_is_corruption(graph: tuple[Engine, list[str]]) -> None:
    engine, commits = graph
    remove_versions(engine, 3)
    with pytest.raises(Corruption, match="version 3") as caught:
        snapshot_at(cold(engine), commits[2])
    assert caught.value.version == 3


def test_a_version_that_holds_another_commit_is_not_believed(graph: tuple[Engine, list[str]], tmp_path: Path) -> None:
    """A late writer can take the number of a version that was cleaned up."""
    engine, commits = graph
    stranger = f"{tmp_path}/stranger"
    shutil.copytree(engine.uri, stranger)
    for version in range(3, 8):
        os.unlink(manifest_file(stranger, version))
    for k in range(2):
        put(Engine(open_store(stranger)), "Company", [{"id": f"c{k}", "name": f"c{k}"}])
    shutil.copytree(f"{stranger}/__manifest/data", f"{engine.uri}/__manifest/data", dirs_exist_ok=True)
    shutil.copy(manifest_file(stranger, 3), manifest_file(engine.uri, 3))
    with pytest.raises(Corruption, match="belongs to"):
        snapshot_at(cold(engine), commits[2])
    engine.boundary.raise_to(engine.latest("main").state.identity, 3)
    with pytest.raises(Reclaimed):
        snapshot_at(cold(engine), commits[2])


def test_a_held_snapshot_whose_files_a_cleanup_took_says_so(graph: tuple[Engine, list[str]]) -> None:
    engine, commits = graph
    opened = cold(engine)
    held = snapshot_at(opened, commits[2])
    table = lance.dataset(held.tables["node:Person"].uri)
    table.cleanup_old_versions(versions=[held.tables["node:Person"].version])
    with pytest.raises(Corruption):  # nobody has announced it
        held.to_arrow("Person")
    reclaim(engine, 1, 2, 3)
    with pytest.raises(Reclaimed) as caught:
        snapshot_at(cold(engine), commits[2])
    with pytest.raises(Reclaimed) as again:
        held.to_arrow("Person")
    assert again.value.oldest == caught.value.oldest == commits[3]


# --- the list -----------------------------------------------------------------------------------------------------------


def test_commits_are_listed_newest_first(graph: tuple[Engine, list[str]]) -> None:
    engine, commits = graph
    listed = list_commits(engine)
    assert [c.id for c in listed] == commits[::-1]
    assert [c.id for c in list_commits(engine, limit=2)] == commits[:-3:-1]
    assert [c.id for c in list_commits(engine, actor="a")] == commits[5::-2][:3]
    assert [c.id for c in list_commits(engine, actor="a", limit=1)] == [commits[5]]
    assert list_commits(engine, limit=0) == list_commits(engine, actor="nobody") == []
    with pytest.raises(InvalidInput):
        list_commits(engine, limit=-1)
    with pytest.raises(NotFound):
        list_commits(engine, branch="dev")


def test_a_commit_says_what_it_did(graph: tuple[Engine, list[str]]) -> None:
    engine, commits = graph
    commit = find_commit(engine, commits[3])
    assert commit == next(c for c in list_commits(engine) if c.id == commits[3])
    assert (commit.parents, commit.actor, commit.kind, commit.manifest_version) == ((commits[2],), "a", "load", 4)
    assert commit.created_at.tzinfo is dt.UTC
    assert abs(commit.created_at - dt.datetime.now(dt.UTC)) < dt.timedelta(hours=1)
    counts = commit.tables["node:Person"]
    assert (counts.inserted, counts.version) == (1, 4)
    shown: dict[str, Any] = commit.to_dict()
    assert shown["tables"] == {"node:Person": {"version": 4, "inserted": 1, "updated": 0, "deleted": 0, "unchanged": 0}}
    assert dt.datetime.fromisoformat(shown["created_at"]) == commit.created_at
    assert commits[3] in repr(commit)
    assert commits[3] in list_commits(engine)._repr_html_()
    root = find_commit(engine, commits[0])
    assert (root.kind, root.parents, root.actor) == ("init", (), "founder")
    assert SOCIAL.count("edge") == sum(key.startswith("edge:") for key in root.tables)


def test_reading_leaves_the_branch_as_it_was(graph: tuple[Engine, list[str]]) -> None:
    engine, commits = graph
    before = engine.manifest.open_latest(None, Meter()).version
    snapshot_of_branch(engine).export()
    snapshot_at(engine, commits[1]).export()
    assert engine.manifest.open_latest(None, Meter()).version == before
