"""``omnigraph status``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.options import All, Branches
from omnigraph.cli.render import Screen, bytes_text, count_text, duration_text
from omnigraph.cli.screenful import rest_text, worth_showing

if TYPE_CHECKING:
    from omnigraph.wire.status import BranchStatus, StatusReport


def run(
    call: Call,
    deep: Annotated[bool, typer.Option("--deep", help="Visit every table, not only the manifest.")] = False,
    branches: Branches = None,
    all_: All = False,
) -> Answer:
    """Show head, tables, pending writes and a verdict, in one screen."""
    with call.reading() as graph:
        report = graph.status(deep, branches)
    return Answer(report, lambda screen: _show(screen, report, all_))


def _show(screen: Screen, report: StatusReport, all_: bool) -> None:
    head, manifest = report.head, report.manifest
    age = "" if head.age_s is None else f", {duration_text(head.age_s)} ago"
    by = f" by {head.actor}" if head.actor else ""
    screen.pairs(
        [
            ("graph", report.uri),
            ("head", f"{head.commit_id} ({head.kind or 'commit'}{by}{age})"),
            ("storage", f"version {report.storage_version}, schema {report.schema_hash.removeprefix('sha256:')[:12]}"),
            (
                "manifest",
                f"version {manifest.version}, {count_text(manifest.fragments, 'fragment')}, {manifest.backlog:,} not cleaned up",
            ),
            ("history", _history(report)),
            ("upkeep", _upkeep(report)),
            ("pending", _pending(report)),
        ]
    )
    screen.line()
    tables = worth_showing(report.tables, lambda t: (t.drift or 0, t.fragments, t.bytes), all_=all_)
    columns = ["table", "rows", "deleted", "fragments", "unindexed", "bytes", "version"]
    rows: list[list[Any]] = [
        [t.table_key, t.rows, t.deleted_rows, t.fragments, t.unindexed_fragments, bytes_text(t.bytes), t.version]
        for t in tables
    ]
    if report.deep:
        columns += ["versions", "drift"]
        rows = [[*row, table.versions, table.drift] for row, table in zip(rows, tables, strict=True)]
    screen.table(columns, rows)
    if len(tables) < len(report.tables):
        screen.line(
            f"{rest_text(len(report.tables), len(tables), all_=True)}: {report.rows:,} rows, {bytes_text(report.bytes)} in all"
        )
    if len(report.branches) > 1:
        screen.line()
        listed = worth_showing(report.branches, lambda b: b.unsettled_tables, all_=all_)
        screen.table(
            ("branch", "newest commit", "own tables", "of them with files of others"),
            [(b.name, b.head, b.owned_tables, _unsettled(b)) for b in listed],
        )
        if len(listed) < len(report.branches):
            screen.line(rest_text(len(report.branches), len(listed), "branch", "branches", all_=True))
    screen.line()
    for note in report.notes:
        screen.line(f"note: {note}")
    for finding in report.findings[1:]:
        screen.line(f"also: {finding.message}{report.typed(finding)}")
    screen.line(report.verdict_line, style="green" if report.verdict == "healthy" else "bold yellow")


def _unsettled(branch: BranchStatus) -> str:
    size = f", {bytes_text(branch.unsettled_bytes)}" if branch.unsettled_bytes else ""
    return f"{branch.unsettled_tables}{size}"


def _upkeep(report: StatusReport) -> str:
    upkeep = report.upkeep
    parts = []
    if upkeep.optimized_at:
        parts.append(f"optimized {upkeep.optimized_at[:19]}Z")
    if upkeep.cleaned_at:
        by = f" by {upkeep.cleaned_by}" if upkeep.cleaned_by else ""
        parts.append(f"cleaned up {upkeep.cleaned_at[:19]}Z{by}")
    reclaimable = sum(table.reclaimable_bytes for table in report.tables)
    if reclaimable:
        parts.append(f"{bytes_text(reclaimable)} of deleted rows")
    return "; ".join(parts) or "has not run"


def _history(report: StatusReport) -> str:
    """From where on commits can be read; the boundary is what cleanups have given up."""
    oldest = report.upkeep.oldest_commit
    where = f"from {oldest} on" if oldest is not None else "from before what status reads"
    return f"can be read {where}; boundary {report.manifest.boundary}"


def _pending(report: StatusReport) -> str:
    if not report.pending_total:
        return "none"
    oldest = report.pending[0]
    return f"{report.pending_total}, the oldest {oldest.operation_id} for {duration_text(oldest.age_s)}"
