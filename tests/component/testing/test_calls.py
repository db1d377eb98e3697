"""The watch over the system calls of a child: what it sees, and that it interrupts where it is told to."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph.testing import calls
from omnigraph.testing.calls import Call, CallWatch, give_notice, unavailable
from omnigraph.testing.children import Child

Say = Callable[[object], None]


needs_watch = pytest.mark.usefixtures("watchable")


def three_files(say: Say, folder: str) -> None:
    """Each in a thread of its own, beside a file that is elsewhere."""
    give_notice()
    for number in range(3):
        thread = threading.Thread(target=Path(folder, str(number)).write_text, args=("x",))
        thread.start()
        thread.join()
        Path(f"{folder}-elsewhere").write_text("y")
    os.rename(f"{folder}/0", f"{folder}/zero")
    say("done")


def two_attempts(say: Say, folder: str) -> None:
    give_notice()
    for name in ("one", "two"):
        try:
            os.mkdir(f"{folder}/{name}")
            say(name)
        except OSError as error:
            say(error.errno)


def below_itself(say: Say, folder: str) -> None:
    """Paths that do not say where they start."""
    give_notice()
    here = os.open(folder, os.O_RDONLY)
    os.mkdir("a", dir_fd=here)
    os.chdir(folder)
    os.mkdir("b")
    os.unlink(os.path.join(folder, "..", os.path.basename(folder), "c"))
    say("done")


def silent(say: Say) -> None:
    say("no notice")
    threading.Event().wait()


@needs_watch
def test_every_change_below_the_folder_is_seen_whichever_thread_makes_it(tmp_path: Path) -> None:
    folder = tmp_path / "watched"
    folder.mkdir()
    with Child(three_files, str(folder)) as child, CallWatch(child, str(folder)) as watch:
        assert child.hear_all() == ["done"]
    made = [Call(name, str(number)) for number in range(3) for name in ("openat", "write")]
    assert watch.calls == [*made, Call("rename", "zero")]
    assert (tmp_path / "watched-elsewhere").read_text() == "y", "what is elsewhere goes on unseen"


@needs_watch
def test_paths_that_start_from_a_folder_are_found(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("")
    with Child(below_itself, str(tmp_path)) as child, CallWatch(child, str(tmp_path)) as watch:
        assert child.hear_all() == ["done"]
    assert {(call.name.removesuffix("at"), call.path) for call in watch.calls} == {
        ("mkdir", "a"), ("mkdir", "b"), ("unlink", "c"),
    }  # fmt: skip


@needs_watch
@pytest.mark.parametrize("at", range(1, 8))
def test_a_child_killed_at_a_call_has_made_those_before_it_and_no_other(tmp_path: Path, at: int) -> None:
    folder = tmp_path / "watched"
    folder.mkdir()
    with Child(three_files, str(folder)) as child:
        with CallWatch(child, str(folder), at=at, act=lambda: os.kill(child.pid, signal.SIGKILL)) as watch:
            assert child.hear_all() == []
        assert child.join() == -signal.SIGKILL
    assert watch.reached
    found = {path.name: path.read_text() for path in folder.iterdir()}
    assert found == {str(n): "x" if 2 * n + 2 < at else "" for n in range(3) if 2 * n + 1 < at}


@needs_watch
def test_a_call_that_fails_fails_once_and_does_nothing(tmp_path: Path) -> None:
    with Child(two_attempts, str(tmp_path)) as child:
        with CallWatch(child, str(tmp_path), at=1, act=lambda: errno.ENOSPC):
            assert child.hear_all() == [errno.ENOSPC, "two"]
    assert [path.name for path in tmp_path.iterdir()] == ["two"]


@needs_watch
def test_a_child_stopped_at_a_call_makes_it_when_it_goes_on(tmp_path: Path) -> None:
    there: list[bool] = []
    with Child(two_attempts, str(tmp_path)) as child:

        def sleep() -> int:
            child.stop()
            there.append((tmp_path / "two").exists())
            child.resume()
            return 0

        with CallWatch(child, str(tmp_path), at=2, act=sleep):
            assert child.hear_all() == ["one", "two"]
    assert there == [False] and (tmp_path / "two").is_dir()


@needs_watch
def test_a_failure_of_who_watches_is_not_hidden(tmp_path: Path) -> None:
    def fail() -> int:
        raise RuntimeError("the act is wrong")

    with pytest.raises(RuntimeError, match="the act is wrong"), Child(two_attempts, str(tmp_path)) as child:
        with CallWatch(child, str(tmp_path), at=1, act=fail) as watch:
            watch.wait_over()


@needs_watch
def test_a_child_that_gives_no_notice_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "START_S", 0.2)
    with Child(silent) as child, pytest.raises(TimeoutError, match="did not give notice"):
        CallWatch(child, ".")


def test_where_calls_cannot_be_watched_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls.platform, "machine", lambda: "pdp11")
    assert "needs Linux on x86_64 or aarch64" in str(unavailable.__wrapped__())
