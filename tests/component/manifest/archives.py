"""A long history made in one swap: archive fragments written by hand, as the tails of many commits would have left them."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.core.ids import new_ulid, new_uuid
from omnigraph.manifest import codec, digests, fragments, reading
from omnigraph.manifest import rows as r
from omnigraph.manifest.state import Change
from omnigraph.manifest.swap import Held
from omnigraph.table import strict


def with_archive(engine: Engine, count: int, *, rows: int = 2) -> list[str]:
    """Put so many fragments before the tail of the main line. Returns the idempotency keys of their commits, oldest first."""
    held: Held = engine.latest(MAIN)
    # The first swap of a line makes the three fragments that stand behind the archive.
    held = engine.manifest.swap(held, engine.manifest.write(held, Change()), uuid=new_uuid())
    keys = [f"key {number}" for number in range(count * rows)]
    starts = range(0, len(keys), rows)
    parts = [[_row(seq, keys[seq - 1]) for seq in range(start + 1, start + rows + 1)] for start in starts]
    [first] = held.state.tail
    later = replace(held.state, tail=(replace(first, seq=len(keys) + 1, parents=(new_ulid(),)),))
    current = fragments.current_rows(later)
    written = [strict.write_ahead(held.handle, codec.to_arrow(part)) for part in [*parts, current]]
    known = reading.digests_of(held.handle)
    kept = strict.kept(held.handle, 0, 2)
    named = {file: known[file] for file in kept.files}
    named |= {one.files[0]: digests.digest(part) for one, part in zip(written, [*parts, current], strict=True)}
    strict.swap(
        engine.tables,
        engine.manifest.ref(None),
        held.handle,
        schema=r.ARROW_SCHEMA.with_metadata(digests.metadata(named)),
        fragments=[*written[:-1], kept, written[-1]],
        uuid=new_uuid(),
        properties={},
    )
    return keys


def _row(seq: int, key: str) -> r.RawRow:
    made = new_ulid()
    return codec.history_row(
        r.CommitRow(made, made, (new_ulid(),), None, 1, None, 1, "load", {}, idempotency_key=key, seq=seq, version=1)
    )
