"""What the code location is made of: one folder a concern, with its asset, job, sensor and schedule side by side.

Owns the list of parts. Each is a function from a graph file and its connections to definitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg

    from omnigraph_pipelines.graph_file import GraphFile
    from omnigraph_pipelines.resources import Connections

    Part = Callable[[GraphFile, Connections], dg.Definitions]


def parts() -> list[Part]:
    """In the order in which they are put together. Add ``from omnigraph_pipelines.defs.x import build`` here."""
    from omnigraph_pipelines.defs.alerts import alerts
    from omnigraph_pipelines.defs.ingest import ingest
    from omnigraph_pipelines.defs.schema import schema
    from omnigraph_pipelines.defs.upkeep import upkeep

    return [ingest, schema, upkeep, alerts]
