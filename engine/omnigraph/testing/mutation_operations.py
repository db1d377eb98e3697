"""Mutations as drivers of the crash matrix: rows that change in place, and nodes that take their edges along.

Imported by ``all_operations``; the registry is in ``operations``.
"""

from __future__ import annotations

from omnigraph import graph as graphs
from omnigraph.options import CommitOptions
from omnigraph.testing.operations import TYPES, Operation, opened, register
from omnigraph.write.mutate import mutate


def _node(name: str) -> str:
    return f"node {name} {{ name: String @key n: I32? }}\n"


def _seeded(root: str, width: int) -> None:
    """Two rows in each of ``width`` node types."""
    names = TYPES[:width]
    with graphs.init(root, "".join(_node(name) for name in names), actor="creator") as graph:
        graph.load([{"type": t, "data": {"name": n}} for t in names for n in ("first", "second")], mode="append")


def _linked(root: str, width: int) -> None:
    """The same, and between the rows of the first type edges of ``width`` types."""
    edges = [f"L{number}" for number in range(width)]
    schema = "".join(_node(name) for name in TYPES[:width]) + "".join(f"edge {name}: T1 -> T1\n" for name in edges)
    ends = (("first", "second"), ("second", "first"), ("second", "second"))
    with graphs.init(root, schema, actor="creator") as graph:
        rows = [{"type": t, "data": {"name": n}} for t in TYPES[:width] for n in ("first", "second")]
        links = [{"edge": edge, "from": src, "to": dst} for edge in edges for src, dst in ends]
        graph.load([*rows, *links], mode="append")


def _run(root: str, body: str) -> str | None:
    with opened(root) as engine:
        return mutate(engine, f"query step() {{ {body} }}", CommitOptions(actor="writer")).commit_id


def _write(root: str, width: int) -> str | None:
    """A new row, a changed one and a replaced one in every table: data and deletion files side by side."""
    return _run(
        root,
        " ".join(
            f'insert {name} {{ name: "new", n: 1 }} update {name} set {{ n: 7 }} where name = "first" '
            f'insert {name} {{ name: "second", n: 8 }}'
            for name in TYPES[:width]
        ),
    )


def _delete(root: str, width: int) -> str | None:
    """One node of the first type with its edges, and all nodes of the last."""
    last = TYPES[width - 1]
    return _run(root, f'delete T1 where name = "first" delete {last} where name > "first"')


register(Operation("mutate", frozenset({"mutate"}), _seeded, _write))
register(Operation("mutate-delete", frozenset({"mutate"}), _linked, _delete, widths=(1, 2)))
