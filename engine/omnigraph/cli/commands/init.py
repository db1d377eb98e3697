"""``omnigraph init``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.wire.data import Created


def run(
    call: Call,
    schema: Annotated[Path, typer.Option("--schema", metavar="FILE", help="The schema, a .pg file.")],
) -> Answer:
    """Create a graph from a schema.

    The tables are created empty and become a graph with one commit. An existing graph is never touched.
    """
    from omnigraph import graph

    call.announce()
    with graph.init(
        call.uri, schema, storage_options=call.options, actor=call.actor, durability=call.durability
    ) as made:
        catalog = made.catalog
        created = Created(
            uri=made.uri,
            commit_id=made.snapshot().commit_id,
            storage_version=made.storage_version,
            schema_hash=catalog.hash,
            node_types=tuple(sorted(catalog.nodes)),
            edge_types=tuple(sorted(catalog.edges)),
        )
    return Answer(created, lambda screen: screen.line(f"initialized {created.uri}"))
