"""An engine on a new graph, as often as a test wants one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.core import failpoints
from omnigraph.store import open_store
from omnigraph.testing.operations import create


@pytest.fixture
def engines(local_root: str) -> Iterator[Callable[..., Engine]]:
    """More than one open graph on the same root, as different processes would have."""
    create(local_root)
    made: list[Engine] = []

    def make(**kwargs: Any) -> Engine:
        made.append(Engine(open_store(local_root), **kwargs))
        made[-1].latest(MAIN)
        return made[-1]

    yield make
    failpoints.disarm()
    for engine in made:
        engine.close()
