"""``omnigraph branch create | list | delete | merge``: work beside main, and bring it back."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.options import DEADLINE_S, Deadline, ExpectHead, Key
from omnigraph.cli.render import Screen, count_text
from omnigraph.cli.values import second_text
from omnigraph.core.errors import InvalidInput, MergeConflict, NotFound, PreconditionFailed
from omnigraph.wire.branches import BranchDeleted, BranchInfo, BranchNames
from omnigraph.wire.merge import BranchMerged, MergePlan

MAIN = "main"


def run_create(
    call: Call,
    from_: Annotated[str, typer.Option("--from", metavar="NAME", help="The branch to make it from.")] = "main",
    at: Annotated[
        str | None, typer.Option("--at", metavar="COMMIT_ID", help="Make it from this commit; default: the newest.")
    ] = None,
    expect_head: ExpectHead = None,
    deadline: Deadline = DEADLINE_S,
) -> Answer:
    """Make a branch from another one; no table is copied.

    A table gets files of the branch's own at its first write there.
    """
    with call.writing() as graph:
        made = graph.branches.create(call.subject, from_, at, expect_head=expect_head, deadline_s=deadline)
    return Answer(made, lambda screen: screen.line(f"{made.name} is made from {from_}, at commit {made.head}"))


def run_list(
    call: Call,
    heads: Annotated[
        bool, typer.Option("--heads", help="Open each branch: its newest commit, and what it was made from.")
    ] = False,
) -> Answer:
    """List the branches, main first."""
    with call.reading() as graph:
        found = BranchNames(tuple(graph.branches.list(heads)))
    return Answer(found, lambda screen: _show_list(screen, found.branches, heads=heads))


def run_delete(
    call: Call,
    confirm: Annotated[bool, typer.Option("--confirm", help="Delete; without it, only show what would go.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Consent for a remote store, without a question at the terminal.")
    ] = False,
    expect_head: ExpectHead = None,
    deadline: Deadline = DEADLINE_S,
) -> Answer:
    """Show what deleting a branch would lose; with --confirm delete it.

    Its name is free then. What was merged stays; a later cleanup deletes the files of the rest.
    """
    if not confirm:
        with call.reading() as graph:
            found = _to_delete(graph.branches.list(heads=True), call.subject, expect_head)
        return Answer(found, lambda screen: _show_deleted(screen, found))
    call.want_consent("branch delete --confirm", yes=yes)
    with call.writing() as graph:
        gone = graph.branches.delete(call.subject, expect_head=expect_head, deadline_s=deadline)
    done = BranchDeleted(gone.name, gone.identity, gone.head, deleted=True)
    return Answer(done, lambda screen: _show_deleted(screen, done))


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
        if conflicts_to is not None:
            _kept_for_a_load(conflict, conflicts_to)
        if any(conflict.facts["records"].values()):  # else there is nothing that a load could take
            conflict.hint = _way_out(call, into, conflicts_to)
        raise
    return Answer(done, lambda screen: _show(screen, done))


def _to_delete(branches: Sequence[BranchInfo], name: str, expect_head: str | None) -> BranchDeleted:
    """What a deletion would delete, or the error that it would raise."""
    found = next((one for one in branches if one.name == name), None)
    if name == MAIN:
        raise InvalidInput("main is the branch that every graph has, and is not deleted", hint="delete another branch")
    if found is None:
        raise NotFound(
            f"no branch {name!r}", hint="`omnigraph branch list` shows the branches of the graph", branch=name
        )
    if expect_head is not None and found.head != expect_head:
        raise PreconditionFailed(
            f"the head of {name} is {found.head}, not {expect_head}", expected=expect_head, actual=found.head
        )
    return BranchDeleted(found.name, found.identity, found.head, deleted=False)


def _show_list(screen: Screen, branches: Sequence[BranchInfo], *, heads: bool) -> None:
    if not heads:
        screen.table(("branch", "created at"), [(one.name, _since(one)) for one in branches])
        return
    made_from = [
        None if b.parent is None else f"{b.parent.branch or 'a branch'} {b.parent.commit_id}" for b in branches
    ]
    rows = [(b.name, b.head, source, _since(b)) for b, source in zip(branches, made_from, strict=True)]
    screen.table(("branch", "newest commit", "made from", "created at"), rows)


def _since(branch: BranchInfo) -> str | None:
    return None if branch.created_at is None else second_text(branch.created_at)


def _show_deleted(screen: Screen, done: BranchDeleted) -> None:
    if done.deleted:
        screen.line(f"{done.name} is deleted; its newest commit was {done.head}")
        return
    screen.line(f"{done.name} would be deleted, with what it has since it was made and nothing has merged")
    screen.line(f"its newest commit is {done.head}")
    screen.note("nothing was deleted; repeat with --confirm to delete it")


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


def _kept_for_a_load(conflict: MergeConflict, path: Path) -> None:
    try:
        path.write_text(conflict.to_ndjson(side="source"), encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"the conflicts cannot be written to {path}: {error.strerror}",
            hint="give the path of a file that can be made",
        ) from error


def _way_out(call: Call, into: str, path: Path | None) -> str:
    """What to do about conflicts, as commands."""
    if path is None:
        return f"repeat with --conflicts-to FILE: it has the rows of {call.subject}, for a load into {into}"
    load = shlex.join(["omnigraph", "load", call.uri, "--mode", "patch", "--branch", into, "--data", str(path)])
    return f"to take what {call.subject} has, run `{load}` and merge again; to keep what {into} has, load its rows into {call.subject}"
