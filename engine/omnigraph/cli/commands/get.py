"""``omnigraph get``."""

from __future__ import annotations

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.options import At, Branch
from omnigraph.cli.rows import Format, RowFile, RowFormat, goes_to_file, show_rows, write_file
from omnigraph.cli.values import as_json_value
from omnigraph.core.errors import NotFound
from omnigraph.wire.data import QueryResult, RowFound, Target


def run(
    call: Call, branch: Branch = "main", at: At = None, format_: RowFormat = Format.kv, output: RowFile = None
) -> Answer:
    """Show one row by its id.

    The id is the key as text. For a key of several properties it is what the column id of a query shows.
    """
    writes = goes_to_file(format_, output)
    type_, row_id = call.subjects
    with call.reading() as graph:
        snapshot = graph.snapshot(branch, at=at)
        row = snapshot.get(type_, row_id)
        schema = snapshot.schema(type_)
    if row is None:
        raise NotFound(
            f"no {type_} has the id {row_id!r} at commit {snapshot.commit_id}",
            hint="compare with the column id of a query; letters are compared exactly",
        )
    target = Target(snapshot.branch, snapshot.commit_id)
    found = RowFound(target=target, type=type_, row={name: as_json_value(value) for name, value in row.items()})
    if writes and output is not None:
        import pyarrow as pa

        write_file(pa.Table.from_pylist([dict(row)], schema).to_reader(), output, None)
        return Answer(found, lambda screen: screen.note(f"1 row → {output}"))
    if format_ is Format.json:
        return Answer(found, lambda screen: screen.document(found.to_dict()))
    as_query = QueryResult(None, target, 1, False, tuple(row), (found.row,)).to_dict()
    return Answer(found, lambda screen: show_rows(screen, format_, as_query, [list(row.values())], hint=""))
