"""``import omnigraph`` is cheap: a command line, a sensor and an executor all pay for it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("dagster", "pyspark", "typer", "rich", "lance", "duckdb", "pandas", "polars", "boto3", "pyarrow")
BUDGET_S = 0.5

PROGRAM = """
import json, sys, time
started = time.perf_counter()
import omnigraph
took = time.perf_counter() - started
print(json.dumps({"took_s": took, "modules": sorted({name.partition(".")[0] for name in sys.modules})}))
"""


def import_once() -> tuple[float, set[str]]:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    return answer["took_s"], set(answer["modules"])


@pytest.mark.parametrize("package", HEAVY)
def test_importing_the_engine_loads_no_heavy_package(package: str, imported: set[str]) -> None:
    assert package not in imported


@pytest.fixture(scope="module")
def imported() -> set[str]:
    return import_once()[1]


def test_importing_the_engine_takes_less_than_half_a_second() -> None:
    # The best of five: a neighbour on the machine may slow one, hardly all.
    assert min(import_once()[0] for _ in range(5)) < BUDGET_S


def test_public_names_resolve() -> None:
    import omnigraph

    for name in omnigraph.__all__:
        assert getattr(omnigraph, name) is not None
    with pytest.raises(AttributeError):
        omnigraph.no_such_name  # noqa: B018  (the access is the test)
