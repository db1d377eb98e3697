"""Remember a refusal: beside the graph for people and commands, and in the error for the sensor that may offer it again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import omnigraph as og
from omnigraph_pipelines.accepted_schema import AHEAD
from omnigraph_pipelines.cluster import explain
from omnigraph_pipelines.defs.ingest.names import Names
from omnigraph_pipelines.failures import in_short, is_transient, may_fit_later
from omnigraph_pipelines.graph_file import GraphFile
from omnigraph_pipelines.refusals import Refusal, note_refusal


def _hint(error: og.errors.OmnigraphError) -> str:
    """Return what a person does about a batch that waits: most often nothing."""
    if error.facts.get("reason") == AHEAD:
        return error.hint
    return (
        "nothing, where what it refers to is still to come: it waits, and is offered again when the head of the graph moves; "
        "else correct the batch, or loosen `checks` in the graph file"
    )


@contextmanager
def noting_refusal(graph: og.Graph, names: Names, file: GraphFile, batch: str, fingerprint: str) -> Iterator[None]:
    """Run what stages or commits a batch. Note a refusal, and add the fact ``judged_at`` to one that later commits may do away with.

    The head is read before: a commit that comes in meanwhile makes the batch be offered once too often, never once too few.
    """
    head = graph.snapshot(names.graph.branch).commit_id
    try:
        yield
    except og.errors.OmnigraphError as error:
        explain(error, file.settings)
        if not is_transient(error):
            judged_at = head if may_fit_later(error, file.catalog) else None
            if judged_at is not None:
                error.facts["judged_at"] = judged_at
                error.hint = _hint(error)
            said = Refusal(names.source.name, batch, fingerprint, error.code, in_short(error), error.message, judged_at)
            note_refusal(graph, said)
        raise
