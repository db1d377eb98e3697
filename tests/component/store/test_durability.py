"""What the store syncs, seen in the calls of a child and on a disk that fails."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from omnigraph.core import failpoints
from omnigraph.core.errors import StoreUnavailable
from omnigraph.store import durability, open_store
from omnigraph.store.durability import SyncFailed, forget_failures, sync_everything, sync_paths
from omnigraph.testing.calls import Call, CallWatch, give_notice
from omnigraph.testing.children import Child


@pytest.fixture(autouse=True)
def _forgotten(tmp_path: Path) -> Iterator[None]:
    yield
    failpoints.disarm()
    forget_failures("/")


def calls_of(act: Any, root: Path) -> list[Call]:
    """The calls below ``root`` of a child that runs ``act``."""
    with Child(_act, act, str(root)) as child:
        with CallWatch(child, str(root)) as watch:
            assert child.hear_all() == ["done"]
    return watch.calls


def _act(say: Any, act: Any, root: str) -> None:
    give_notice()
    act(root)
    say("done")


# --- keys ---------------------------------------------------------------------------------------------------------------


def _create(root: str) -> None:
    open_store(root).create("__recovery/one", b"x" * 100)


def _replace(root: str) -> None:
    open_store(root).replace("__recovery/one", b"y" * 100)


def _without_token(path: str) -> str:
    return path.partition("#")[0] + ("#" if "#" in path else "")


@pytest.mark.usefixtures("watchable")
@pytest.mark.parametrize(("act", "naming"), [(_create, "link"), (_replace, "rename")])
def test_a_key_is_synced_before_it_has_its_name_and_its_folder_after(act: Any, naming: str, tmp_path: Path) -> None:
    open_store(str(tmp_path)).check_conditional_create()
    seen = [(call.name, _without_token(call.path)) for call in calls_of(act, tmp_path)]
    seen = [one for one in seen if not one[1].startswith("__probe")]
    temporary, key = "__recovery/one#", "__recovery/one"
    order = [
        seen.index(("write", temporary)),
        seen.index(("fsync", temporary)),
        next(i for i, (name, path) in enumerate(seen) if name.startswith(naming) and path in (key, temporary)),
        max(i for i, one in enumerate(seen) if one == ("fsync", "__recovery")),
    ]
    assert order == sorted(order)
    assert ("write", key) not in seen
    # The folder is new: its own name is synced too, before anything is in it.
    assert seen.index(("mkdir", "__recovery")) < seen.index(("fsync", "")) < order[0]


# --- paths --------------------------------------------------------------------------------------------------------------


def _tree(root: Path) -> list[str]:
    files = [root / "nodes/a.lance/data/1", root / "nodes/a.lance/data/2", root / "__manifest/_versions/3"]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    return [str(file) for file in files]


def _sync_paths(root: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        sync_paths(_tree(Path(root)), root, pool=pool)


@pytest.mark.usefixtures("watchable")
def test_files_and_the_folders_on_the_way_are_synced_each_once(tmp_path: Path) -> None:
    synced = [call.path for call in calls_of(_sync_paths, tmp_path) if call.name == "fsync"]
    assert sorted(synced) == [
        "",
        "__manifest",
        "__manifest/_versions",
        "__manifest/_versions/3",
        "nodes",
        "nodes/a.lance",
        "nodes/a.lance/data",
        "nodes/a.lance/data/1",
        "nodes/a.lance/data/2",
    ]


def test_everything_is_synced_with_and_without_the_call_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = _tree(tmp_path)
    with failpoints.recording() as passed:
        sync_everything(str(tmp_path))
    assert [facts["path"] for _, facts in passed] == [str(tmp_path)]
    monkeypatch.setattr(durability, "_syncfs", lambda: None)
    with failpoints.recording() as passed:
        sync_everything(str(tmp_path))
    assert {facts["path"] for _, facts in passed} > {*files, str(tmp_path)}


def test_the_sync_of_everything_reports_what_the_call_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability, "_syncfs", lambda: lambda _descriptor: -1)
    with pytest.raises(SyncFailed):
        sync_everything(str(tmp_path))


# --- failures -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_failed_sync_is_typed_and_never_repeated(tmp_path: Path, number: int) -> None:
    first, second, _ = _tree(tmp_path)
    with failpoints.armed("store.sync", OSError(number, os.strerror(number))):
        with pytest.raises(SyncFailed) as caught:
            sync_paths([first], str(tmp_path))
    assert isinstance(caught.value, StoreUnavailable)
    assert caught.value.facts == {"path": first, "outcome": "unknown"}
    with failpoints.recording() as passed, pytest.raises(SyncFailed, match="not repeated"):
        sync_paths([first], str(tmp_path))
    assert passed == []
    sync_paths([second], str(tmp_path))
    forget_failures(str(tmp_path))
    sync_paths([first], str(tmp_path))


def test_after_everything_has_failed_nothing_below_is_synced_again(tmp_path: Path) -> None:
    files = _tree(tmp_path)
    with failpoints.armed("store.sync", OSError(errno.EIO, "broken")):
        with pytest.raises(SyncFailed):
            sync_everything(str(tmp_path))
    for again in (lambda: sync_paths(files[:1], str(tmp_path)), lambda: sync_everything(str(tmp_path))):
        with pytest.raises(SyncFailed, match="not repeated"):
            again()


def test_one_failure_among_many_is_raised_after_all_have_ended(tmp_path: Path) -> None:
    files = _tree(tmp_path)
    ended: list[str] = []

    def fail_one(path: str) -> None:
        ended.append(path)
        if path == files[0]:
            raise OSError(errno.EIO, "broken")

    with failpoints.armed("store.sync", fail_one, at=None), ThreadPoolExecutor(4) as pool:
        with pytest.raises(SyncFailed):
            sync_paths(files, str(tmp_path), pool=pool)
    assert set(files) <= set(ended)


def test_a_file_that_is_not_there_cannot_be_made_durable(tmp_path: Path) -> None:
    with pytest.raises(SyncFailed, match="not there"):
        sync_paths([str(tmp_path / "missing")], str(tmp_path))
