"""``omnigraph branch merge``: do to one branch what was done to another since they parted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.options import DEADLINE_S, Deadline, ExpectHead, Key
from omnigraph.cli.render import Screen, count_text
from omnigraph.core.errors import InvalidInput, MergeConflict
from omnigraph.wire.merge import BranchMerged, MergePlan

_SHOWN_MAX = 20


def run_merge(
    call: Call,
    into: Annotated[str, typer.Option("--into", metavar="NAME", help="The branch to change.")] = "main",
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="PLACE", help="Merge the source as of one of its commits, or of a time."),
    ] = None,
    strict_rows: Annotated[
        bool,
        typer.Option("--strict-rows", help="Conflict also where both sides changed different properties of a row."),
    ] = False,
    allow_data_loss: Annotated[
        bool, typer.Option("--allow-data-loss", help="Leave out what one side changed of what the other dropped.")
    ] = False,
    delete_source: Annotated[
        bool, typer.Option("--delete-source", help="Delete the source once it is merged.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would come, and do nothing.")] = False,
    conflicts_to: Annotated[
        Path | None,
        typer.Option("--conflicts-to", metavar="FILE", help="Write the source's rows in conflict there, for a load."),
    ] = None,
    key: Key = None,
    expect_head: ExpectHead = None,
    deadline: Deadline = DEADLINE_S,
) -> Answer:
    """Merge a branch into another, as one commit.

    What both sides changed differently is listed, all of it, and nothing is done.
    """
    try:
        if dry_run:
            with call.reading() as graph:
                plan = graph.branches.merge(
                    call.subject,
                    into,
                    at,
                    strict_rows=strict_rows,
                    allow_data_loss=allow_data_loss,
                    expect_head=expect_head,
                    dry_run=True,
                )
            return Answer(plan, lambda screen: _show_plan(screen, plan))
        with call.writing() as graph, call.screen.busy("merging"):
            receipt = graph.branches.merge(
                call.subject,
                into,
                at,
                strict_rows=strict_rows,
                allow_data_loss=allow_data_loss,
                delete_source=delete_source,
                idempotency_key=key,
                expect_head=expect_head,
                deadline_s=deadline,
            )
            done = BranchMerged.extending(receipt, uri=graph.uri)
    except MergeConflict as conflict:
        _show_conflicts(call, conflict, conflicts_to)
        raise
    return Answer(done, lambda screen: _show(screen, done))


def _show(screen: Screen, done: BranchMerged) -> None:
    if done.commit_id is None:
        screen.line(f"{done.branch} has everything of {done.source} already")
    else:
        again = " (replayed: this key was used before)" if done.replayed else ""
        rows = [(key, t.via, t.version, t.inserted, t.updated, t.deleted) for key, t in done.tables.items()]
        if rows:
            screen.table(("table", "via", "version", "inserted", "updated", "deleted"), rows)
        screen.line(f"merged {done.source} into {done.branch}: {done.outcome}")
        screen.line(f"commit {done.commit_id}{again}")
    for warning in done.warnings:
        screen.warn(f"warning: {warning}")


def _show_plan(screen: Screen, plan: MergePlan) -> None:
    rows = [(key, ", ".join(t.effects), t.version, t.inserted, t.updated, t.deleted) for key, t in plan.tables.items()]
    if rows:
        screen.table(("table", "effects", "version", "inserted", "updated", "deleted"), rows)
    commits = count_text(plan.commits, "commit")
    screen.line(f"{plan.source} into {plan.branch}: {plan.outcome}, {commits} would come along")
    screen.note("nothing was done; repeat without --dry-run to do it")


def _show_conflicts(call: Call, conflict: MergeConflict, path: Path | None) -> None:
    if path is not None:
        try:
            path.write_text(conflict.to_ndjson(side="source"), encoding="utf-8")
        except OSError as error:
            raise InvalidInput(
                f"the conflicts cannot be written to {path}: {error.strerror}",
                hint="give the path of a file that can be made",
            ) from error
    if call.as_json:
        return
    for one in conflict.facts["conflicts"][:_SHOWN_MAX]:
        where = ".".join(str(part) for part in (one["type"], one["property"]) if part is not None)
        row = "" if one["id"] is None else f" {one['id']}"
        sides = ", ".join(f"{side} {one[side]!r}" for side in ("base", "source", "target"))
        call.screen.note(f"{one['kind']} {where}{row}: {one.get('message') or sides}")
    if conflict.facts["total"] > _SHOWN_MAX:
        call.screen.note(f"and {conflict.facts['total'] - _SHOWN_MAX} more")
