"""A Dagster code location: ``dagster dev -f definitions.py`` shows one asset a type and the commits of every batch."""

from __future__ import annotations

from pathlib import Path

from omnigraph_pipelines import build_definitions, load_graph_file

defs = build_definitions(load_graph_file(Path(__file__).parent / "graph.yaml"))
