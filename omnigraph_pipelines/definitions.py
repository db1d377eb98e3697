"""The code location: everything that one graph file asks for, put together.

Owns which parts there are and what they share. ``defs`` is what Dagster loads; other projects use the components, or
``build_definitions`` with a graph file of theirs.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg

from omnigraph_pipelines.defs import parts
from omnigraph_pipelines.graph_file import GraphFile, load_graph_file
from omnigraph_pipelines.resources import Connections, OmniGraphResource, SparkSessionResource


def build_definitions(file: GraphFile, *, graph: Any = None, spark: Any = None) -> dg.Definitions:
    """Definitions of one graph file. ``graph`` and ``spark`` stand in for the resources that its settings describe;
    ``spark`` may be a resource of dagster-pyspark."""
    resources = {
        "graph": OmniGraphResource.from_settings(file.settings) if graph is None else graph,
        "spark": SparkSessionResource.from_settings(file.settings) if spark is None else spark,
    }
    connections = Connections.by_key()
    with _nothing_to_collect():
        return dg.Definitions.merge(
            dg.Definitions(resources=resources, executor=dg.in_process_executor),
            *(part(file, connections) for part in parts()),
        )


@contextmanager
def _nothing_to_collect() -> Iterator[None]:
    """Definitions are all kept: looking through them for garbage again and again takes a quarter of the time of making a
    thousand."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dg.definitions
def defs() -> dg.Definitions:
    return build_definitions(load_graph_file())
