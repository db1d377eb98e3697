"""Whether the executors of Spark see the places that a graph file names. Pure."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import omnigraph as og
from omnigraph_pipelines.settings import EnvRef, Settings, Text

_HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})
HINT: Final = (
    "the executors see another disk: put the graph and the landing place on an object store, or on a disk that is mounted at the "
    "same path on every machine of the cluster"
)


def is_cluster(settings: Settings) -> bool:
    """Return whether the executors are, as far as the settings tell, on other machines."""
    spark = settings.spark
    if isinstance(spark.remote, EnvRef):
        return True
    if spark.remote is not None:
        return urlsplit(spark.remote).hostname not in _HERE
    return spark.master is not None and not spark.master.startswith("local")


def warnings_of(settings: Settings) -> list[str]:
    """Return a sentence for each place on a local disk that the executors of a cluster have to reach."""
    if not is_cluster(settings):
        return []
    places = [("the graph", settings.graph.uri)]
    places += [(f"the landing place of {source.name}", source.batches) for source in settings.sources]
    return [
        f"{what} is on a local disk, {where}, and Spark is a cluster: executors on other machines see another disk"
        for what, where in places
        if _is_local(where)
    ]


def _is_local(where: Text) -> bool:
    return isinstance(where, str) and ("://" not in where or where.startswith("file://"))


def explain(error: og.errors.OmnigraphError, settings: Settings) -> None:
    """Give an error that a second disk explains the hint that says so. Other errors keep theirs."""
    is_missing = isinstance(error, og.errors.NotFound) or (
        isinstance(error, og.errors.InvalidInput) and "staged file" in error.message and "missing" in error.message
    )
    if is_missing and warnings_of(settings):
        error.hint = HINT
