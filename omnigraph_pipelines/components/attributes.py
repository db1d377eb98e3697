"""What both components share: attributes as parts of a graph file, checked as strictly, and resources of their own.

A component brings its connection: nothing has to be declared in Python, and two graphs can live in one project. A team that
shares a resource names its key instead.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import dagster as dg

from omnigraph_pipelines.graph_file import GraphFile, check_settings
from omnigraph_pipelines.resources import Bound, Connections, OmniGraphResource, SparkSessionResource


def _plain(context: dg.ResolutionContext, value: Any) -> Any:
    """A part of the graph file, with templates filled in."""
    return context.resolve_value(value)


Part = Annotated[dict[str, Any], dg.Resolver(_plain, model_field_type=dict[str, Any])]
Parts = Annotated[list[dict[str, Any]], dg.Resolver(_plain, model_field_type=list[dict[str, Any]])]


def check(context: Any, values: Mapping[str, Any]) -> GraphFile:
    """The attributes as a graph file. Paths are seen from the folder of the component's YAML."""
    folder = Path(context.path)
    if folder.is_file():
        folder = folder.parent
    given = {name: value for name, value in values.items() if value is not None}
    return check_settings(given, folder, _yaml_of(folder))


def _yaml_of(folder: Path) -> Path | None:
    for name in ("defs.yaml", "component.yaml"):
        if (folder / name).is_file():
            return Path(os.path.relpath(folder / name))
    return None


def connections(file: GraphFile, graph_resource: str | None, spark_resource: str | None = None) -> Connections:
    """Resources of the component's own, or those of the project where keys are named."""
    graph = OmniGraphResource.from_settings(file.settings)
    spark = SparkSessionResource.from_settings(file.settings)
    return Connections(
        Bound(key=graph_resource) if graph_resource is not None else Bound(resource=graph),
        Bound(key=spark_resource) if spark_resource is not None else Bound(resource=spark),
    )
