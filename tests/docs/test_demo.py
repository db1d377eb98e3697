"""The demo: its data load and answer; in the long form, the whole of it, twice, and stopped half-way."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from demo import show
from omnigraph.cli import main
from tests.docs.pages import ROOT

BYTES_MAX = 300_000
FOLDERS = sorted(path.parent for path in (show.DATA / "landing").glob("*/_SUCCESS"))


def load_all(graph: og.Graph) -> int:
    """The batches, as their graph file says, without Spark. Returns how many rows were set aside."""
    aside = 0
    for folder in FOLDERS:
        ends = {"LearnedFrom": ("teachers", "student", "teacher"), "Degree": ("degrees", "person", "school")}
        edges = {
            name: og.TableFile(folder / f"{file}.csv", {"from": a, "to": b}) for name, (file, a, b) in ends.items()
        }
        source = og.Batch(
            {"Person": folder / "people.csv", "School": folder / "schools.csv"},
            edges,
        )
        aside += graph.load(source, mode="merge", on_bad_row="quarantine").rejected.total
    return aside


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    with og.init(tmp_path / "g.omni", show.DATA / "genealogy.pg") as opened:
        assert load_all(opened) == 1
    return tmp_path / "g.omni"


def test_the_data_are_small_and_one_row_of_them_is_wrong(graph: Path) -> None:
    assert sum(path.stat().st_size for path in show.DATA.rglob("*") if path.is_file()) < BYTES_MAX
    with og.open(graph) as opened:
        assert {key: table.rows for key, table in opened.snapshot().tables.items()} == {
            "edge:Degree": 89,
            "edge:LearnedFrom": 100,
            "node:Person": 100,
            "node:School": 25,
        }


def test_its_questions_have_answers_and_its_changes_are_valid(
    graph: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    def said(*argv: str) -> str:
        assert main([*argv]) == 0
        return capsys.readouterr().out

    assert "Alonzo Church" in said("query", str(graph), "--sql", show.STUDENTS).splitlines()[1]
    assert "Gottfried Wilhelm Leibniz" in said("query", str(graph), "--sql", show.LINEAGE).splitlines()[-1]
    late = str(show.DATA / "late.jsonl")
    said("load", str(graph), "--data", late, "--mode", "append")
    assert "Shafi Goldwasser" in said("query", str(graph), "--sql", show.NEWEST)
    for change in show.CORRECTIONS:
        said("mutate", str(graph), "-e", f"query q() {{ {change} }}")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_demo_runs_twice() -> None:
    seen = [_recorded()]
    for _ in range(2):
        done = subprocess.run([sys.executable, "demo/show.py"], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "roll-forward" in done.stdout and "./run ui" in done.stdout
        seen.append(_recorded())
    assert [later - earlier for earlier, later in itertools.pairwise(seen)] == [len(FOLDERS)] * 2


def _recorded() -> int:
    """Runs of the demo that the web pages show."""
    import dagster as dg

    with (
        contextlib.chdir(ROOT),
        dg.DagsterInstance.from_config(os.environ.get("DAGSTER_HOME") or str(ROOT)) as instance,
    ):
        wanted = dg.RunsFilter(job_name="ingest_genealogy", statuses=[dg.DagsterRunStatus.SUCCESS])
        return int(instance.get_runs_count(wanted))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_demo_ends_at_once_when_it_is_interrupted_and_leaves_no_process() -> None:
    process = subprocess.Popen(
        [sys.executable, "demo/show.py"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    while "$ omnigraph-pipelines" not in process.stdout.readline():
        pass
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "./run demo begins anew" in out and "Traceback" not in err
    assert not [line for line in commands() if str(show.FILE) in line]


def commands() -> list[str]:
    """The command lines of all processes of this machine."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(place.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found
