"""Spark feeds a graph, Dagster runs and watches it.

Owns the names that other projects import, and resolves them when they are first used: importing this package loads neither
Dagster nor Spark nor Lance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_pipelines.lazy import exports as _exports

if TYPE_CHECKING:
    # The same names for type checkers and editors, which do not run `__getattr__`. A test compares the two lists.
    from omnigraph_pipelines import spark
    from omnigraph_pipelines.components import OmniGraphIngestComponent, OmniGraphUpkeepComponent
    from omnigraph_pipelines.definitions import build_definitions
    from omnigraph_pipelines.graph_file import load_graph_file
    from omnigraph_pipelines.resources import OmniGraphResource, SparkSessionResource

# Public name -> (module, attribute; None for the module itself).
_PUBLIC: dict[str, tuple[str, str | None]] = {
    "OmniGraphIngestComponent": ("omnigraph_pipelines.components", "OmniGraphIngestComponent"),
    "OmniGraphUpkeepComponent": ("omnigraph_pipelines.components", "OmniGraphUpkeepComponent"),
    "OmniGraphResource": ("omnigraph_pipelines.resources", "OmniGraphResource"),
    "SparkSessionResource": ("omnigraph_pipelines.resources", "SparkSessionResource"),
    "build_definitions": ("omnigraph_pipelines.definitions", "build_definitions"),
    "load_graph_file": ("omnigraph_pipelines.graph_file", "load_graph_file"),
    "spark": ("omnigraph_pipelines.spark", None),
}

__all__ = [
    "OmniGraphIngestComponent",
    "OmniGraphResource",
    "OmniGraphUpkeepComponent",
    "SparkSessionResource",
    "build_definitions",
    "load_graph_file",
    "spark",
]


if not TYPE_CHECKING:
    # Hidden from type checkers: a module with `__getattr__` has every name there is, and no mistake would be found.
    __getattr__ = _exports(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)
