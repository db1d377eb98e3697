"""Ingest as a component: sources in YAML become staged tables, checks, commits, jobs and sensors."""

from typing import Any

import dagster as dg
from pydantic import Field

from omnigraph_pipelines.components.attributes import Part, Parts, check, connections
from omnigraph_pipelines.defs.ingest import ingest


class OmniGraphIngestComponent(dg.Component, dg.Model, dg.Resolvable):
    """Brings batches of files into a graph, each as one commit.

    Attributes are the parts of a graph file; paths are seen from the folder of this YAML.
    """

    graph: Part = Field(description="name, uri and schema of the graph, as in a graph file.")
    sources: Parts = Field(description="Where batches arrive and what is in them, as in a graph file.")
    checks: Part | None = Field(default=None, description="When a batch is good enough.")
    backpressure: Part | None = Field(default=None, description="When writes warn, slow down and fail.")
    spark: Part | None = Field(default=None, description="master or remote, and settings.")
    prefix: str = Field(default="", description="Begins the names of jobs and sensors: two graphs in one project.")
    graph_resource: str | None = Field(default=None, description="Key of an OmniGraphResource of the project.")
    spark_resource: str | None = Field(default=None, description="Key of a Spark resource of the project.")

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(
            description="Brings batches of files into a property graph on Lance, each as one commit.",
            tags=["omnigraph", "spark", "lance"],
        )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        values: dict[str, Any] = {
            "graph": self.graph,
            "sources": self.sources,
            "checks": self.checks,
            "backpressure": self.backpressure,
            "spark": self.spark,
        }
        file = check(context, values)
        return ingest(file, connections(file, self.graph_resource, self.spark_resource), prefix=self.prefix)
