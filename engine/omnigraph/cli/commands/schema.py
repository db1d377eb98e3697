"""``omnigraph schema show``."""

from __future__ import annotations

from omnigraph.cli.call import Answer, Call


def run_show(call: Call) -> Answer:
    """Print the accepted schema."""
    with call.reading() as graph:
        catalog = graph.catalog
    source = catalog.source
    result = {"schema_source": source, "schema_hash": catalog.hash}
    return Answer(result, lambda screen: screen.raw(source if source.endswith("\n") else source + "\n"))
