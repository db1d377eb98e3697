"""Spark feeds a graph, Dagster runs and watches it.

Owns the names that other projects import, and resolves them when they are first used: importing this package loads neither
Dagster nor Spark nor Lance.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

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

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    try:
        module_name, attribute = _PUBLIC[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    module = import_module(module_name)
    value = module if attribute is None else getattr(module, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
