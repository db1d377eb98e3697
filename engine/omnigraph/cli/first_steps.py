"""What ``omnigraph`` without a command shows: what to type next."""

from __future__ import annotations

import os
from pathlib import Path


def text() -> str:
    """The next commands, for the graph of the environment, the only graph in this folder, or a new one."""
    named = os.environ.get("OMNIGRAPH_URI")
    here = sorted(found.parent.name for found in Path().glob("*/__manifest"))
    graph = named or (here[0] if len(here) == 1 else None)
    if graph is not None:
        shown = "" if named else f" {graph}"
        steps = [
            (f"omnigraph status{shown}", "what the graph holds and whether it needs anything"),
            (f"omnigraph schema show{shown}", "its types"),
            (f'omnigraph query{shown} --sql "SHOW TABLES"', "ask it something"),
            (f"omnigraph load{shown} --data FILE --mode merge", "bring records in"),
        ]
        head = f"The graph here is {graph}. Next:"
    else:
        steps = [
            ("omnigraph init social.omni --schema social.pg", "make a graph from a schema"),
            ("omnigraph load social.omni --data people.jsonl --mode merge", "bring records in"),
            ('omnigraph query social.omni --sql "SELECT * FROM Person"', "ask it something"),
            ("omnigraph status social.omni", "what it holds and whether it needs anything"),
        ]
        head = "A property graph on Lance tables. Next:"
    width = max(len(command) for command, _ in steps)
    lines = [f"  {command.ljust(width)}  {meaning}" for command, meaning in steps]
    return "\n".join(
        [head, "", *lines, "", "omnigraph --help lists every command; omnigraph COMMAND --help explains one.", ""]
    )
