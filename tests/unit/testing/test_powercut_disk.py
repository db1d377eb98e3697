"""The disk of the power-cut instrument: what was synced is there after a cut, and what was not may be there or not."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.testing.powercut.disk import MIXED, NAMES, SYNCED, TORN, Disk, read_folder, write_image
from omnigraph.testing.powercut.record import ALL, Event, NotUnderstood, read_trace

RNG = random.Random(0)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").write_bytes(b"old")
    return Disk(str(tmp_path))


def do(disk: Disk, *events: Event) -> None:
    for event in events:
        disk.apply(event)


def sync(path: str) -> Iterator[Event]:
    yield Event("sync-begins", path)
    yield Event("sync", path)


def left(disk: Disk, image: str = SYNCED) -> dict[str, bytes | None]:
    return dict(disk.after_cut(image, RNG))


OLD = {"a": None, "a/old": b"old"}
NEW = (Event("create", "a/new"), Event("write", "a/new", data=b"12345678"))


def test_what_was_there_before_is_synced(disk: Disk) -> None:
    assert left(disk) == left(disk, NAMES) == left(disk, TORN) == disk.now() == OLD


def test_a_file_without_any_sync_is_gone_empty_or_torn(disk: Disk) -> None:
    do(disk, *NEW)
    assert left(disk) == OLD
    assert left(disk, NAMES) == {**OLD, "a/new": b""}
    assert left(disk, TORN) == {**OLD, "a/new": b"1234"}
    assert disk.never_synced() == (1, 2)
    assert {left(disk, MIXED).get("a/new") for _ in range(50)} == {None, b"", b"1234", b"12345678"}


def test_a_sync_of_a_file_does_not_keep_its_name(disk: Disk) -> None:
    do(disk, *NEW, *sync("a/new"))
    assert left(disk) == OLD
    assert left(disk, NAMES)["a/new"] == left(disk, TORN)["a/new"] == b"12345678"


def test_a_sync_of_a_folder_does_not_keep_the_bytes(disk: Disk) -> None:
    do(disk, *NEW, *sync("a"))
    assert left(disk)["a/new"] == b""
    assert disk.never_synced() == (1, 2)
    do(disk, *sync("a/new"))
    assert left(disk)["a/new"] == b"12345678"
    assert disk.never_synced() == (0, 2)


def test_a_file_in_a_folder_whose_name_was_not_synced_is_gone(disk: Disk) -> None:
    do(disk, Event("mkdir", "b"), Event("create", "b/new"), *sync("b/new"), *sync("b"))
    assert "b" not in left(disk)
    do(disk, *sync(""))
    assert left(disk)["b/new"] == b""


def test_a_rename_that_was_not_synced_has_not_happened(disk: Disk) -> None:
    do(disk, Event("rename", "a/old", "a/new"))
    assert left(disk) == OLD and left(disk, NAMES) == {"a": None, "a/new": b"old"}
    do(disk, *sync("a"))
    assert left(disk) == {"a": None, "a/new": b"old"}


def test_a_deletion_that_was_not_synced_may_come_back(disk: Disk) -> None:
    do(disk, Event("unlink", "a/old"))
    assert left(disk) == OLD and left(disk, NAMES) == {"a": None}


def test_a_second_name_shows_the_bytes_of_the_first(disk: Disk) -> None:
    do(disk, *NEW, *sync("a/new"), Event("link", "a/new", "a/second"), *sync("a"), Event("unlink", "a/new"))
    assert left(disk)["a/second"] == left(disk)["a/new"] == b"12345678"


def test_an_overwritten_file_keeps_what_was_synced(disk: Disk) -> None:
    do(disk, Event("truncate", "a/old", at=0), Event("write", "a/old", data=b"newer"))
    assert left(disk)["a/old"] == b"old" and disk.now()["a/old"] == b"newer"


def test_a_sync_covers_what_was_there_when_it_began(disk: Disk) -> None:
    do(disk, *NEW, Event("sync-begins", "a/new"), Event("write", "a/new", data=b"later"), Event("sync", "a/new"))
    assert left(disk, NAMES)["a/new"] == b"12345678"
    do(disk, Event("sync-begins", "a"), Event("create", "a/late"), Event("sync", "a"))
    assert "a/new" in left(disk) and "a/late" not in left(disk)


def test_of_two_syncs_side_by_side_neither_covers_more_than_it_saw(disk: Disk) -> None:
    begins, ends = "sync-begins", "sync"
    do(disk, *NEW, Event(begins, "a", caller=1), Event(begins, "a", caller=2), Event(ends, "a", caller=1))
    do(disk, Event("create", "a/late"), Event(ends, "a", caller=2))
    assert "a/late" not in left(disk) and "a/new" in left(disk)


def test_a_sync_of_everything_keeps_everything(disk: Disk) -> None:
    do(disk, Event("mkdir", "b"), *NEW, Event("sync-all-begins", ALL), Event("create", "b/late"))
    do(disk, Event("sync-all", ALL))
    assert left(disk) == {**OLD, "a/new": b"12345678", "b": None}


def test_an_image_is_written_as_it_is(disk: Disk, tmp_path: Path) -> None:
    do(disk, Event("mkdir", "b"), *NEW)
    write_image(disk.now(), str(tmp_path / "image"))
    assert read_folder(str(tmp_path / "image")) == disk.now()


# --- reading a trace ----------------------------------------------------------------------------------------------------


def hexed(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


def read(*lines: str) -> list[Event]:
    return list(read_trace((line + "\n" for line in lines), "/g", "/marks"))


def opened(path: str, number: int = 3) -> str:
    return f"{number}<{hexed(path)}>"


def test_calls_become_events_in_the_order_in_which_they_ended() -> None:
    new, cwd = f'"{hexed("/g/a/new")}"', f"AT_FDCWD<{hexed('/')}>"
    events = read(
        f"7 openat({cwd}, {new}, O_WRONLY|O_CREAT|O_CLOEXEC, 0644) = {opened('/g/a/new')}",
        f'7 write({opened("/g/a/new")}, "{hexed("ab,c")}", 4) = 3',
        f'8 pwrite64({opened("/g/a/new")}, "{hexed("x")}", 1, 7) = 1',
        f"7 fsync({opened('/g/a/new')} <unfinished ...>",
        f'8 rename({new}, "{hexed("/g/b")}") = 0',
        "7 <... fsync resumed>) = 0",
        f"7 syncfs({opened('/g')}) = 0",
        f'7 write({opened("/marks")}, "{hexed("said")}", 4) = 4',
        "7 +++ exited with 0 +++",
    )
    assert [(event.kind, event.path, event.data, event.at) for event in events] == [
        ("create", "a/new", b"", None),
        ("write", "a/new", b"ab,", None),
        ("write", "a/new", b"x", 7),
        ("sync-begins", "a/new", b"", None),
        ("rename", "a/new", b"", None),
        ("sync", "a/new", b"", None),
        ("sync-all-begins", ALL, b"", None),
        ("sync-all", ALL, b"", None),
        ("mark", "", b"said", None),
    ]


def test_a_copy_goes_on_where_the_last_one_has_ended(disk: Disk) -> None:
    end = f"{opened('/g/copied', 4)}, NULL"
    events = read(
        f'7 openat(AT_FDCWD, "{hexed("/g/copied")}", O_WRONLY|O_CREAT, 0644) = {opened("/g/copied", 4)}',
        f"7 copy_file_range({opened('/g/a/old')}, NULL, {end}, 2, 0) = 2",
        f"7 copy_file_range({opened('/g/a/old')}, NULL, {end}, 99, 0) = 1",
    )
    assert [(event.kind, event.path, event.to, event.at, event.size) for event in events[1:]] == [
        ("copy", "a/old", "copied", 0, 2),
        ("copy", "a/old", "copied", 2, 1),
    ]
    for event in events:
        disk.apply(event)
    now = disk.now()
    kept = now["a/old"]
    assert kept is not None and now["copied"] == kept[:3]


def test_calls_that_failed_or_are_elsewhere_are_left_out() -> None:
    assert (
        read(
            f'7 mkdir("{hexed("/g/a")}", 0777) = -1 EEXIST (File exists)',
            f'7 mkdir("{hexed("/h")}", 0777) = 0',
            f'7 write({opened("/dev/null")}, "", 0) = 0',
        )
        == []
    )


@pytest.mark.parametrize(
    "line",
    [
        f'7 write({opened("/g/a")}, "{hexed("ab")}"..., 9) = 9',
        f'7 rename("{hexed("/g/a")}", "{hexed("/elsewhere")}") = 0',
        f"7 fallocate({opened('/g/a')}, 0, 0, 9) = 0",
        f"7 sendfile({opened('/g/a')}, {opened('/g/b', 4)}, NULL, 9) = 9",
        "nonsense",
    ],
)
def test_what_cannot_be_replayed_is_refused(line: str) -> None:
    with pytest.raises(NotUnderstood):
        read(line)


def test_a_call_on_a_file_that_the_replay_does_not_have_is_refused(disk: Disk) -> None:
    with pytest.raises(NotUnderstood):
        disk.apply(Event("write", "a/deleted" + os.sep + "x", data=b"1"))
