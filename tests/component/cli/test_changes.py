"""`omnigraph changes`: lines that a program reads, and a follower that ends when it is reported to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import omnigraph as og
from tests.component.cli.material import Run

PROGRAM = [sys.executable, "-m", "omnigraph.cli"]


def add(name: str, *, mode: str = "merge", **data: object) -> str:
    with og.open("social.omni") as graph:
        return str(graph.load([{"type": "Person", "data": {"name": name, **data}}], mode=mode).commit_id)


def head() -> str:
    with og.open("social.omni", read_only=True) as graph:
        return graph.snapshot().commit_id


def test_each_change_is_one_line_and_the_cursor_is_said_at_the_end(run: Run, folder: Path) -> None:
    start = head()
    add("Zoe", age=1)
    last = add("Zoe", age=2)
    ended = run("changes", "social.omni", "--since", start)
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert [(one["type"], one["key"], one["kind"], one["row"]["age"]) for one in lines] == [
        ("Person", "Zoe", "insert", 1),
        ("Person", "Zoe", "update", 2),
    ]
    assert lines[-1]["commit_id"] == last and f"cursor {last}" in ended.err
    assert run("changes", "social.omni", "--since", last).out == ""
    [line] = run("changes", "social.omni", "--since", start, "--before", "--type", "Person").out.splitlines()[1:]
    assert json.loads(line)["before"]["age"] == 1


def test_as_a_document_it_has_everything(run: Run, folder: Path) -> None:
    start = head()
    last = add("Zoe", age=1)
    result = run("changes", "social.omni", "--since", start, "--json").document["result"]
    assert (result["since"], result["until"], result["cursor"]) == (start, last, last)
    assert [one["key"] for one in result["changes"]] == ["Zoe"]


def test_what_has_no_end_is_no_document(run: Run, folder: Path) -> None:
    for more in (["--json"], ["--until", "main"]):
        ended = run("changes", "social.omni", "--since", "main", "--follow", *more, code=2)
        assert "--follow has no end" in ended.err


def test_a_lost_cursor_is_an_error_that_says_where_to_begin(run: Run, folder: Path) -> None:
    ended = run("changes", "social.omni", "--since", "01JZX5W9GZ0000000000000000", code=3)
    assert "error[reclaimed]" in ended.err and "snapshot of main" in ended.err


def test_a_follower_tells_what_is_committed_and_ends_at_ctrl_c(folder: Path) -> None:
    start = head()
    first = add("Zoe", age=1)
    process = subprocess.Popen(
        [*PROGRAM, "changes", "social.omni", "--since", start, "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A suite that was started in the background ignores the signal, and its children would too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    try:
        assert json.loads(process.stdout.readline())["commit_id"] == first
        second = add("Yan", age=2)  # it is under way now, and has told what was there
        assert json.loads(process.stdout.readline())["commit_id"] == second
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=110)
    assert (process.returncode, out) == (0, "") and "Traceback" not in err
    assert err.splitlines()[-1] in (f"cursor {first}", f"cursor {second}"), "a swap counts once all of it was taken"
