"""``omnigraph ensure-indices``."""

from __future__ import annotations

from typing import Any

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.commands.optimize import show_optimized


def run(call: Call) -> Answer:
    """Build the indexes that the schema asks for and that are missing."""
    with call.writing() as graph, call.screen.busy("building indexes"):
        result: dict[str, Any] = graph.ensure_indices().to_dict()
    return Answer(result, lambda screen: show_optimized(screen, result))
