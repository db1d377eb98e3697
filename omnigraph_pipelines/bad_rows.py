"""Which rows of a batch may be bad, and how many: from the settings of a source to the options of a load.

Owns the translation and what the schema does not allow of it. Knows neither Dagster nor Spark.
"""

from __future__ import annotations

from typing import Any

import omnigraph as og
from omnigraph_pipelines.complaints import FileComplaints, Path_, meant
from omnigraph_pipelines.settings import CheckSettings, Settings, SourceSettings


def check_rules(settings: Settings, catalog: Any, complaints: FileComplaints) -> None:
    """Check the settings of bad rows, against the engine's options and the schema."""
    for index, source in enumerate(settings.sources):
        own = source.checks is not None
        path: Path_ = ("sources", index, "checks") if own else ("checks",)
        given = settings.checks_of(source).on_missing_endpoint
        for name in given if isinstance(given, dict) else ():
            if catalog.find_edge(name) is None:
                said = f"the schema has no edge type {name!r}{meant(name, catalog.edges)}"
                complaints.add((*path, "on_missing_endpoint", name), said)
                return
        rules = rules_of(source, settings.checks_of(source), catalog)
        try:
            og.LoadOptions(mode=source.mode, **rules)
        except og.errors.InvalidInput as error:
            complaints.add(path, error.message)
            continue
        actions = rules["on_missing_endpoint"] or {}
        for name in _edges_of(source, catalog):
            if (actions if isinstance(actions, str) else actions.get(name)) == "stub":
                edge = catalog.find_edge(name)
                ends = [catalog.find_node(end) for end in dict.fromkeys((edge.src_type, edge.dst_type))]
                if all(end.stub is None for end in ends):
                    named = " and ".join(end.name for end in ends)
                    place: Path_ = ("sources", index, "tables") if source.tables else ("sources", index)
                    complaints.add(place, f"{name}: no stubs can be made, {named} has no @stub in the schema")


def _edges_of(source: SourceSettings, catalog: Any) -> list[str]:
    if source.tables is not None:
        return [table.edge for table in source.tables if table.edge is not None and catalog.find_edge(table.edge)]
    return [name for name in source.types or catalog.edges if catalog.find_edge(name) is not None]


def rules_of(source: SourceSettings, checks: CheckSettings, catalog: Any) -> dict[str, Any]:
    """Return the options of a load that say which rows of a source may be bad."""
    own = {table.edge: table.on_missing_endpoint for table in source.tables or () if table.on_missing_endpoint}
    actions: Any = checks.on_missing_endpoint
    if own:
        common = dict.fromkeys(_edges_of(source, catalog), actions) if isinstance(actions, str) else dict(actions or {})
        actions = {**common, **own}
    return {
        "on_bad_row": checks.on_bad_row,
        "bad_rows_max": checks.bad_rows_max,
        "bounds": dict(checks.bounds) or None,
        "on_missing_endpoint": actions or None,
    }


def sets_aside(rules: dict[str, Any]) -> bool:
    """Return whether rows may be left out that are to be kept."""
    actions = rules["on_missing_endpoint"] or {}
    named = (actions,) if isinstance(actions, str) else actions.values()
    return rules["on_bad_row"] == "quarantine" or "quarantine" in named


def replayed(rules: dict[str, Any]) -> Any:
    """Return what becomes of rows without a node when a quarantine is loaded again: none of them is dropped."""
    actions = rules["on_missing_endpoint"]
    if actions is None or isinstance(actions, str):
        return "stub" if actions == "stub" else None
    return {name: "stub" for name, action in actions.items() if action == "stub"} or None
