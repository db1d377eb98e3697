"""``omnigraph ensure-indices``."""

from __future__ import annotations

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.commands.optimize import show_optimized
from omnigraph.cli.options import ChangedBranch


def run(call: Call, branch: ChangedBranch = "main") -> Answer:
    """Build the indexes that the schema asks for and that are missing."""
    with call.writing() as graph, call.screen.busy("building indexes"):
        done = graph.ensure_indices(branch)
    return Answer(done, lambda screen: show_optimized(screen, done.to_dict()))
