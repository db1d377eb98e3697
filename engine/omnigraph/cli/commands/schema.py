"""``omnigraph schema show``."""

from __future__ import annotations

from omnigraph.cli.call import Answer, Call
from omnigraph.wire.data import SchemaSource


def run_show(call: Call) -> Answer:
    """Print the accepted schema."""
    with call.reading() as graph:
        catalog = graph.catalog
    source = catalog.source
    return Answer(
        SchemaSource(source, catalog.hash),
        lambda screen: screen.raw(source if source.endswith("\n") else source + "\n"),
    )
