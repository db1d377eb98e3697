"""Engines on one graph of two tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.core import failpoints
from omnigraph.store import open_store
from omnigraph.testing.operations import create
from tests.component.planted.scenes import Engines


@pytest.fixture
def engines(local_root: str) -> Iterator[Engines]:
    create(local_root)
    made: list[Engine] = []

    def make() -> Engine:
        made.append(Engine(open_store(local_root)))
        made[-1].latest(MAIN)
        return made[-1]

    yield make
    failpoints.disarm()
    for engine in made:
        engine.close()
