"""Graphs and files of the tests of Spark. The session itself is shared with other folders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og

SCHEMA = """
node Person { name: String @key  age: I32?  city: enum(oslo, rome)?  mail: String? @unique  @range(age, 0..150) }
node Note { text: String?  spot: Vector(2)? }
edge Knows: Person -> Person @card(0..3) { weight: F64?  since: Date? }
edge Likes: Person -> Note { at: DateTime?  @unique(src, dst) }
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On a busy machine Java alone may take most of the usual time to start."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(1200))


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "graph", SCHEMA) as made:
        yield made


def staged_files(graph: og.Graph) -> set[str]:
    root = Path(graph.uri)
    return {str(p.relative_to(root)) for kind in ("nodes", "edges") for p in root.glob(f"{kind}/*/data/*")}


@pytest.fixture
def files(graph: og.Graph) -> Any:
    """Which data files there are now."""
    return lambda: staged_files(graph)
