"""``omnigraph history``: the commits that changed one row."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.options import Branch
from omnigraph.cli.render import Screen
from omnigraph.cli.values import as_json_value, as_text, second_text
from omnigraph.wire.history import HistoryOfRow, RowChange, RowHistory

_SHOWN_CHARS = 60


def run(
    call: Call,
    branch: Branch = "main",
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="The newest N only.")] = None,
    by: Annotated[str | None, typer.Option("--actor", metavar="ACTOR", help="Those of one actor only.")] = None,
) -> Answer:
    """Show who changed a row: its commits, newest first.

    With what each changed, as far back as a cleanup has left it. The id is the key as text. --json has both rows whole.
    """
    type_, row_id = call.subjects
    with call.reading() as graph:
        changes = graph.history(type_, row_id, branch, limit=limit if by is None else None)
    if by is not None:
        changes = _of_actor(changes, by, limit)
    printed = tuple(replace(one, before=as_json_value(one.before), after=as_json_value(one.after)) for one in changes)
    found = HistoryOfRow(branch, type_, row_id, printed, changes.reclaimed)
    return Answer(found, lambda screen: _show(screen, type_, row_id, changes))


def _of_actor(changes: RowHistory, actor: str, limit: int | None) -> RowHistory:
    """The newest changes of one actor."""
    found = RowHistory([one for one in changes if one.actor == actor][:limit])
    found.reclaimed = changes.reclaimed
    return found


def _show(screen: Screen, type_: str, row_id: str, changes: RowHistory) -> None:
    rows = [(one.commit_ids[-1], second_text(one.created_at), one.actor, one.kind, _values(one)) for one in changes]
    if rows:
        screen.table(("commit", "created", "actor", "kind", "changed"), rows)
    else:
        screen.note(f"no commit that can be read changed {type_} {row_id!r}")
    for one in changes:
        if len(one.commit_ids) > 1:
            screen.note(f"{one.commit_ids[-1]} shares its swap and the table with {', '.join(one.commit_ids[:-1])}")
    if changes.reclaimed is not None:
        screen.warn(f"what commit {changes.reclaimed} and older ones did to the row was cleaned up")


def _values(change: RowChange) -> str:
    if change.after is None:
        return ""
    given = [name for name in change.changed if name != "id"]
    if change.before is None:
        return ", ".join(f"{name}: {_text(change.after[name])}" for name in given if change.after[name] is not None)
    before = change.before
    return ", ".join(f"{name}: {_text(before.get(name))} → {_text(change.after[name])}" for name in given)


def _text(value: Any) -> str:
    text = "null" if value is None else as_text(value)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"
