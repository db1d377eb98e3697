"""Reports of the engine as metadata: one summary for people, numbers for plots, a table for details. Computes nothing new.

A number keeps its name from run to run and is there also when nothing was done, so that plots have no holes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import dagster as dg

from omnigraph_pipelines.wording import counted

ROWS_SHOWN_MAX: Final = 50

Told = dict[str, Any]


# --- optimize -----------------------------------------------------------------------------------------------------------


def optimized(report: Any) -> Told:
    tables = report.tables
    changed = [table for table in tables if table.committed]
    manifest = report.manifest
    before, after = sum(table.fragments_before for table in tables), sum(table.fragments for table in tables)
    told: Told = {
        "summary": f"{len(changed)} of {counted(len(tables), 'table')} changed; {counted(before, 'fragment')} to {after}",
        "dry_run": False,
        "tables_changed": len(changed),
        "tables_skipped": len(report.skipped),
        "fragments_before": before,
        "fragments": after,
        "rewrites": sum(table.rewrites for table in tables),
        "rows_rewritten": sum(table.rows_rewritten for table in tables),
        "bytes_rewritten": sum(table.bytes_rewritten for table in tables),
        "indexes_built": sum(len(table.indices_built) + len(table.indices_folded) for table in tables),
        "indexes_pending": len(report.pending_indexes),
        "conflicts": sum(table.conflicts for table in tables),
        "commits": len(report.commits),
        "archive_fragments": 0 if manifest is None else manifest.fragments,
    }
    shown = [table for table in tables if table.committed or table.skipped]
    if shown:
        told["tables"] = _table(
            {
                "table": table.table_key,
                "fragments before": table.fragments_before,
                "fragments": table.fragments,
                "bytes rewritten": table.bytes_rewritten,
                "indexes": ", ".join([*table.indices_built, *table.indices_folded]),
                "skipped because": table.skipped or "",
            }
            for table in shown
        )
    return told


def planned_rewrites(plan: Any) -> Told:
    by_table: dict[str, list[Any]] = {}
    for task in plan.tasks:
        by_table.setdefault(task.table_key, []).append(task)
    told: Told = {
        "summary": f"{counted(len(plan.tasks), 'rewrite')} in {counted(len(by_table), 'table')} would be made",
        "dry_run": True,
        "rewrites": len(plan.tasks),
        "bytes_rewritten": plan.bytes,
    }
    if by_table:
        told["tables"] = _table(
            {
                "table": key,
                "fragments": sum(task.fragments for task in tasks),
                "rows": sum(task.rows for task in tasks),
                "bytes": sum(task.bytes for task in tasks),
            }
            for key, tasks in sorted(by_table.items())
        )
    return told


# --- compaction of the history ------------------------------------------------------------------------------------------


def compacted(report: Any) -> Told:
    return {
        "summary": f"{report.fragments_before} archive fragments to {report.fragments}"
        if report.changed
        else f"{report.fragments} archive fragments, nothing to merge",
        "dry_run": False,
        "changed": report.changed,
        "fragments_before": report.fragments_before,
        "fragments": report.fragments,
        "history_rows": report.rows,
        "manifest_version": report.version,
    }


# --- cleanup ------------------------------------------------------------------------------------------------------------


# The backlog is of the history alone, what is deleted also of tables; and a cleanup adds a few versions by its own marks.


def cleaned(report: Any, backlog_before: int, backlog: int) -> Told:
    told: Told = {
        "summary": f"{counted(report.versions, 'version')} deleted; backlog {backlog_before} to {backlog}",
        "dry_run": False,
        "backlog_before": backlog_before,
        "backlog": backlog,
        "versions_deleted": report.versions,
        "bytes_reclaimed": report.bytes,
        "orphans_deleted": len(report.orphans),
        "versions_spared": report.spared,
        "failures": len(report.errors),
        "policy": report.policy.text,
    }
    if report.boundaries:
        told["boundary"] = max(report.boundaries.values())
    if report.run is not None:
        told["record"] = f"__cleanup/{report.run}.json"
    if report.tables:
        told["tables"] = _table(
            {
                "table": table.table_key,
                "versions": table.doomed,
                "files": table.deleted.files,
                "bytes": table.deleted.bytes,
                "error": table.error or "",
            }
            for table in report.tables
        )
    return told


def planned_cleanup(plan: Any, backlog: int) -> Told:
    told: Told = {
        "summary": f"{counted(plan.versions, 'version')} would be deleted; backlog {backlog}",
        "dry_run": True,
        "backlog": backlog,
        "versions_doomed": plan.versions,
        "orphans": len(plan.orphans),
        "policy": plan.policy.text,
        "oldest_commit_kept": ", ".join(f"{branch}: {commit}" for branch, commit in sorted(plan.oldest.items())),
    }
    doomed = [line for line in plan.to_dict()["tables"] if line["versions"]]
    if doomed:
        told["tables"] = _table(
            {"table": line["table_key"], "versions": line["doomed"], "kept": line["kept"], "why": line["reason"]}
            for line in doomed
        )
    return told


# --- reconcile ----------------------------------------------------------------------------------------------------------


def pending(intents: Sequence[Any]) -> Told:
    told: Told = {
        "summary": f"{counted(len(intents), 'pending write')}",
        "dry_run": True,
        "pending": len(intents),
        "oldest_s": round(max((one.age_s for one in intents), default=0.0), 1),
    }
    if intents:
        told["writes"] = _table(
            {
                "operation": one.operation_id,
                "kind": one.kind,
                "age s": round(one.age_s, 1),
                "tables": ", ".join(one.tables),
                "what a recovery does": one.explanation,
            }
            for one in intents
        )
    return told


def reconciled(before: Sequence[Any], report: Any, outcomes: Mapping[str, str]) -> Told:
    """``before``: the intents as they were; ``outcomes``: of each that had a plan, what became of it."""
    ends = {one.operation_id: _end(one, report, outcomes) for one in before}
    count = Counter(ends.values())
    told: Told = {
        "summary": f"{counted(len(before), 'pending write')}: {count['published']} published, {count['undone']} undone, "
        f"{count['cleared']} cleared away, {count['left']} left to their owners; {counted(len(report.healed), 'table')} put back",
        "dry_run": False,
        "pending_before": len(before),
        "rolled_forward": count["published"],
        "rolled_back": count["undone"],
        "cleared": count["cleared"],
        "left": count["left"],
        "tables_healed": len(report.healed),
        "tables_drifting": len(report.drifting),
    }
    if before:
        told["writes"] = _table(
            {
                "operation": one.operation_id,
                "kind": one.kind,
                "commit": one.commit_id or "",
                "age s": round(one.age_s, 1),
                "tables": ", ".join(one.tables),
                "end": ends[one.operation_id],
            }
            for one in before
        )
    if report.healed or report.drifting:
        told["tables"] = _table(
            {"table": one.key, "published": one.pin, "newest": one.head, "state": one.state}
            for one in (*report.healed, *report.drifting)
        )
    return told


def _end(intent: Any, report: Any, outcomes: Mapping[str, str]) -> str:
    if intent.operation_id in report.left:
        return "left"
    state = outcomes.get(intent.operation_id)
    return {"landed": "published", "aborted": "undone", "absent": "undone", "pending": "left"}.get(
        state or "", "cleared"
    )


# --- scrub --------------------------------------------------------------------------------------------------------------


def scrubbed(report: Any, seconds: float) -> Told:
    damage = damaged(report)
    found = f"{len(damage)} problems" if damage else "all as they were written"
    return {
        "summary": f"{counted(report.files, 'file')} compared with their checksums: {found}",
        "dry_run": False,
        "files": report.files,
        "bytes": report.bytes,
        "damaged": len(damage),
        "tables_seen": report.tables,
        "seconds": round(seconds, 1),
    }


def damaged(report: Any) -> list[Any]:
    return [problem for problem in report.problems if problem.severity == "damage"]


def damage_table(report: Any) -> dg.TableMetadataValue:
    return _table({"table": one.table_key or "", "code": one.code, "what": one.message} for one in damaged(report))


# --- shared -------------------------------------------------------------------------------------------------------------


def _table(rows: Iterable[Mapping[str, Any]]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table([dg.TableRecord(dict(row)) for row in list(rows)[:ROWS_SHOWN_MAX]])
