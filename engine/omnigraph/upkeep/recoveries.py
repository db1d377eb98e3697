"""What recovery did, for people: who ended which write of whom, when and how. Reads only."""

from __future__ import annotations

from omnigraph.commit.engine import Engine
from omnigraph.commit.recovery import audit
from omnigraph.core.errors import InvalidInput
from omnigraph.core.meter import Meter
from omnigraph.core.shown import time_text
from omnigraph.wire.recovery import RecoveryHistory, RecoveryRecord, UnreadableRecord


def list_recoveries(engine: Engine, limit: object = None, meter: Meter | None = None) -> RecoveryHistory:
    """Recoveries on record, newest first."""
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise InvalidInput(f"limit is a whole number, not {str(limit)[:40]!r}", hint="leave it out for all of them")
    found, unreadable = audit.read_all(engine, meter or Meter())
    newest = list(reversed(found))[: limit if isinstance(limit, int) else None]
    return RecoveryHistory.of(
        (_record(one) for one in newest), (UnreadableRecord(one.place, one.reason) for one in unreadable)
    )


def _record(one: audit.Recovery) -> RecoveryRecord:
    facts = {name: value for name, value in vars(one).items() if name != "recovered_at_us"}
    return RecoveryRecord(**facts, recovered_at=time_text(one.recovered_at_us))
