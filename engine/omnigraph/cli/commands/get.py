"""``omnigraph get``."""

from __future__ import annotations

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.options import At, Branch
from omnigraph.cli.values import as_json_value, as_text
from omnigraph.core.errors import NotFound
from omnigraph.wire.data import RowFound, Target


def run(call: Call, branch: Branch = "main", at: At = None) -> Answer:
    """Show one row by its id.

    The id is the key as text. For a key of several properties it is what the column id of a query shows.
    """
    type_, row_id = call.subjects
    with call.reading() as graph:
        snapshot = graph.snapshot(branch, at=at)
        row = snapshot.get(type_, row_id)
    if row is None:
        raise NotFound(
            f"no {type_} has the id {row_id!r} at commit {snapshot.commit_id}",
            hint="compare with the column id of a query; letters are compared exactly",
        )
    found = RowFound(
        target=Target(snapshot.branch, snapshot.commit_id),
        type=type_,
        row={name: as_json_value(value) for name, value in row.items()},
    )
    shown = [(name, None if value is None else as_text(value)) for name, value in row.items()]
    return Answer(found, lambda screen: screen.pairs(shown))
