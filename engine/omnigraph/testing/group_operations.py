"""Groups as drivers of the matrices: several requests in one plan, which lands as a whole or not at all.

Imported by ``all_operations``; the registry is in ``operations``.
"""

from __future__ import annotations

from functools import partial

from omnigraph import graph as graphs
from omnigraph.core.errors import OmnigraphError, OutcomeUnknown
from omnigraph.testing.grouping import Ended, together
from omnigraph.testing.load_operations import _records, _seeded
from omnigraph.testing.operations import Operation, register
from omnigraph.wire.receipt import Receipt

LARGE = 64  # in the long form alone


def _group(members: int, root: str, width: int) -> str | None:
    """Each request adds a row to every table, every second one by a mutation."""

    def insert(graph: graphs.Graph, number: int) -> Receipt:
        if number % 2:
            inserts = " ".join(f'insert T{t + 1} {{ name: "r{number:02}", n: {number} }}' for t in range(width))
            return graph.mutate(f"query add() {{ {inserts} }}", actor=f"writer-{number}")
        return graph.load(_records(width, (f"r{number:02}", number)), mode="merge", actor=f"writer-{number}")

    with graphs.open(root) as graph:
        return _whole(together(graph._engine, [partial(insert, graph, number) for number in range(members)]))


def _whole(ended: list[Ended[Receipt]]) -> str | None:
    """The last commit of the group. Raises what all of its members raised; an outcome that is not known counts most."""
    errors = [one.error for one in ended if one.error is not None]
    if not errors:
        receipts = [one.value for one in ended if one.value is not None]
        named = {(receipt.commit_id, *receipt.grouped_with) for receipt in receipts}
        if len({frozenset(ids) for ids in named}) != 1:
            raise AssertionError(f"the requests did not share one plan: {named}")
        return receipts[-1].commit_id
    if len(errors) != len(ended) or len({type(error) for error in errors}) != 1:
        raise AssertionError(f"the requests of one plan got different answers: {ended}")
    error = errors[-1]
    assert isinstance(error, OmnigraphError | Exception)
    if isinstance(error, OutcomeUnknown) and len({str(one) for one in errors}) != len(errors):
        raise AssertionError(f"two requests got the same commit id: {errors}")
    raise error


for _members in (2, 8, LARGE):
    register(
        Operation(
            f"group-{_members}",
            frozenset({"load:merge", "mutate"}),
            _seeded,
            partial(_group, _members),
            widths=(1, 2) if _members == 2 else (1,),
        )
    )
