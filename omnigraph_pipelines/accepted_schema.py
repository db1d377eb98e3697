"""The schema that a graph has accepted, beside the one of the schema file: what is to be applied, and who may apply it.

Knows neither Dagster nor Spark. What a change does is the engine's business; here is decided when a batch may go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import omnigraph as og
from omnigraph_pipelines.graph_file import GraphFile
from omnigraph_pipelines.schema_text import with_properties

AHEAD: Final = "schema-ahead"  # the reason of the refusal
_ATTEMPTS_MAX: Final = 10


def schema_plan(graph: og.Graph, file: GraphFile) -> Any:
    """How the accepted schema of the branch becomes that of the schema file. Reads no row, writes nothing."""
    return graph.schema.plan(file.catalog.source, branch=file.settings.graph.branch)


def steps_ahead(plan: Any, file: GraphFile) -> list[Any]:
    """The steps that the file is ahead of the graph. Where a source adds columns by itself, a property that only the graph has is no
    drop that was asked for: the file is behind."""
    grows = any(source.unknown_columns == "add" for source in file.settings.sources)
    return [step for step in plan.steps if not (grows and step.kind.value == "drop_property")]


def bring_up(graph: og.Graph, file: GraphFile) -> og.Receipt | None:
    """Before a batch: apply what the file is ahead, if the settings say so and nothing is lost; else refuse the batch. Returns the
    receipt of the change, or None where there is none to make."""
    for _ in range(_ATTEMPTS_MAX):
        plan = schema_plan(graph, file)
        ahead = steps_ahead(plan, file)
        if not ahead:
            return None
        if file.settings.schema_changes != "auto" or plan.loss or not plan.supported:
            raise refusal(plan, ahead, file)
        try:
            return graph.schema.apply(plan, branch=file.settings.graph.branch)
        except og.errors.SchemaChanged:
            continue  # another run has changed it: perhaps to this very schema
    raise _overtaken(file.settings.graph.branch)


def refusal(plan: Any, ahead: list[Any], file: GraphFile) -> og.errors.OmnigraphError:
    settings = file.settings.graph
    first = f"{ahead[0].kind.value} {ahead[0].subject}"
    more = f" and {len(ahead) - 1} more" if len(ahead) > 1 else ""
    unsupported = next((step for step in ahead if not step.supported), None)
    if unsupported is not None:
        hint = f"this change cannot be applied ({unsupported.reason}): {unsupported.hint}"
    elif plan.loss:
        hint = "data would be lost: run the job apply_schema with allow_data_loss, or `omnigraph schema apply --schema FILE --confirm`"
    else:
        hint = "run the job apply_schema, or `omnigraph schema apply --schema FILE`, or write schema_changes: auto in the graph file"
    return og.errors.Refused(
        f"the schema file is ahead of the graph {settings.name}: {first}{more}; no batch is ingested before it is applied",
        hint=hint,
        reason="schema-ahead",
        steps=[step.to_dict() for step in ahead[:20]],
    )


def apply_file(
    graph: og.Graph, file: GraphFile, *, allow_data_loss: bool, fill: Mapping[str, Any] | None = None
) -> Any:
    """Make the schema of the file the accepted one. Nothing is lost unless ``allow_data_loss`` says so; then drops are hard."""
    branch = file.settings.graph.branch
    plan = graph.schema.plan(file.catalog.source, branch=branch, fill=fill, allow_data_loss=allow_data_loss)
    if plan.loss and plan.supported and not allow_data_loss:
        lost = [step for step in plan.steps if step.loss]
        raise og.errors.Refused(
            f"the schema file drops or narrows {', '.join(step.subject for step in lost[:5])}",
            hint="run the job with allow_data_loss: true, which also deletes the bytes, or `omnigraph schema apply --schema FILE --confirm`, which keeps "
            "them for older commits",
            reason="no-consent",
            steps=[step.to_dict() for step in lost],
        )
    return graph.schema.apply(plan, branch=branch)


def add_properties(graph: og.Graph, branch: str, added: Mapping[str, Mapping[str, str]]) -> og.Receipt | None:
    """Add nullable properties to types, whatever else has become of the schema. ``added``: by type, the kind of each property.
    Those that are there already, because another run was quicker, are left as they are."""
    for _ in range(_ATTEMPTS_MAX):
        view = graph.schema.show(branch)
        missing = {name: _missing(view.catalog.type(name), kinds) for name, kinds in added.items()}
        missing = {name: kinds for name, kinds in missing.items() if kinds}
        if not missing:
            return None
        plan = graph.schema.plan(with_properties(str(view), missing), branch=branch)
        found = sorted((step.type, str(step.prop)) for step in plan.steps)
        if plan.old.source != str(view):
            continue
        if plan.loss or found != sorted((name, prop) for name, kinds in missing.items() for prop in kinds):
            raise og.errors.InvalidInput(
                f"the properties {', '.join(f'{name}.{prop}' for name, prop in found[:5])} cannot be written into the schema text",
                hint="add them to the schema file and run the job apply_schema",
            )
        try:
            return graph.schema.apply(plan, branch=branch)
        except og.errors.SchemaChanged:
            continue
    raise _overtaken(branch)


def _overtaken(branch: str) -> og.errors.OmnigraphError:
    return og.errors.Conflict(
        "the schema was changed by others each time that this change was planned", hint="run it again", branch=branch
    )


def _missing(declared: Any, kinds: Mapping[str, str]) -> dict[str, str]:
    known = {prop.name for prop in declared.properties}
    return {name: kind for name, kind in kinds.items() if name not in known}
