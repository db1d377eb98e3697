"""The same work by this engine and by its neighbours, in turns: small writes, a bulk load, reads. ``./run bench peers [--quick]``.

The neighbours check and promise other things, so each table stands beside what they do (``PROMISES``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.peers import bulk, install, reads, small
from bench.results import Table, table


def run(*, quick: bool = False, baseline: Path | None = None) -> tuple[list[Table], dict[str, Any]]:
    found = install.found()
    tables, facts = [], {"peers": found.versions}
    for part in (small, bulk, reads):
        made, told = part.run(found, quick=quick)
        tables += made
        facts.update(told)
    lost = [*facts.pop("lost_small", ()), *facts.pop("lost_bulk", ()), *facts.pop("lost_reads", ())]
    tables.append(table("What each of them checks and promises", ["who", "checks", "a commit survives"], PROMISES))
    tables.append(
        table("Where this engine loses, and why", ["where", "how it stands", "why"], lost or [["nowhere", "", ""]])
    )
    return tables, facts


PROMISES = [
    ["omnigraph", "kinds, keys, both ends of each edge, over all tables of a commit", "a power cut"],
    ["omnigraph, relaxed", "the same", "the end of the process"],
    ["plain Lance", "kinds", "the end of the process; one table a commit"],
    ["deltalake", "kinds", "the end of the process; one table a commit"],
    ["SQLite, NORMAL", "kinds, keys, both ends of each edge", "the end of the process; one machine"],
    ["SQLite, FULL", "the same", "a power cut; one machine"],
    ["DuckDB", "kinds, keys; both ends where foreign keys are declared", "a power cut; one process at a time"],
    ["Kuzu", "kinds, keys, both ends of each edge", "a power cut; one process at a time"],
]
