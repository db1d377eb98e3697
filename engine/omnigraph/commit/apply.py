"""Table commits of one plan: send them, and say of each exactly where it stands.

The landing rule lives here: an effect counts only at pin + 1, also when everything in between has been published since.
Two staged inserts of one key would otherwise both stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import wait
from dataclasses import dataclass
from enum import Enum
from typing import Any

from omnigraph.commit.engine import Engine, gather
from omnigraph.commit.plan import PublishPlan, TablePlan
from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.table.dataset import CommitUnknown, NotLanded, TableRef


class Landing(Enum):
    EXACT = "exact"
    OFF = "off"  # it landed, but not at pin + 1
    REFUSED = "refused"  # Lance says that it did not land
    UNKNOWN = "unknown"
    NOT_SENT = "not-sent"


@dataclass(frozen=True)
class Applied:
    """What became of one table's transaction."""

    key: str
    landing: Landing
    version: int | None = None
    handle: Any = None
    error: BaseException | None = None

    @property
    def may_stand(self) -> bool:
        """Whether something of ours stands, or may come to stand, above the pin."""
        return self.landing in (Landing.EXACT, Landing.OFF, Landing.UNKNOWN)


def apply(
    engine: Engine,
    plan: PublishPlan,
    staged: Mapping[str, Any],
    handles: Mapping[str, Any],
    *,
    serial: bool,
    meter: Meter,
) -> dict[str, Applied]:
    """Commit each table's transaction on its handle at the pin.

    Side by side, or one after the other in key order where this writer competes without a ticket: two writers that cross
    (first on A, second on B) could save neither. The serial form stops at the first table that is not exact.
    """
    tables = sorted(plan.tables, key=lambda table: table.key)
    if not serial:
        calls = [
            engine.spawn(_commit, engine, table, staged[table.key], handles[table.key], meter) for table in tables[1:]
        ]
        try:
            first = _commit(engine, tables[0], staged[tables[0].key], handles[tables[0].key], meter)
        finally:
            wait(calls)  # whatever ends this write, none of its commits is still on its way when it is told
        return {one.key: one for one in (first, *gather(calls))}
    results: dict[str, Applied] = {}
    for table in tables:
        if any(one.landing is not Landing.EXACT for one in results.values()):
            results[table.key] = Applied(table.key, Landing.NOT_SENT)
            continue
        results[table.key] = _commit(engine, table, staged[table.key], handles[table.key], meter)
    return results


def _commit(engine: Engine, table: TablePlan, transaction: Any, handle: Any, meter: Meter) -> Applied:
    ref = TableRef(table.path, table.ref)
    failpoints.hit("apply.before_commit", table_key=table.key)
    try:
        landed = engine.tables.commit(ref, handle, transaction, meter)
    except NotLanded as error:
        return Applied(table.key, Landing.REFUSED, error=error)
    except CommitUnknown as error:
        return find_landing(engine, table, handle, error, meter)
    failpoints.hit("apply.after_commit", table_key=table.key)
    if landed.version == table.pin + 1:
        return Applied(table.key, Landing.EXACT, landed.version, landed)
    return Applied(table.key, Landing.OFF, landed.version, landed)


def find_landing(engine: Engine, table: TablePlan, handle: Any, error: BaseException | None, meter: Meter) -> Applied:
    """Resolve an unknown answer by reading: is our transaction at pin + 1, above it, or nowhere so far?"""
    ref = TableRef(table.path, table.ref)
    uuid = table.uuids[0]
    try:
        head = engine.tables.head_version(handle, meter)
        for version in range(table.pin + 1, head + 1):
            note = engine.tables.transaction_at(ref, handle, version, meter)
            if note is not None and note.uuid == uuid:
                landed = engine.tables.open(ref, version, meter)
                exact = version == table.pin + 1
                return Applied(table.key, Landing.EXACT if exact else Landing.OFF, version, landed, error)
    except OmnigraphError as second:
        second.__context__ = error
        return Applied(table.key, Landing.UNKNOWN, error=second)
    return Applied(table.key, Landing.UNKNOWN, error=error)
