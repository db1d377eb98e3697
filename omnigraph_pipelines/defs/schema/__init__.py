"""The accepted schema of a graph as an asset: what it is, whether it is the one of the schema file, and the job that makes it so."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg

    from omnigraph_pipelines.graph_file import GraphFile
    from omnigraph_pipelines.resources import Connections


def schema(file: GraphFile, connections: Connections, *, prefix: str = "") -> dg.Definitions:
    """The asset ``<graph>/schema``, its check and the job ``apply_schema``. ``prefix`` of the job tells two graphs in one code location
    apart."""
    import dagster as dg

    from omnigraph_pipelines.defs.schema.assets import schema_asset
    from omnigraph_pipelines.defs.schema.checks import accepted_schema_is_file
    from omnigraph_pipelines.defs.schema.names import Names

    names = Names(file.settings.graph, prefix)
    asset = schema_asset(names, file, connections.graph)
    check = accepted_schema_is_file(names, file, connections.graph)
    job = dg.define_asset_job(
        names.job,
        selection=dg.AssetSelection.assets(names.key),
        tags=names.tags,
        description="Make the schema of the schema file the accepted one.",
        executor_def=dg.in_process_executor,
    )
    return dg.Definitions(assets=[asset], asset_checks=[check], jobs=[job])
