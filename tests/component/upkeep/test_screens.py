"""What upkeep shows at a terminal: one screen whatever the number of tables, and commands that can be typed as shown."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest

import omnigraph as og
from omnigraph.cli import main
from omnigraph.cli.screenful import SHOWN_MAX, worth_showing
from omnigraph.upkeep import status as statuses

WIDE = 60
SCREEN_LINES = SHOWN_MAX + 15
Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.delenv("OMNIGRAPH_URI", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run_one(*argv: str) -> str:
        capsys.readouterr()
        assert main(list(argv)) == 0
        return capsys.readouterr().out

    return run_one


def test_a_screen_shows_everything_that_upkeep_says_of_many_tables(local_root: str, run: Run) -> None:
    names = [f"T{number:02d}" for number in range(WIDE)]
    with og.init(local_root, "".join(f"node {name} {{ name: String @key }}\n" for name in names)) as graph:
        for number in range(2):
            graph.load([{"type": name, "data": {"name": f"n{number}"}} for name in names[-3:]], mode="append")
        graph.checkpoints.create("before")
    for command in (
        ["status"],
        ["status", "--deep"],
        ["optimize"],
        ["cleanup", "--keep", "1", "--min-age", "0s"],
        ["cleanup", "--keep", "1", "--min-age", "0s", "--confirm"],
    ):
        out = run(command[0], local_root, *command[1:])
        assert len(out.splitlines()) <= SCREEN_LINES, command
        assert all(f"node:{name}" in out for name in names[-3:]), "what is worth a look is among those shown"
    assert "… and 40 tables more" in run("status", local_root)


def test_what_a_verdict_tells_to_run_runs(local_root: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statuses, "BACKLOG_WARN", 3)
    with og.init(local_root, "node Person { name: String @key }") as graph:
        for number in range(3):
            graph.load([{"type": "Person", "data": {"name": f"p{number}"}}], mode="append")
        found = graph.status()
    assert [finding.code for finding in found.findings] == ["version-backlog"]
    [_, typed, _] = found.verdict_line.split("`")
    program, *arguments = shlex.split(typed)
    assert program == "omnigraph" and arguments[0] == "cleanup"
    assert found.verdict_line in run("status", local_root)
    assert "retained are the 10 newest commits" in run(*arguments)


def test_a_cleanup_says_what_stays_before_and_where_it_is_recorded_after(local_root: str, run: Run) -> None:
    with og.init(local_root, "node Person { name: String @key }") as graph:
        for number in range(4):
            graph.load([{"type": "Person", "data": {"name": f"p{number}"}}], mode="append")
        newest = graph.commits()[0].id
        pinned = graph.checkpoints.create("season", at=graph.commits()[-2].id)
    plan = run("cleanup", local_root, "--keep", "1", "--min-age", "0s")
    assert f"main: commit {newest} and newer stay" in plan and f"checkpoint {pinned.name} stays" in plan
    assert "to delete: 6 versions of 2 tables" in plan
    with og.open(local_root) as graph:
        assert len(graph.commits()) == 5 and graph.status().manifest.boundary == 0, "showing the plan deleted something"
    done = run("cleanup", local_root, "--keep", "1", "--min-age", "0s", "--confirm")
    assert "6 versions deleted" in done
    [record] = [line.removeprefix("recorded as ") for line in done.splitlines() if line.startswith("recorded as ")]
    with og.open(local_root) as graph:
        assert graph._engine.store.exists(record)


def test_the_most_urgent_tables_are_shown_in_their_own_order() -> None:
    assert worth_showing([3, 1, 2], lambda n: n) == [3, 1, 2]
    assert worth_showing([5, 1, 4, 2, 3], lambda n: n, shown_max=2) == [5, 4]
    assert worth_showing([4, 1, 5], lambda n: n, shown_max=2) == [4, 5]
