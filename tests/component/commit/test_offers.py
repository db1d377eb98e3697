"""Writers that wait for the same tables and carry each other out: what a waiter offers, what the one ahead does, who is told what."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.testing.content import faults_of
from omnigraph.testing.offering import adding, offering_engine, queued
from omnigraph.testing.operations import create, keys_of
from tests.component.planted.scenes import rows

T1, T2 = keys_of(2)


@pytest.fixture
def three(tmp_path: Path) -> list[Engine]:
    """Engines of one graph that make offers; each stands for a process of its own."""
    create(str(tmp_path / "g"))
    return [offering_engine(str(tmp_path / "g")) for _ in range(3)]


def test_a_writer_carries_out_the_offers_of_those_behind_it(three: list[Engine]) -> None:
    before = three[0].latest(MAIN).version
    with queued(three[0], [T1]) as queue:
        for number, engine in enumerate(three):
            queue.start(adding(engine, f"row-{number}", actor=f"writer-{number}"))
        offers = queue.offers()
        assert [one.request.actor for one in offers if one.request is not None] == ["writer-0", "writer-1", "writer-2"]
    receipts = [one.value for one in queue.ended]
    assert [one.error for one in queue.ended] == [None] * 3
    state = three[0].latest(MAIN).state
    assert state.version == before + 1, "one swap for all"
    assert [one.commit_id for one in receipts] == [one.request.id for one in offers if one.request is not None]
    assert [len(one.grouped_with) for one in receipts] == [2, 2, 2]
    assert [one.tables[T1].inserted for one in receipts] == [1, 1, 1]
    assert sorted(rows(three[0], T1)) == ["row-0", "row-1", "row-2"]
    assert three[0].store.list("__recovery/") == []
    assert faults_of(three[0]) == []
