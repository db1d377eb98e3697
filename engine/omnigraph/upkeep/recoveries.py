"""What recovery did, for people: who ended which write of whom, when and how. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from omnigraph.commit.engine import Engine
from omnigraph.commit.recovery import audit
from omnigraph.core.errors import InvalidInput
from omnigraph.core.meter import Meter
from omnigraph.core.shown import html_table, time_text
from omnigraph.upkeep.report import Report


@dataclass(frozen=True)
class RecoveryRecord(Report):
    """One operation that another process than its owner ended. ``recovered_by``: that process; ``tables``: per table the
    version before and the one that counts since."""

    op: str
    plan: str | None
    how: str
    commit_ids: tuple[str, ...]
    members: int
    branch: Mapping[str, str]
    original_actor: str | None
    recovered_by: str
    recovered_at: str
    tables: Mapping[str, Mapping[str, int]]


class RecoveryHistory(tuple[RecoveryRecord, ...]):
    """Recoveries, newest first. ``unreadable``: records that cannot be read, each with its place and the reason."""

    unreadable: tuple[audit.Unreadable, ...]

    @classmethod
    def of(cls, records: Iterable[RecoveryRecord], unreadable: Iterable[audit.Unreadable]) -> Self:
        made = cls(records)
        made.unreadable = tuple(unreadable)
        return made

    def to_dict(self) -> dict[str, Any]:
        return {
            "recoveries": [record.to_dict() for record in self],
            "unreadable": [vars(one) | {} for one in self.unreadable],
        }

    def _repr_html_(self) -> str:
        rows: list[tuple[Any, ...]] = [
            (r.recovered_at, r.op, r.how, ", ".join(r.commit_ids), r.original_actor, r.recovered_by) for r in self
        ]
        rows += [(None, one.place, f"cannot be read: {one.reason}", None, None, None) for one in self.unreadable]
        return html_table(
            ("when", "operation", "how", "commits", "actor", "recovered by"),
            rows,
            "recoveries",
            empty="nothing was recovered",
        )


def list_recoveries(engine: Engine, limit: object = None, meter: Meter | None = None) -> RecoveryHistory:
    """Recoveries on record, newest first."""
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise InvalidInput(f"limit is a whole number, not {str(limit)[:40]!r}", hint="leave it out for all of them")
    found, unreadable = audit.read_all(engine, meter or Meter())
    newest = list(reversed(found))[: limit if isinstance(limit, int) else None]
    return RecoveryHistory.of((_record(one) for one in newest), unreadable)


def _record(one: audit.Recovery) -> RecoveryRecord:
    facts = {name: value for name, value in vars(one).items() if name != "recovered_at_us"}
    return RecoveryRecord(**facts, recovered_at=time_text(one.recovered_at_us))
