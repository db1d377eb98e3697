"""The asset of the accepted schema: materializing it applies the schema file, as one commit beside loads and upkeep."""

# No deferred annotations here: Dagster reads the config class from the parameters as it is.
from typing import Any

import dagster as dg
from pydantic import Field

from omnigraph_pipelines.accepted_schema import apply_file
from omnigraph_pipelines.defs.schema.names import Names
from omnigraph_pipelines.failures import rows_metadata, told_to_dagster
from omnigraph_pipelines.graph_file import GraphFile
from omnigraph_pipelines.progress import told_in_log
from omnigraph_pipelines.resources import Bound


class SchemaConfig(dg.Config):
    """How the schema file is applied."""

    allow_data_loss: bool = Field(
        default=False, description="Apply drops and narrowings as well; drops are hard: their bytes go."
    )
    fill: dict[str, Any] = Field(
        default_factory=dict,
        description='Values of added properties: {"Person.score": 0.5}, or {"property": name} or {"sql": expression} in place of the value.',
    )


def schema_asset(names: Names, file: GraphFile, graph: Bound) -> dg.AssetsDefinition:
    @dg.asset(
        key=names.key,
        group_name=names.group,
        kinds={"graph", "lance"},
        pool=names.graph.pool,
        required_resource_keys=graph.required_keys,
        tags={**names.tags, "omnigraph/branch": names.graph.branch},
        description=f"The accepted schema of `{names.graph.name}`. Materializing it applies the schema file; what loses data only with "
        "`allow_data_loss`.",
    )
    def schema(context: dg.AssetExecutionContext, config: SchemaConfig) -> dg.MaterializeResult[Any]:
        with told_to_dagster(context), graph.opened(context.resources) as resource, told_in_log(context):
            opened = resource.graph
            receipt = apply_file(opened, file, allow_data_loss=config.allow_data_loss, fill=config.fill or None)
            view = opened.schema.show(names.graph.branch)
            for warning in receipt.warnings:
                context.log.warning(warning)
            steps = [] if receipt.plan is None else [_row(step) for step in receipt.plan.steps]
            return dg.MaterializeResult(
                metadata={
                    "commit_id": receipt.commit_id or "nothing changed",
                    "steps": rows_metadata(steps),
                    "types": sum(1 for _ in view.catalog.types()),
                    "schema_id": view.schema_id,
                    "schema": dg.MetadataValue.md(f"```\n{view}\n```"),
                    "dagster/uri": opened.uri,
                },
                data_version=dg.DataVersion(view.schema_id),
            )

    return schema


def _row(step: Any) -> dict[str, str]:
    return {
        "step": step.kind.value,
        "of": step.subject,
        "from": step.before or "",
        "to": step.after or "",
        "loses data": "yes" if step.loss else "",
    }
