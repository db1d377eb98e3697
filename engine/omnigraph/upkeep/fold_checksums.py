"""Keep the lines of checksums few: one file a table, without lines of files that are gone. Decides nothing by them."""

from __future__ import annotations

from omnigraph.commit.engine import Engine
from omnigraph.core.errors import OmnigraphError
from omnigraph.core.ids import is_ulid, new_ulid
from omnigraph.store import layout
from omnigraph.table.checksums import fold


def fold_checksums(engine: Engine) -> list[str]:
    """Fold the lines of every table that has some, dropped ones included. Returns what could not be done: a line that is
    left over, or lost, harms nothing."""
    if engine.store.is_remote:
        return []
    run = new_ulid(engine.clock)
    errors = []
    for identity in filter(is_ulid, engine.store.folders(layout.CHECKSUMS)):
        try:
            fold(engine.store, identity, run, lambda: {op for op, _ in engine.pending()})
        except OmnigraphError as error:
            errors.append(f"{layout.CHECKSUMS}{identity}: {error.message}")
    return errors
