"""A command that is run in this process, and a folder with a graph to run it on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli import main
from tests.component.cli.material import BAD, NEXT, PEOPLE, QUERIES, SCHEMA, Ended, Run, write_lines


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.delenv("OMNIGRAPH_URI", raising=False)
    monkeypatch.delenv("OMNIGRAPH_ACTOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run_one(*argv: str, code: int | None = 0) -> Ended:
        capsys.readouterr()
        ended = main([str(argument) for argument in argv])
        captured = capsys.readouterr()
        assert code is None or ended == code, captured.err
        assert "Traceback" not in captured.err
        return Ended(ended, captured.out, captured.err)

    return run_one


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a schema, inputs and a graph of one load."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "social.pg").write_text(SCHEMA)
    (folder / "next.pg").write_text(NEXT)
    (folder / "queries.gq").write_text(QUERIES)
    people = write_lines(folder / "people.jsonl", PEOPLE)
    write_lines(folder / "bad.jsonl", BAD)
    with og.init(folder / "social.omni", folder / "social.pg", actor="maker") as graph:
        graph.load(people, mode="append")
    return folder


@pytest.fixture
def folder(seeded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, as the working folder."""
    here = tmp_path / "work"
    shutil.copytree(seeded, here)
    monkeypatch.chdir(here)
    return here
