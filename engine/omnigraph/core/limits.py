"""The bounds on what one call may ask for, in one place. Owns the numbers and the one check; knows nothing of who checks.

A bound exists so that a mistake is answered at once by name, instead of by a machine out of memory half-way. Reaching
a bound is allowed, passing it by one is not.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from omnigraph.core.errors import LimitExceeded

_MIB = 1024 * 1024


def _limit(default: int, what: str) -> int:
    value: int = field(default=default, metadata={"what": what})
    return value


@dataclass(frozen=True, slots=True)
class Limits:
    """Every bound, with its default. ``dataclasses.replace`` makes a variant."""

    # One record is held whole in memory by readers that do not know its end yet.
    record_bytes: int = _limit(32 * _MIB, "bytes of one record")
    # Ids are index keys and appear in every error and every edge.
    id_bytes: int = _limit(1_024, "bytes of one id")
    # Names of types, properties and branches become parts of paths; object stores stop at 1,024 bytes a key.
    name_chars: int = _limit(128, "characters of one name")
    types: int = _limit(2_000, "types of one schema")
    # One thread and four requests a table; an intent also has to hold them all.
    tables_per_commit: int = _limit(256, "tables changed by one commit")
    # Merge and overwrite compare with what is there, which holds the input; an append of readers does not.
    merge_rows: int = _limit(20_000_000, "rows merged by one commit")
    overwrite_rows: int = _limit(20_000_000, "rows written over by one commit")
    source_text_bytes: int = _limit(10_000_000, "bytes of one schema or query text")
    # Parsers recurse; Python's own stack ends at a thousand frames.
    nesting: int = _limit(200, "levels of nesting")
    # An intent is read whole by recovery.
    intent_bytes: int = _limit(4 * _MIB, "bytes of one intent")
    # Held whole in memory when it is written and read.
    note_bytes: int = _limit(64 * _MIB, "bytes of one note")
    # What upkeep copies on its own account, so that main can be read without the files of a branch.
    settled_bytes: int = _limit(
        256 * _MIB, "bytes of other lines that optimize copies into one table of main by itself"
    )
    actor_bytes: int = _limit(256, "bytes of an actor")
    idempotency_key_bytes: int = _limit(256, "bytes of an idempotency key")

    def check(self, name: str, actual: int, *, where: str | None = None) -> None:
        """Raise ``LimitExceeded`` if ``actual`` passes the bound ``name``; ``where`` says what was measured."""
        bound: int = getattr(self, name)
        if actual <= bound:
            return
        what = next(f.metadata["what"] for f in dataclasses.fields(self) if f.name == name)
        subject = f"{where}: too many {what}" if where else f"too many {what}"
        raise LimitExceeded(
            f"{subject}: limit={name} bound={bound} actual={actual}", limit=name, bound=bound, actual=actual
        )

    def to_dict(self) -> dict[str, int]:
        return dataclasses.asdict(self)


DEFAULT_LIMITS = Limits()
