"""A local disk that refuses, is full, or was left in a strange state."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError, StoreRefused, StoreUnavailable
from omnigraph.store import KeyExists, layout, open_store

Mount = Callable[..., Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mounts a small file system of its own, where that is permitted."""
    mounted: list[Path] = []

    def make(*options: str) -> Path:
        target = tmp_path / f"mount{len(mounted)}"
        target.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", ",".join(options) or "size=1m", "tmpfs", str(target)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=30)
        except FileNotFoundError:
            pytest.skip("not run: needs mount")
        if done.returncode != 0:
            pytest.skip("not run: needs mount")
        mounted.append(target)
        return target

    yield make
    for target in mounted:
        subprocess.run(["umount", str(target)], check=True, timeout=30)


def _files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_a_full_disk_is_unavailable_and_leaves_no_trace(mount: Mount) -> None:
    root = mount("size=256k")
    store = open_store(root)
    store.create("small", b"x")
    for write in (store.create, store.replace):
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            write("large", b"x" * 1_000_000)
    assert store.get("large") is None
    assert _files(root) == ["__probe", "small"]
    with pytest.raises(StoreUnavailable):
        store.replace("small", b"y" * 1_000_000)
    assert store.get("small") == b"x"
    store.create("fits", b"x" * 1_000)


def test_a_disk_without_room_for_a_folder_is_full_too(mount: Mount) -> None:
    root = mount("size=64k", "nr_inodes=4")
    store = open_store(root)
    store.check_conditional_create()
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        for i in range(5):
            store.create(f"d{i}/k", b"")


def test_a_read_only_disk_refuses_and_can_be_read(mount: Mount) -> None:
    root = mount("size=1m")
    open_store(root).create("a/k", b"1")
    subprocess.run(["mount", "-o", "remount,ro", str(root)], check=True, timeout=30)
    store = open_store(root)
    assert store.get("a/k") == b"1"
    assert [entry.key for entry in store.list("a/")] == ["a/k"]
    for operation in (
        lambda: store.create("a/new", b""),
        lambda: store.replace("a/k", b""),
        lambda: store.create("b/c", b""),
        lambda: store.delete("a/k"),
        store.check_conditional_create,
    ):
        with pytest.raises(StoreRefused, match="read-only"):
            operation()
    assert store.delete_many(["a/k"])[0].error.code == "store-refused"
    assert store.get("a/k") == b"1"


AS_SOMEBODY_ELSE = """
import os, sys
from omnigraph.core.errors import StoreRefused
from omnigraph.store import open_store
store = open_store(sys.argv[1])
if os.geteuid() == 0:
    os.seteuid(65534)
for operation in (
    lambda: store.get("closed/k"),
    lambda: store.exists("closed/k"),
    lambda: store.size("closed/none"),
    lambda: store.list("closed/"),
    lambda: store.list(""),
    lambda: store.delete("closed/k"),
    lambda: store.create("closed/k", b""),
    lambda: store.replace("closed/k", b""),
):
    try:
        print("answered", operation())
    except StoreRefused as error:
        print("refused", "permission denied" in str(error))
"""


def test_a_folder_that_may_not_be_entered_is_refused_and_never_absent(tmp_path: Path) -> None:
    root = tmp_path / "graph"
    open_store(root).create("closed/k", b"1")
    (root / "closed").chmod(0)
    # Somebody without rights of root can reach the root of the graph, and no further.
    opened = [path for path in [root, *root.parents] if path != Path("/") and path.stat().st_uid == os.geteuid()]
    before = {path: path.stat().st_mode for path in opened}
    try:
        for path in opened:
            path.chmod(before[path] | 0o055)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(AS_SOMEBODY_ELSE), str(root)],
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        for path, mode in before.items():
            path.chmod(mode)
        (root / "closed").chmod(0o755)
    assert done.stdout.split("\n") == ["refused True"] * 8 + [""], done.stdout + done.stderr


def test_a_root_that_is_a_file_is_refused_and_never_empty(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = open_store(tmp_path / "file")
    for operation in (
        lambda: store.get("k"),
        lambda: store.exists("k"),
        lambda: store.list(""),
        lambda: store.list("a/"),
        lambda: store.delete("k"),
        lambda: store.create("k", b""),
    ):
        with pytest.raises(StoreRefused):
            operation()


def test_a_folder_where_an_object_should_be_is_said(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.create("a/b", b"1")
    assert store.get("a") is None
    assert store.size("a") is None
    assert store.get("a/b/c") is None
    assert store.delete("a") is False
    for operation in (
        lambda: store.create("a", b""),
        lambda: store.replace("a", b""),
        lambda: store.create("a/b/c", b""),
    ):
        with pytest.raises(StoreRefused):
            operation()
    assert store.get("a/b") == b"1"


def test_an_interrupted_write_is_invisible_and_can_be_swept(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.create("a/k", b"1")
    (tmp_path / "a" / "k#123").write_bytes(b"half")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "new#77").write_bytes(b"half")
    assert [entry.key for entry in store.list("")] == ["__probe", "a/k"]
    store.create("b/new", b"2")
    (tmp_path / "b" / ".tmpA1b2C3").write_bytes(b"half of Lance's")
    assert store.unfinished("", 1) == ()
    found = store.unfinished("", 1 << 60)
    assert [(one.key, one.size) for one in found] == [("a/k#123", 4), ("b/.tmpA1b2C3", 15), ("b/new#77", 4)]
    assert [one.key for one in store.unfinished("b/", 1 << 60)] == ["b/.tmpA1b2C3", "b/new#77"]
    (tmp_path / "a" / "k#123").write_bytes(b"somebody else's")
    assert store.delete_unfinished(found) == ()
    assert _files(tmp_path) == ["__probe", "a/k", "a/k#123", "b/new"], "what was taken again stays"


@pytest.mark.crash
def test_a_create_that_is_killed_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom omnigraph.store import open_store\nopen_store(sys.argv[1]).create('a/k', b'x' * 100_000)\n"
    )
    for place, there in (("store.create", False), ("store.created", True)):
        root = tmp_path / place
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            failpoints.ENVIRONMENT: f"{place}=kill",
        }
        done = subprocess.run([sys.executable, "-c", program, str(root)], env=env, timeout=60)
        assert done.returncode == -9
        assert open_store(root).get("a/k") == (b"x" * 100_000 if there else None)


