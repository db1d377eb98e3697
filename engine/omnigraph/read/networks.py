"""A snapshot, or some of its types, as a graph of networkx in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.core.errors import LimitExceeded, MissingExtra
from omnigraph.read.tables import whole_number
from omnigraph.schema.catalog import EdgeType

if TYPE_CHECKING:
    import networkx  # type: ignore[import-untyped]  # it has no types

    from omnigraph.read.snapshot import Snapshot
    from omnigraph.schema.catalog import TableType


def to_networkx(snapshot: Snapshot, chosen: Sequence[TableType], limit: int | None) -> networkx.MultiDiGraph:
    """Nodes are ``(type, id)``, keys of edges as well; both carry their properties."""
    try:
        import networkx
    except ImportError as error:
        raise MissingExtra(
            "networkx is not installed: extra=frames", hint="pip install 'omnigraph-pipelines[frames]'", extra="frames"
        ) from error
    types = list({declared.table_key: declared for declared in _with_ends(snapshot, chosen)}.values())
    if limit is not None:
        total = sum(snapshot.tables[declared.table_key].rows for declared in types)
        if total > whole_number("limit", limit, 0):
            raise LimitExceeded(
                f"{total:,} nodes and edges, more than limit={limit:,}",
                hint="name fewer types, or raise limit: all of them are held in memory",
            )
    graph: networkx.MultiDiGraph = networkx.MultiDiGraph()
    for declared in types:
        for batch in snapshot.to_batches(declared.table_key):
            rows: list[dict[str, Any]] = batch.to_pylist()
            if isinstance(declared, EdgeType):
                graph.add_edges_from(_edge(declared, row) for row in rows)
            else:
                graph.add_nodes_from(((declared.name, row.pop("id")), row) for row in rows)
    return graph


def _edge(declared: EdgeType, row: dict[str, Any]) -> tuple[Any, ...]:
    source, target = (declared.src_type, row.pop("src")), (declared.dst_type, row.pop("dst"))
    return source, target, (declared.name, row.pop("id")), row


def _with_ends(snapshot: Snapshot, chosen: Sequence[TableType]) -> Iterable[TableType]:
    """Nodes first; the node types at the ends of an edge type come along."""
    edges = [declared for declared in chosen if isinstance(declared, EdgeType)]
    yield from (declared for declared in chosen if not isinstance(declared, EdgeType))
    for declared in edges:
        ends = (snapshot.catalog.find_node(name) for name in (declared.src_type, declared.dst_type))
        yield from (end for end in ends if end is not None)
    yield from edges
