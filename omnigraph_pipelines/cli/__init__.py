"""The command line ``omnigraph-pipelines``: check a graph file, show what would be ingested, ingest without a UI.

Owns argument names, exit codes and what is printed. Importing this package loads neither typer nor Dagster.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. The console script calls this."""
    import sys

    given = list(sys.argv[1:] if argv is None else argv)
    try:
        import typer  # noqa: F401
    except ImportError:
        sys.stderr.write(
            "error[missing-extra]: the command line needs typer\nhint: pip install 'omnigraph-pipelines[cli]'\n"
        )
        return 2
    from omnigraph_pipelines.cli.app import run

    return run(given)
