"""Processes of the tests: what they see of the test that starts them, and how a crew of them works on."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph.testing.children import Child
from omnigraph.testing.crew import FIRST_DEATH_WORDS, Crew
from omnigraph.testing.operations import opened

pytestmark = pytest.mark.processes
Say = Callable[[Any], None]


def _tell(say: Say, *names: str) -> None:
    say({name: os.environ.get(name) for name in names})


@pytest.mark.parametrize("name", ["OMNIGRAPH_DURABILITY", "AWS_ENDPOINT_URL", "OMNIGRAPH_COMMIT_OFFERS"])
def test_a_child_sees_how_to_sync_to_share_and_to_reach_a_store_as_it_is_now(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fork server goes on with the environment of the test that started it: the second test would run as the first one."""
    for value in ("first", "second"):
        monkeypatch.setenv(name, value)
        with Child(_tell, name) as child:
            assert child.hear() == {name: value}
    with Child(_tell, name, env={name: "given"}) as child:
        assert child.hear() == {name: "given"}


def test_drivers_share_with_other_processes_what_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, shared in (("0", False), ("1", True)):
        for name in ("OMNIGRAPH_COMMIT_COMBINE", "OMNIGRAPH_COMMIT_OFFERS"):
            monkeypatch.setenv(name, value)
        with opened(str(tmp_path / "g")) as engine:
            assert (engine.combine, engine.offers) == (shared, shared)


def _count(say: Say, who: str, first: int, until: int) -> None:
    for number in range(first, until):
        say((who, number))


def test_a_crew_goes_on_where_its_killed_workers_said_they_were() -> None:
    said: dict[str, list[int]] = {"ann": [], "bob": []}

    def manned() -> bool:
        for who, numbers in said.items():
            crew.begin(who, _count, who, len(numbers), len(numbers) + 300)
        return all(len(numbers) >= 600 for numbers in said.values()) and crew.kills > 2

    crew = Crew(lambda told: said[told[0]].append(told[1]), kill_every_s=0.05, rng=random.Random(0))
    assert crew.work(manned, limit_s=60)
    assert all(numbers == list(range(len(numbers))) for numbers in said.values())


def test_a_worker_dies_before_quick_work_is_over() -> None:
    said: list[int] = []

    def manned() -> bool:
        crew.begin("ann", _count, "ann", len(said), 3 * FIRST_DEATH_WORDS)
        return len(said) >= 3 * FIRST_DEATH_WORDS

    crew = Crew(lambda told: said.append(told[1]), kill_every_s=60, rng=random.Random(0))
    assert crew.work(manned, limit_s=60)
    assert crew.kills == 1


def test_a_crew_whose_work_never_ends_is_let_go() -> None:
    crew = Crew(lambda told: None, kill_every_s=60, rng=random.Random(0))

    def manned() -> bool:
        crew.begin("ann", _count, "ann", 0, 1)
        return False

    assert not crew.work(manned, limit_s=0.3)
