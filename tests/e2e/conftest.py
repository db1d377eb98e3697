"""One Spark for all live tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.site import SparkServer


@pytest.fixture(scope="session")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkServer]:
    server = SparkServer(tmp_path_factory.mktemp("spark"))
    yield server
    server.stop()
