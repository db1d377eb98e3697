"""What the schema of a graph is called in Dagster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import dagster as dg

from omnigraph_pipelines.settings import GraphSettings

CHECK: Final = "accepted_schema_is_file"
GRAPH_TAG: Final = "omnigraph/graph"


@dataclass(frozen=True)
class Names:
    """Names of one graph's schema. ``prefix`` tells two graphs in one code location apart; the asset key needs none."""

    graph: GraphSettings
    prefix: str = ""

    @property
    def key(self) -> dg.AssetKey:
        return dg.AssetKey([self.graph.name, "schema"])

    @property
    def job(self) -> str:
        return f"{self.prefix}apply_schema"

    @property
    def group(self) -> str:
        return f"{self.graph.name}_schema"

    @property
    def tags(self) -> dict[str, str]:
        return {GRAPH_TAG: self.graph.name}
