"""What operations say of themselves while they run, and what a terminal, a pipe and a quiet command show of it."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { }\n"
PEOPLE = 3_000


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    og.init(tmp_path / "g.omni", SCHEMA).close()
    return tmp_path / "g.omni"


def records(path: Path) -> Path:
    people = [f'{{"type":"Person","data":{{"name":"p{i}","age":{i % 90}}}}}\n' for i in range(PEOPLE)]
    path.write_text("".join(people) + '{"edge":"Knows","from":"p1","to":"p2","data":{}}\n')
    return path


def phases(events: list[og.Progress]) -> list[tuple[str, str, int, str]]:
    return [(e.operation, e.phase, e.done, e.state) for e in events if e.state != "running"]


def test_a_load_tells_what_it_reads_checks_writes_and_publishes(graph: Path, tmp_path: Path) -> None:
    events: list[og.Progress] = []
    source = records(tmp_path / "in.jsonl")
    with og.open(graph) as opened:
        opened.load(source, mode="append", progress=events.append)
    assert phases(events) == [
        ("load", "reading", PEOPLE + 1, "done"),
        ("load", "checking", PEOPLE + 1, "done"),
        ("load", "writing", PEOPLE + 1, "done"),
        ("load", "publishing", 2, "done"),
    ]
    reading, *_, writing, _ = [event for event in events if event.state == "done"]
    assert reading.bytes == reading.bytes_total == source.stat().st_size
    assert writing.total == PEOPLE + 1 and writing.bytes > 0


def test_tables_that_are_read_as_they_are_written_have_one_phase_for_both(graph: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": [f"q{i}" for i in range(PEOPLE)]}), tmp_path / "people.parquet")
    events: list[og.Progress] = []
    with og.open(graph) as opened:
        opened.load({"Person": tmp_path / "people.parquet"}, mode="append", progress=events.append)
    ended = {event.phase: event for event in events if event.state == "done"}
    assert list(ended) == ["loading", "writing", "publishing"]
    assert (ended["loading"].done, ended["loading"].fraction) == (PEOPLE, 1.0)


def test_a_load_that_is_refused_ends_its_phase_as_failed(graph: Path) -> None:
    events: list[og.Progress] = []
    with og.open(graph) as opened, pytest.raises(og.errors.DataInvalid):
        opened.load([{"type": "Person", "data": {"age": 1}}], mode="append", progress=events.append)
    assert events[-1].state == "failed"


def test_upkeep_and_export_tell_how_far_they_are(graph: Path, tmp_path: Path) -> None:
    events: list[og.Progress] = []
    with og.open(graph) as opened, og.listen(events.append):
        for n in range(4):
            opened.load([{"type": "Person", "data": {"name": f"r{n}"}}], mode="append")
        events.clear()
        opened.optimize()
        assert phases(events) == [("optimize", "rewriting", 4, "done"), ("optimize", "indexing", 2, "done")]
        events.clear()
        opened.cleanup(keep=1, min_age="0s", confirm=True)
        looking, deleting = phases(events)
        assert looking[:2] == ("cleanup", "looking") and deleting[:2] == ("cleanup", "deleting") and deleting[2] > 4
        events.clear()
        opened.snapshot().export(tmp_path / "out.jsonl")
        assert phases(events) == [("export", "writing", 4, "done")]
        assert events[-1].bytes == (tmp_path / "out.jsonl").stat().st_size
        events.clear()
        opened.verify(deep=True)
        assert phases(events) == [("verify", "reading", 4, "done")]


def test_who_watches_cannot_break_a_write(graph: Path, tmp_path: Path) -> None:
    def listener(event: og.Progress) -> None:
        raise RuntimeError("the screen is gone")

    with og.open(graph) as opened:
        assert opened.load(records(tmp_path / "in.jsonl"), mode="append", progress=listener).commit_id
        assert not list(opened.intents())


# --- what a command shows -----------------------------------------------------------------------------------------------

SHOW = """
import sys
from omnigraph.cli import progress
progress.LINE_EVERY_S = 0.0
progress.Lines.__init__.__defaults__ = (0.0,)
from omnigraph.cli import main
sys.exit(main())
"""


def command(graph: Path, source: Path, *more: str) -> list[str]:
    return [sys.executable, "-c", SHOW, "load", str(graph), "--data", str(source), "--mode", "append", *more]


def test_a_pipe_gets_lines_and_the_result_stays_alone_on_standard_output(graph: Path, tmp_path: Path) -> None:
    source = records(tmp_path / "in.jsonl")
    done = subprocess.run(command(graph, source), capture_output=True, text=True, check=True)
    assert "load: publishing 2 of 2 tables (100%)" in done.stderr
    assert done.stdout.startswith("loaded 3,000 nodes") and "\x1b" not in done.stderr


def test_quiet_shows_no_progress(graph: Path, tmp_path: Path) -> None:
    source = records(tmp_path / "in.jsonl")
    done = subprocess.run(command(graph, source, "--quiet"), capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_a_terminal_gets_a_bar_that_leaves_nothing_behind(graph: Path, tmp_path: Path) -> None:
    source = records(tmp_path / "in.jsonl")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(graph, source),
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1"},
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        seen += piece
    out, _ = process.communicate(timeout=110)
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    assert process.returncode == 0 and out.startswith("loaded 3,000 nodes")
    assert "loading" in text or "load:" in text
    assert seen.rstrip().endswith((b"\x1b[2K", b"\x1b[?25h", b"\x1b[0m")) or text.splitlines()[-1].strip() == ""
