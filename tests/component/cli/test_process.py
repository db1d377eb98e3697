"""The program as a process: signals, pipes, terminals, and what is missing."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og

PROGRAM = [sys.executable, "-m", "omnigraph.cli"]
SCHEMA = "node Person { name: String @key  note: String? }\n"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph whose export does not fit into a pipe."""
    uri = tmp_path_factory.mktemp("process") / "people.omni"
    with og.init(uri, SCHEMA) as made:
        made.load(
            [{"type": "Person", "data": {"name": f"p{i}", "note": "x" * 200}} for i in range(5_000)], mode="append"
        )
    return uri


def test_the_process_ends_with_the_exit_code_of_the_error(graph: Path) -> None:
    done = subprocess.run([*PROGRAM, "status", str(graph / "nowhere")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error[not-found]")
    done = subprocess.run([*PROGRAM, "version", "--json"], capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["ok"], done.stderr) == (0, True, "")


@pytest.mark.parametrize("command", [["export"], ["query", "--format", "csv", "--sql", "select * from Person"]])
def test_a_reader_who_leaves_ends_the_process_quietly(command: list[str], graph: Path) -> None:
    process = subprocess.Popen([*PROGRAM, *command, str(graph)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.read(1)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=110) == 141


@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_ends_with_130_and_leaves_the_graph_as_it_was(as_json: bool, graph: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "slow.jsonl"
    os.mkfifo(fifo)
    with og.open(graph, read_only=True) as opened:
        before = opened.snapshot().commit_id
    command = [*PROGRAM, "load", str(graph), "--data", str(fifo), "--mode", "merge", *(["--json"] if as_json else [])]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A suite that was started in the background ignores the signal, and its children would too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    with fifo.open("w"):  # returns when the load has opened the other end: it is under way now
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=110)
    assert process.returncode == 130
    assert "error[interrupted]" in err and "Traceback" not in err
    assert (json.loads(out)["error"]["code"] if as_json else out) == ("interrupted" if as_json else "")
    with og.open(graph) as opened:
        assert opened.snapshot().commit_id == before


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_its_extra_the_command_line_says_what_to_install(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from omnigraph.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "version", "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "pip install 'omnigraph-pipelines[cli]'" in done.stderr
    document = json.loads(done.stdout)
    assert (document["ok"], document["error"]["code"]) == (False, "missing-extra")


def test_printing_json_loads_no_rich(graph: Path) -> None:
    code = "import sys; from omnigraph.cli import main; main(); print('rich.console' in sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, "status", str(graph), "--json"], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == "False"


def test_output_is_utf_8_whatever_the_locale(graph: Path) -> None:
    done = subprocess.run(
        [*PROGRAM, "query", str(graph), "--sql", "select 'né → ∞' as t", "--format", "csv"],
        capture_output=True,
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        check=True,
    )
    assert done.stdout.decode() == "t\nné → ∞\n"


@pytest.mark.parametrize(("answer", "code"), [("yes", 0), ("no", 4)])
def test_somebody_at_a_terminal_is_asked_before_a_remote_overwrite(
    answer: str, code: int, s3_environment: dict[str, str], s3_root: str, tmp_path: Path
) -> None:
    people = tmp_path / "people.jsonl"
    people.write_text('{"type": "Person", "data": {"name": "Ann"}}\n')
    with og.init(s3_root, SCHEMA):
        pass
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "load", s3_root, "--data", str(people), "--mode", "overwrite"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **s3_environment},
    )
    os.close(theirs)
    os.write(ours, f"{answer}\n".encode())
    _, err = process.communicate(timeout=110)
    os.close(ours)
    assert "Type yes to go on" in err
    assert process.returncode == code, err


@pytest.mark.parametrize("variable", ["FORCE_COLOR", None])
def test_a_terminal_gets_a_table_and_a_pipe_gets_columns(variable: str | None, graph: Path) -> None:
    done = subprocess.run(
        [*PROGRAM, "commit", "list", str(graph)],
        capture_output=True,
        text=True,
        env={**os.environ, **({variable: "1"} if variable else {})},
        check=True,
    )
    assert ("─" in done.stdout) == (variable is not None)
