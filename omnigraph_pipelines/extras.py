"""What to install where a package of an extra is missing."""

from __future__ import annotations

import omnigraph as og

_EXTRAS = {"typer": "cli", "rich": "cli"}


def missing_extra(what: str, error: ModuleNotFoundError) -> og.errors.MissingExtra:
    """The error for an import of ``what`` that failed. A missing module of this distribution is a fault and raised as it is."""
    package = (error.name or "").partition(".")[0]
    if package in ("", "omnigraph", "omnigraph_pipelines"):
        raise error
    return og.errors.MissingExtra(
        f"{what} needs a package that is not installed: {package}",
        hint="run `pip install 'omnigraph-pipelines[cli,pipelines]'`",
        extra=_EXTRAS.get(package, "pipelines"),
    )
