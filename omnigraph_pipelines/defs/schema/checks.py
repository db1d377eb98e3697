"""The check that the accepted schema is the one of the schema file."""

# No deferred annotations here: Dagster looks at the parameters as they are.

import dagster as dg

from omnigraph_pipelines.accepted_schema import schema_plan
from omnigraph_pipelines.defs.schema.names import CHECK, Names
from omnigraph_pipelines.failures import rows_metadata, told_to_dagster
from omnigraph_pipelines.graph_file import GraphFile
from omnigraph_pipelines.resources import Bound


def accepted_schema_is_file(names: Names, file: GraphFile, graph: Bound) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        name=CHECK,
        asset=names.key,
        required_resource_keys=graph.required_keys,
        description="accepted schema = file: applying the schema file would change nothing.",
    )
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        with (
            told_to_dagster(context),
            graph.opened(context.resources) as resource,
            resource.open(read_only=True) as opened,
        ):
            plan = schema_plan(opened, file)
        steps = [
            {"step": step.kind.value, "of": step.subject, "loses data": "yes" if step.loss else ""}
            for step in plan.steps
        ]
        return dg.AssetCheckResult(
            passed=plan.is_empty,
            severity=dg.AssetCheckSeverity.WARN,
            metadata={"steps": rows_metadata(steps), "supported": plan.supported, "loses_data": plan.loss},
            description="the accepted schema is the one of the file"
            if plan.is_empty
            else f"the schema file differs from the accepted schema by {len(plan.steps)} steps; the job {names.job} applies it",
        )

    return check
