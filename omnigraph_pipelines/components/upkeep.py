"""Upkeep as a component: one YAML document keeps one graph fast and small."""

from typing import Any

import dagster as dg
from pydantic import BaseModel, Field

from omnigraph_pipelines.components.attributes import Attribute, check, connections, model_of
from omnigraph_pipelines.components.scaffold import UpkeepScaffolder
from omnigraph_pipelines.defs.alerts import alerts
from omnigraph_pipelines.defs.upkeep import upkeep


@dg.scaffold_with(UpkeepScaffolder)
class OmniGraphUpkeepComponent(dg.Component, dg.Model, dg.Resolvable):
    """Optimize, compaction, cleanup and recovery of a graph, with sensors and schedules that are on.

    Attributes are the parts of a graph file; paths are relative to the folder of this YAML.
    """

    graph: Attribute = Field(description="Which graph.")
    upkeep: Attribute = Field(default=None, description="When what is done.")
    backpressure: Attribute = Field(default=None, description="When writes warn, slow down and fail.")
    alerts: Attribute = Field(default=None, description="Where runs that failed for good are reported; adds a sensor.")
    prefix: str = Field(default="", description="Begins the names of jobs and sensors: two graphs in one project.")
    graph_resource: str | None = Field(default=None, description="Key of an OmniGraphResource of the project.")

    @classmethod
    def model(cls) -> type[BaseModel]:
        return model_of(cls, super().model())

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(
            description="Keeps a property graph on Lance fast and small: optimize, compaction, cleanup, recovery.",
            tags=["omnigraph", "upkeep", "lance"],
        )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        values: dict[str, Any] = {name: getattr(self, name) for name in ("graph", "upkeep", "backpressure", "alerts")}
        file = check(context, values)
        bound = connections(file, self.graph_resource)
        made = upkeep(file, bound, prefix=self.prefix)
        if self.alerts is None:
            return made
        return dg.Definitions.merge(made, alerts(file, bound, prefix=self.prefix))
