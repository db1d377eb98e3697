"""What a graph file needs from outside, looked at once: the store of the graph, each landing place, Spark."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import omnigraph as og
from omnigraph_pipelines.batches import find_batches
from omnigraph_pipelines.cluster import HINT, warnings_of
from omnigraph_pipelines.graph_file import GraphFile
from omnigraph_pipelines.settings import SourceSettings, text_of
from omnigraph_pipelines.wording import counted


def findings(file: GraphFile) -> list[dict[str, Any]]:
    """Return one finding for each thing that was looked at: ``ok``, ``warning`` or ``problem``, with the hint of an error."""
    found = [_graph(file), *(_landing(source) for source in file.settings.sources), _spark(file)]
    return found + [_finding("warning", "cluster", said, HINT) for said in warnings_of(file.settings)]


def _finding(state: str, what: str, said: str, hint: str | None = None) -> dict[str, Any]:
    found = {"state": state, "what": what, "said": said}
    return found if hint is None else {**found, "hint": hint}


def _graph(file: GraphFile) -> dict[str, Any]:
    graph = file.settings.graph
    try:
        options = {name: text_of(value) for name, value in graph.storage_options.items()}
        with og.open(text_of(graph.uri), read_only=True, storage_options=options or None) as opened:
            return _finding("ok", "graph", f"{opened.uri}, at {opened.snapshot(graph.branch).commit_id}")
    except og.errors.NotFound:
        return _finding("ok", "graph", "there is none yet: the first batch makes it")
    except og.errors.OmnigraphError as error:
        return _finding("problem", "graph", f"{error.code}: {error.message}", error.hint)


def _landing(source: SourceSettings) -> dict[str, Any]:
    what = f"landing place of {source.name}"
    try:
        return _finding("ok", what, f"{counted(len(find_batches(source)), 'batch', 'batches')} under {source.batches}")
    except og.errors.OmnigraphError as error:
        return _finding("problem", what, f"{error.code}: {error.message}", error.hint)


def _spark(file: GraphFile) -> dict[str, Any]:
    spark = file.settings.spark
    if find_spec("pyspark") is None:
        return _finding("problem", "spark", "pyspark is not installed", "pip install 'omnigraph-pipelines[pipelines]'")
    if spark.remote is not None:
        return _finding("ok", "spark", "a Connect server; it is not called here")
    from omnigraph_pipelines.spark import find_java

    try:
        java = find_java()
    except og.errors.OmnigraphError as error:
        return _finding("problem", "spark", error.message, error.hint)
    return _finding("ok", "spark", f"{spark.master or 'local[*]'}, Java at {java.home or 'PATH'}")
