"""``import omnigraph`` is cheap: a command line, a sensor and an executor all pay for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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


def loaded_by(*words: str, **environment: str) -> set[str]:
    """The modules that the program has at its end."""
    program = (
        "import atexit, json, sys\n"
        f"sys.argv = {['omnigraph', *words]!r}\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules))))\n"
        "from omnigraph.cli import main\n"
        "sys.exit(main())"
    )
    plain = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=plain | environment
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_a_command_that_reads_loads_nothing_that_only_others_need(tmp_path: Path) -> None:
    import omnigraph as og

    with og.init(tmp_path / "g.omni", "node Person { name: String @key }") as graph:
        graph.load([{"type": "Person", "data": {"name": "ann"}}], mode="append")
    loaded = loaded_by("status", str(tmp_path / "g.omni"))
    assert "lance" in loaded and "omnigraph.upkeep.status" in loaded
    assert not loaded & {
        *("pandas", "polars", "duckdb", "lark", "boto3", "rich.console", "pyarrow.parquet", "opentelemetry"),
        *("omnigraph.commit.genesis", "omnigraph.commit.recovery.recover", "omnigraph.commit.protocol.run"),
        *("omnigraph.schema.parser", "omnigraph.commit.intent_models", "typer._adapters", "numpy.ma", "html"),
    }
    pytest.importorskip("opentelemetry")
    assert "opentelemetry" in loaded_by("status", str(tmp_path / "g.omni"), OTEL_SERVICE_NAME="graphs")


def test_a_load_of_one_row_loads_nothing_that_only_others_need(tmp_path: Path) -> None:
    import omnigraph as og

    og.init(tmp_path / "g.omni", "node Person { name: String @key }").close()
    for name in ("ann", "bob"):  # the second looks its id up
        (tmp_path / "rows.jsonl").write_text(json.dumps({"type": "Person", "data": {"name": name}}))
        rows = str(tmp_path / "rows.jsonl")
        loaded = loaded_by("load", str(tmp_path / "g.omni"), "--mode", "append", "--data", rows)
        assert "omnigraph.commit.protocol.run" in loaded
        assert not loaded & {
            *("pandas", "polars", "duckdb", "lark", "boto3", "rich.console", "pyarrow.parquet", "numpy.ma", "html"),
            *("typer._adapters", "opentelemetry"),  # what a word of the command line is needs no validator of pydantic
            *("omnigraph.commit.intent_models", "omnigraph.commit.recovery.recover", "omnigraph.commit.recovery.audit"),
            *(
                "omnigraph.commit.genesis",
                "omnigraph.branch.create",
                "omnigraph.upkeep.status",
                "omnigraph.schema.parser",
            ),
            *("omnigraph.query.run", "omnigraph.gq.parser", "omnigraph.distributed.driver"),
        }


def test_help_loads_nothing_of_the_engine_below_the_command_line() -> None:
    loaded = {name.partition(".")[0] for name in loaded_by("load", "--help")}
    assert "typer" in loaded and not loaded & {"numpy", "lance", "pydantic", "duckdb", "pandas"}


def test_public_names_resolve() -> None:
    import omnigraph

    for name in omnigraph.__all__:
        assert getattr(omnigraph, name) is not None
    with pytest.raises(AttributeError):
        omnigraph.no_such_name  # noqa: B018  (the access is the test)
