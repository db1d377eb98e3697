"""The command line ``omnigraph-pipelines``: check a graph file, show what would be ingested, ingest without a UI.

Owns argument names, exit codes and what is printed. Importing this package loads neither typer nor Dagster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import omnigraph as og


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. The console script calls this."""
    import sys
    from importlib import util

    given = list(sys.argv[1:] if argv is None else argv)
    # Found and not imported: importing Dagster takes longer than `--help` may.
    for package in ("typer", "yaml", "dagster"):
        if util.find_spec(package) is None:
            from omnigraph_pipelines.extras import missing_extra

            lacking = ModuleNotFoundError(name=package)
            return _without_packages(given, missing_extra("the command line of the pipelines", lacking))
    from omnigraph_pipelines.cli.app import run

    return run(given)


def _without_packages(given: Sequence[str], error: og.errors.MissingExtra) -> int:
    import json
    import sys

    if "--json" in given:
        sys.stdout.write(json.dumps({"schema_version": 1, "ok": False, "error": error.to_dict()}, indent=2) + "\n")
    sys.stderr.write(f"error[{error.code}]: {error.message}\nhint: {error.hint}\n")
    return error.exit_code
