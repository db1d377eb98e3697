"""What both components share: attributes as parts of a graph file, checked as strictly, and resources of their own.

A component brings its connection: nothing has to be declared in Python, and two graphs can live in one project. A team that
shares a resource names its key instead.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, Final

import dagster as dg
from pydantic import BaseModel

from omnigraph_pipelines.components.schema import given_in, schema_of, with_parts
from omnigraph_pipelines.components.templates import rendered
from omnigraph_pipelines.graph_file import GraphFile, check_settings
from omnigraph_pipelines.resources import Bound, Connections, OmniGraphResource, SparkSessionResource
from omnigraph_pipelines.settings import (
    AlertSettings,
    BackpressureSettings,
    CheckSettings,
    GraphSettings,
    SourceSettings,
    SparkSettings,
    UpkeepSettings,
    WriteSettings,
)

Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Given:
    """One attribute as the YAML gives it, with templates filled in. ``places``: line and column of each value in it."""

    value: Any
    places: Mapping[Place, tuple[int, int]]


def _given(context: dg.ResolutionContext, value: Any) -> Given | None:
    if value is None:
        return None
    path = tuple(context.path)
    found = rendered(given_in(value), context.scope, path[1:])
    return Given(found, _places(context.source_position_tree, path))


def _givens(context: dg.ResolutionContext, value: Any) -> Given | None:
    values = [given_in(one) for one in value] if isinstance(value, list | tuple) else value
    return _given(context, values)


def _places(tree: Any, path: Place) -> dict[Place, tuple[int, int]]:
    """Return where each value at or below a path stands in the file; nothing where the attributes come from no file."""
    for one in path:
        tree = None if tree is None else tree.children.get(one)
    found: dict[Place, tuple[int, int]] = {}
    left: list[tuple[Place, Any]] = [] if tree is None else [((), tree)]
    while left:
        at, node = left.pop()
        found[at] = (node.position.start.line, node.position.start.col)
        left += [((*at, name), child) for name, child in node.children.items()]
    return found


Attribute = Annotated[Any, dg.Resolver(_given, model_field_type=dict[str, Any])]
Attributes = Annotated[Any, dg.Resolver(_givens, model_field_type=list[dict[str, Any]])]

SCHEMAS: Final[Mapping[str, Any]] = {
    "graph": GraphSettings,
    "sources": SourceSettings,
    "checks": CheckSettings,
    "backpressure": BackpressureSettings,
    "commit": WriteSettings,
    "spark": SparkSettings,
    "upkeep": UpkeepSettings,
    "alerts": AlertSettings,
}


@cache
def model_of(component: Any, base: type[BaseModel]) -> type[BaseModel]:
    """Return the model of a component's YAML, with the schemas of the settings. ``base``: as Dagster derives it."""
    parts = {name: schema_of(part) for name, part in SCHEMAS.items() if name in base.model_fields}
    if "sources" in parts:
        parts["sources"] = GenericAlias(list, (parts["sources"],))
    return with_parts(component, base, parts)


def check(context: Any, attributes: Mapping[str, Any]) -> GraphFile:
    """Return the attributes as a graph file. Paths are relative to the folder of the component's YAML."""
    folder = Path(context.path)
    if folder.is_file():
        folder = folder.parent
    values: dict[str, Any] = {}
    places: dict[Place, tuple[int, int]] = {}
    for name, one in attributes.items():
        if one is None:
            continue
        values[name] = one.value if isinstance(one, Given) else one
        if isinstance(one, Given):
            places |= {(name, *at): place for at, place in one.places.items()}
    return check_settings(values, folder, _yaml_of(folder), places)


def _yaml_of(folder: Path) -> Path | None:
    for name in ("defs.yaml", "defs.yml", "component.yaml"):
        if (folder / name).is_file():
            return Path(os.path.relpath(folder / name))
    return None


def connections(file: GraphFile, graph_resource: str | None, spark_resource: str | None = None) -> Connections:
    """Return resources of the component's own, or those of the project where keys are named."""
    graph = OmniGraphResource.from_settings(file.settings)
    spark = SparkSessionResource.from_settings(file.settings)
    return Connections(
        Bound(key=graph_resource) if graph_resource is not None else Bound(resource=graph),
        Bound(key=spark_resource) if spark_resource is not None else Bound(resource=spark),
    )
