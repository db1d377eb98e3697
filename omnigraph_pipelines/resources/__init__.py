"""What runs are given: the graph, and Spark. Importing this loads Dagster, and neither Spark nor Lance."""

from __future__ import annotations

from omnigraph_pipelines.resources.binding import Bound, Connections
from omnigraph_pipelines.resources.graph import OmniGraphResource
from omnigraph_pipelines.resources.spark import SparkSessionResource

__all__ = ["Bound", "Connections", "OmniGraphResource", "SparkSessionResource"]
