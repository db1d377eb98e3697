"""What people see of a batch in Dagster: the same numbers as in the receipt, in the places where the pages look for them.

Owns names of metadata. Numbers are plain ints and floats, so that the pages plot them over partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

import omnigraph as og
from omnigraph_pipelines.failures import rows_metadata

if TYPE_CHECKING:
    from omnigraph_pipelines.spark.staging import StagedBatch

TYPES_PLOTTED_MAX: Final = 40
REJECTED_SHOWN_MAX: Final = 10

Metadata = dict[str, Any]


def column_schema(declared: Any) -> dg.TableSchema:
    """The columns of a type, with what the schema demands of each."""
    key = tuple(getattr(declared, "key", None) or ())
    columns = []
    if declared.table_key.startswith("edge:"):
        ends = (("from", declared.src_type), ("to", declared.dst_type))
        columns += [_column(name, "String", nullable=False, said=f"id of a {kind}") for name, kind in ends]
    elif not key:
        columns.append(_column("id", "String", nullable=True, said="made where none is given"))
    uniques = {group[0] for group in declared.uniques if len(group) == 1}
    for one in declared.properties:
        unique = one.name in uniques or key == (one.name,)
        columns.append(_column(one.name, str(one.type).rstrip("?"), nullable=one.type.nullable, unique=unique))
    return dg.TableSchema(columns=columns)


def _column(name: str, kind: str, *, nullable: bool, unique: bool = False, said: str | None = None) -> dg.TableColumn:
    constraints = dg.TableColumnConstraints(nullable=nullable, unique=unique)
    return dg.TableColumn(name, kind, description=said, constraints=constraints)


def staged_table(staged: StagedBatch, table_key: str) -> Metadata:
    """Rows, bytes and fragments of one staged table."""
    shares = [share for part in staged.parts for share in part.tables if share.table_key == table_key]
    described = [share.staged for share in shares if share.staged is not None]
    return {
        "dagster/partition_row_count": sum(share.rows for share in shares),
        "bytes": sum(file.size for one in described for file in one.files),
        "fragments": sum(len(one.new) for one in described),
    }


def committed(receipt: og.Receipt, snapshot: og.Snapshot, table_keys: Iterable[str]) -> Metadata:
    """What one commit did, and how large the graph is now."""
    changes = receipt.tables
    cost = receipt.storage
    found: Metadata = {
        "commit_id": receipt.commit_id or "nothing changed",
        "replayed": receipt.replayed,
        "rows_inserted": sum(one.inserted for one in changes.values()),
        "rows_updated": sum(one.updated for one in changes.values()),
        "rows_deleted": sum(one.deleted for one in changes.values()),
        "rows_unchanged": sum(one.unchanged for one in changes.values()),
        "rows_rejected": receipt.rejected.total,
        "requests": cost.requests,
        "hops": cost.hops,
        "bytes_written": cost.bytes_written,
        "bytes_read": cost.bytes_read,
    }
    if changes:
        found["versions"] = rows_metadata({"table": key, **change.to_dict()} for key, change in sorted(changes.items()))
    rows = {key: snapshot.tables[key].rows for key in table_keys if key in snapshot.tables}
    found["dagster/row_count"] = sum(rows.values())
    for key, count in list(rows.items())[:TYPES_PLOTTED_MAX]:
        found[f"rows of {key.partition(':')[2]}"] = count
    return found


def rejected_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The first rows that were left out, with why."""
    shown = []
    for row in list(rows)[:REJECTED_SHOWN_MAX]:
        reasons = row.get("reasons") or [{}]
        first = reasons[0]
        place = " ".join(str(first[name]) for name in ("source", "record") if name in first)
        shown.append(
            {
                "where": place,
                "type": first.get("type", ""),
                "code": first.get("code", ""),
                "reason": first.get("message", ""),
                "record": str(row.get("record") or "")[:500],
            }
        )
    return shown
