"""Example graphs go through ten revisions of their schema beside two loaders and a compactor, all killed at random: the end equals a
graph of the last schema with the same records."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.testing import evolution
from omnigraph.testing.evolution import Round
from omnigraph.testing.evolving_graphs import EXAMPLES

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
SHORT = "medicine"
LONG = pytest.mark.long


def evolved(folder: Path, name: str, **options: float) -> Round:
    one = Round(str(folder / "g"), name, **options)  # type: ignore[arg-type]  # numbers
    assert one.run() == []
    return one


@pytest.mark.parametrize("name", [name if name == SHORT else pytest.param(name, marks=LONG) for name in EXAMPLES])
def test_ten_revisions_beside_loaders_and_a_compactor_that_are_killed(tmp_path: Path, name: str) -> None:
    assert len(EXAMPLES[name].revisions) == 11
    one = evolved(tmp_path, name, loads=1, kill_every_s=3)
    assert one.kills > 0 and len(one.loaded) >= 22


@pytest.mark.long
@pytest.mark.parametrize("name", EXAMPLES)
def test_ten_revisions_with_many_batches_between_them(tmp_path: Path, name: str) -> None:
    one = evolved(tmp_path, name, loads=4, kill_every_s=0.7)
    assert one.kills > 10 and len(one.loaded) >= 88


def test_planted_a_fill_with_another_value_is_found(tmp_path: Path) -> None:
    """The judge compares rows, and not only how many there are."""
    one = Round(str(tmp_path / "g"), SHORT)
    evolution.start(one.root, SHORT)
    revisions = EXAMPLES[SHORT].revisions
    with og.open(one.root) as graph:
        one.loaded = {("ann", 0): evolution._loaded(graph, EXAMPLES[SHORT], "ann", 0)}
        for text, fill in revisions[1:]:
            wrong = {name: 0.25 if value == 0.5 else value for name, value in (fill or {}).items()}
            graph.schema.apply(text, fill=wrong or None)
    assert any("Drug differs" in found for found in one._judge())
