"""What recovery has done, one row an operation, in a dataset beside the graph.

Written after the graph itself is settled and before the intent is deleted, so that a recovery that dies in between is
finished by the next one: the row is keyed by the operation and stands once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.commit.engine import Engine
from omnigraph.core import failpoints
from omnigraph.store import layout
from omnigraph.table import journal
from omnigraph.table.dataset import TableRef

ROLLED_FORWARD = "RolledForward"
ROLLED_BACK = "RolledBack"
ORPHANED_BRANCH_DISCARDED = "OrphanedBranchDiscarded"
RECOVERY_ACTOR = "omnigraph:recovery"

_FIELDS: list[pa.Field[Any]] = [
    pa.field("operation_id", pa.string(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
    pa.field("kind", pa.string(), nullable=False),
    pa.field("commit_id", pa.string()),
    pa.field("branch", pa.string()),
    pa.field("original_actor", pa.string()),
    pa.field("recovered_at_us", pa.int64(), nullable=False),
    pa.field("tables", pa.string(), nullable=False),
]
SCHEMA = pa.schema(_FIELDS)


@dataclass(frozen=True)
class AuditRow:
    """One recovered operation. ``tables``: per table the version before and the one that stands for it now."""

    operation_id: str
    kind: str
    commit_id: str | None
    branch: str
    original_actor: str | None
    recovered_at_us: int
    tables: Mapping[str, Mapping[str, int]]

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "tables": {key: dict(value) for key, value in sorted(self.tables.items())}}


def write(engine: Engine, row: AuditRow) -> bool:
    """Record the row once. False: an earlier attempt already had."""
    failpoints.hit("audit.before_write", operation_id=row.operation_id)
    values = row.to_dict()
    values["tables"] = json.dumps(values["tables"], sort_keys=True)
    table = pa.table({name: [values[name]] for name in SCHEMA.names}, schema=SCHEMA)
    return journal.insert_once(engine.tables, TableRef(layout.AUDIT), SCHEMA, "operation_id", table)


def read(engine: Engine) -> list[AuditRow]:
    """Every recovery so far, oldest first."""
    table = journal.read_all(engine.tables, TableRef(layout.AUDIT))
    if table is None:
        return []
    rows = [AuditRow(**{**row, "tables": json.loads(row["tables"])}) for row in table.to_pylist()]
    return sorted(rows, key=lambda row: (row.recovered_at_us, row.operation_id))