def test_a_reader_never_sees_half_a_replace(tmp_path: Path) -> None:
    import threading

    store = open_store(tmp_path)
    store.create("k", b"0" * 50_000)
    done = threading.Event()
    torn: list[bytes] = []

    def read() -> None:
        while not done.is_set():
            data = store.get("k")
            if data is None or len(set(data)) != 1 or len(data) != 50_000:
                torn.append(data or b"")

    reader = threading.Thread(target=read)
    reader.start()
    for i in range(100):
        store.replace("k", str(i % 10).encode() * 50_000)
    done.set()
    reader.join()
    assert torn == []


def test_no_symbolic_link_leads_out_of_the_root(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"s")
    root = tmp_path / "graph"
    store = open_store(root)
    store.create("k", b"1")
    (root / "dir").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    for operation in (
        lambda: store.get("dir/secret"),
        lambda: store.get("file"),
        lambda: store.size("dir/secret"),
        lambda: store.create("dir/new", b""),
        lambda: store.replace("dir/secret", b""),
        lambda: store.delete("dir/secret"),
        lambda: store.list("dir/"),
        lambda: store.prune("dir/"),
    ):
        with pytest.raises(StoreRefused):
            operation()
    assert [entry.key for entry in store.list("")] == ["__probe", "k"]
    assert os.listdir(outside) == ["secret"]


def test_a_root_may_itself_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = open_store(tmp_path / "link" / "graph")
    store.create("a/k", b"1")
    assert store.get("a/k") == b"1"
    assert (tmp_path / "real" / "graph" / "a" / "k").read_bytes() == b"1"


@pytest.mark.parametrize("name", ["a b", "a#1", "a%20b", "ü", "a?b", "a'b\"c", "data"])
def test_a_root_may_have_any_name_and_lance_finds_the_same_folder(tmp_path: Path, name: str) -> None:
    import lance
    import pyarrow as pa

    store = open_store(tmp_path / name)
    store.create("k", b"1")
    uri = store.lance_uri("nodes/X.lance")
    lance.write_dataset(pa.table({"id": ["a"]}), uri)
    assert lance.dataset(uri).count_rows() == 1
    assert os.path.isdir(tmp_path / name / "nodes" / "X.lance" / "data")
    assert os.listdir(tmp_path) == [name]


def test_a_file_system_without_hard_links_is_refused_for_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    def link(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    # The one system call that a FAT or some network mounts answer in this way; none of them can be mounted everywhere.
    monkeypatch.setattr(os, "link", link)
    store = open_store(tmp_path)
    with pytest.raises(StoreRefused, match="no hard links"):
        store.create("k", b"1")
    assert _files(tmp_path) == []


def test_an_error_of_the_disk_that_nobody_knows_is_an_unknown_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    store = open_store(tmp_path)
    store.create("k", b"1")

    def fsync(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StoreUnavailable) as caught:
        store.create("new", b"1")
    assert caught.value.outcome == "unknown"
    assert isinstance(caught.value, OmnigraphError)
    assert "new" in str(caught.value)


def test_a_name_that_may_not_last_is_an_unknown_outcome_whatever_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    from omnigraph.store import local

    store = open_store(tmp_path)
    store.check_conditional_create()

    def sync(_: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(local, "sync_folder", sync)
    for write in (store.create, store.replace):
        with pytest.raises(StoreUnavailable) as caught:
            write("k", b"1")
        assert caught.value.outcome == "unknown"
        assert store.get("k") == b"1"
        os.unlink(tmp_path / "k")


def test_pruning_takes_empty_folders_only_and_leaves_the_root(tmp_path: Path) -> None:
    store = open_store(tmp_path / "graph")
    store.create("a/b/c/k", b"1")
    store.create("a/d/k", b"1")
    store.delete("a/b/c/k")
    store.prune("a/")
    assert sorted(p.name for p in (tmp_path / "graph" / "a").iterdir()) == ["d"]
    store.delete("a/d/k")
    store.delete(layout.PROBE)
    store.prune("")
    assert (tmp_path / "graph").is_dir()
    with pytest.raises(KeyExists):
        store.create("x", b"1")
        store.create("x", b"2")
