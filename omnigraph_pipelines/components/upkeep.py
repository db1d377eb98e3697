"""Upkeep as a component: one YAML document keeps one graph fast and small."""

from typing import Any

import dagster as dg
from pydantic import Field

from omnigraph_pipelines.components.attributes import Part, check, connections
from omnigraph_pipelines.defs.upkeep import upkeep


class OmniGraphUpkeepComponent(dg.Component, dg.Model, dg.Resolvable):
    """Optimize, compaction, cleanup and recovery of a graph, with sensors and schedules that are on.

    Attributes are the parts of a graph file; paths are seen from the folder of this YAML.
    """

    graph: Part = Field(description="name, uri and schema of the graph, as in a graph file.")
    upkeep: Part | None = Field(default=None, description="When what is done, as in a graph file.")
    backpressure: Part | None = Field(default=None, description="When writes warn, slow down and fail.")
    prefix: str = Field(default="", description="Begins the names of jobs and sensors: two graphs in one project.")
    graph_resource: str | None = Field(default=None, description="Key of an OmniGraphResource of the project.")

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(
            description="Keeps a property graph on Lance fast and small: optimize, compaction, cleanup, recovery.",
            tags=["omnigraph", "upkeep", "lance"],
        )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        values: dict[str, Any] = {"graph": self.graph, "upkeep": self.upkeep, "backpressure": self.backpressure}
        file = check(context, values)
        return upkeep(file, connections(file, self.graph_resource), prefix=self.prefix)
