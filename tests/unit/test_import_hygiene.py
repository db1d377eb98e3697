"""``import omnigraph`` is cheap: a command line, a sensor and an executor all pay for it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("dagster", "pyspark", "typer", "rich", "lance", "duckdb", "pandas", "polars", "boto3", "pyarrow")

PROGRAM = """
import json, sys
import omnigraph
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def import_once() -> set[str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("package", HEAVY)
def test_importing_the_engine_loads_no_heavy_package(package: str, imported: set[str]) -> None:
    assert package not in imported


@pytest.fixture(scope="module")
def imported() -> set[str]:
    return import_once()


def test_public_names_resolve() -> None:
    import omnigraph

    for name in omnigraph.__all__:
        assert getattr(omnigraph, name) is not None
    with pytest.raises(AttributeError):
        omnigraph.no_such_name  # noqa: B018  (the access is the test)
