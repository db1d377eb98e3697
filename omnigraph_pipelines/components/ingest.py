"""Ingest as a component: sources in YAML become staged tables, checks, commits, jobs and sensors."""

from typing import Any

import dagster as dg
from pydantic import BaseModel, Field

from omnigraph_pipelines.components.attributes import Attribute, Attributes, check, connections, model_of
from omnigraph_pipelines.components.scaffold import IngestScaffolder
from omnigraph_pipelines.defs.alerts import alerts
from omnigraph_pipelines.defs.ingest import ingest
from omnigraph_pipelines.defs.schema import schema


@dg.scaffold_with(IngestScaffolder)
class OmniGraphIngestComponent(dg.Component, dg.Model, dg.Resolvable):
    """Brings batches of files into a graph, each as one commit.

    Attributes are the parts of a graph file; paths are relative to the folder of this YAML.
    """

    graph: Attribute = Field(description="Which graph.")
    sources: Attributes = Field(description="Where batches arrive and what is in them.")
    checks: Attribute = Field(default=None, description="When a batch is good enough.")
    backpressure: Attribute = Field(default=None, description="When writes warn, slow down and fail.")
    commit: Attribute = Field(default=None, description="How writes are committed.")
    spark: Attribute = Field(default=None, description="master or remote, and settings.")
    alerts: Attribute = Field(default=None, description="Where runs that failed for good are reported; adds a sensor.")
    schema_changes: str | None = Field(
        default=None, description="refuse, or auto: apply what loses nothing where the schema file is ahead."
    )
    apply_schema: bool = Field(
        default=False,
        description="Add the asset of the accepted schema and the job that applies the file. Once a graph.",
    )
    prefix: str = Field(default="", description="Begins the names of jobs and sensors: two graphs in one project.")
    graph_resource: str | None = Field(default=None, description="Key of an OmniGraphResource of the project.")
    spark_resource: str | None = Field(default=None, description="Key of a Spark resource of the project.")

    @classmethod
    def model(cls) -> type[BaseModel]:
        return model_of(cls, super().model())

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(
            description="Brings batches of files into a property graph on Lance, each as one commit.",
            tags=["omnigraph", "spark", "lance"],
        )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        names = ("graph", "schema_changes", "sources", "checks", "backpressure", "commit", "spark", "alerts")
        values: dict[str, Any] = {name: getattr(self, name) for name in names}
        file = check(context, values)
        bound = connections(file, self.graph_resource, self.spark_resource)
        made = [ingest(file, bound, prefix=self.prefix)]
        if self.apply_schema:
            made.append(schema(file, bound, prefix=self.prefix))
        if self.alerts is not None:
            made.append(alerts(file, bound, prefix=self.prefix))
        return dg.Definitions.merge(*made)
