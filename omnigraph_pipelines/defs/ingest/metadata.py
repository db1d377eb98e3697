"""What people see of a batch in Dagster: the same numbers as in the receipt, in the places where the pages look for them.

Owns names of metadata. Numbers are plain ints and floats, so that the pages plot them over partitions.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

import omnigraph as og
from omnigraph_pipelines.failures import rows_metadata
from omnigraph_pipelines.quarantine import TOP_MAX, QuarantineFile, Summary
from omnigraph_pipelines.wording import counted

if TYPE_CHECKING:
    from omnigraph_pipelines.spark.staged_batch import StagedBatch

TYPES_SHOWN_MAX: Final = 40
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
        kind, said = str(one.type).rstrip("?"), described(one)
        columns.append(_column(one.name, kind, nullable=one.type.nullable, unique=unique, said=said))
    return dg.TableSchema(columns=columns)


def described(declared: Any) -> str | None:
    """Return the ``@description`` of a type or a property of the schema."""
    return next((str(one.value) for one in declared.annotations if one.name == "description"), None)


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
        "fragments": str(
            sum(len(one.new) for one in described)
        ),  # a text: the pages plot numbers, and this one hardly changes
    }


@dataclass(frozen=True)
class Kept:
    """Where the rows that were left out are, and what is wrong with them."""

    entry: QuarantineFile
    summary: Summary


def committed(receipt: og.Receipt, snapshot: og.Snapshot, table_keys: Iterable[str]) -> Metadata:
    """Return what one commit did, in numbers that are of this batch alone.

    The pages plot numbers over partitions in the order of their names, so totals of the graph, which depend on what came before,
    are in a text. A replay did nothing and has no counts: they would be added to those of the commit.
    """
    found: Metadata = {"summary": in_one_line(receipt), "commit_id": receipt.commit_id or "nothing changed"}
    found["replayed"] = receipt.replayed
    if receipt.replayed:
        return found
    changes, cost = receipt.tables, receipt.storage
    inserted, updated = (sum(getattr(one, name) or 0 for one in changes.values()) for name in ("inserted", "updated"))
    found |= {
        "dagster/partition_row_count": inserted + updated,
        "rows_inserted": inserted,
        "rows_updated": updated,
        "rows_deleted": sum(one.deleted or 0 for one in changes.values()),
        "rows_unchanged": sum(one.unchanged or 0 for one in changes.values()),
        "rows_rejected": receipt.rejected.total,
    }
    found |= {"rows_dropped": sum(receipt.dropped.values())} if receipt.dropped else {}
    found |= {"stubs": sum(receipt.stubs.values())} if receipt.stubs else {}
    if changes:
        found["versions"] = rows_metadata({"table": key, **change.to_dict()} for key, change in sorted(changes.items()))
    spent = {"requests": cost.requests, "hops": cost.hops, "written": cost.bytes_written, "read": cost.bytes_read}
    found["cost"] = rows_metadata([spent])
    return found


def in_one_line(receipt: og.Receipt) -> str:
    """Return a commit as a person would say it."""
    if receipt.replayed:
        what = "changes nothing" if receipt.commit_id is None else f"is commit {receipt.commit_id}"
        return f"the graph had this batch already: it {what}"
    counts = {name: sum(getattr(one, name) or 0 for one in receipt.tables.values()) for name in _COUNTS}
    parts = [f"{count:,} {name}" for name, count in counts.items() if count]
    if receipt.rejected:
        parts.append(f"{receipt.rejected.total:,} left out")
    parts += [f"{count:,} {name} dropped" for name, count in receipt.dropped.items()]
    parts += [f"{counted(count, 'stub')} of {name}" for name, count in receipt.stubs.items()]
    return ", ".join(parts) or "no rows"


_COUNTS: Final = ("inserted", "updated", "deleted", "unchanged")


def what_changed(
    receipt: og.Receipt,
    graph: og.Graph,
    branch: str,
    table_keys: Iterable[str],
    kept: Kept | None,
    spark_ui: str | None = None,
) -> str:
    """Return the commit as a page: rows by type, what was left out and why, how to look closer."""
    snapshot = graph.snapshot(branch)
    lines = [in_one_line(receipt), "", "| type | inserted | updated | deleted | unchanged | in the graph |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for key in list(table_keys)[:TYPES_SHOWN_MAX]:
        change = None if receipt.replayed else receipt.tables.get(key)
        counts = ["" if receipt.replayed else f"{getattr(change, name, 0) or 0:,}" for name in _COUNTS]
        total = f"{snapshot.tables[key].rows:,}" if key in snapshot.tables else "0"
        lines.append(f"| {key.partition(':')[2]} | {' | '.join(counts)} | {total} |")
    if kept is not None:
        lines += [
            "",
            f"**{counted(kept.summary.rows, 'row')} left out**, kept in `{kept.entry.path}`",
            "",
            "| reason | rows |",
        ]
        lines += ["|---|---:|", *(f"| {code} | {count:,} |" for code, count in kept.summary.reasons.items())]
    missing = {} if kept is None else kept.summary.missing
    if receipt.dropped or receipt.stubs:
        missing = dict(list(receipt.rejected.missing_ids.items())[:TOP_MAX])
    if missing:
        lines += ["", "| missing id | rows |", "|---|---:|"]
        lines += [f"| `{_cell_text(value)}` | {count:,} |" for value, count in missing.items()]
    if receipt.commit_id is not None:
        commands = _to_look_closer(graph, receipt.commit_id)
        lines += ["", "```sh", *commands, "```"] if commands else []
    if spark_ui is not None:
        lines += ["", f"[The page of the Spark that staged it]({spark_ui}), while that runs"]
    return "\n".join(lines)


def _to_look_closer(graph: og.Graph, commit_id: str) -> list[str]:
    """Return commands to copy: what the commit is, and the rows that it changed, from its parent on."""
    uri = shlex.quote(graph.uri)
    try:
        parents = graph.commit(commit_id).parents
    except (og.errors.NotFound, og.errors.Reclaimed):  # of a replay whose commit a cleanup has taken
        return []
    diffs = [f"omnigraph diff {uri} {parent} {commit_id}" for parent in parents[:1]]
    return [f"omnigraph commit show {uri} {commit_id}", *diffs]


def _cell_text(value: str) -> str:
    return value.replace("|", "\\|").replace("`", "'")[:80]


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
