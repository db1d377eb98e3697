"""``omnigraph init``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.render import Screen
from omnigraph.wire.data import Created

if TYPE_CHECKING:
    from omnigraph.store import Store


def run(
    call: Call,
    schema: Annotated[Path, typer.Option("--schema", metavar="FILE", help="The schema, a .pg file.")],
) -> Answer:
    """Create a graph from a schema.

    The tables are created empty and become a graph with one commit. An existing graph is never touched.
    """
    from omnigraph import graph

    call.announce()
    strangers = _other_files(call.store())
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

    def show(screen: Screen) -> None:
        screen.line(f"initialized {created.uri}")
        if strangers:
            screen.warn(
                f"the folder has other files, such as {strangers[0]}: an empty folder of its own is better for a graph"
            )
        if not created.node_types:
            screen.warn(f"{schema} declares no types; add them to it and run `omnigraph schema apply --schema FILE`")

    return Answer(created, show)


def _other_files(store: Store) -> list[str]:
    """What lies at the place of a new graph on this disk already."""
    folder = Path(store.uri.removeprefix("file://"))
    return [] if store.is_remote or not folder.is_dir() else sorted(path.name for path in folder.iterdir())
