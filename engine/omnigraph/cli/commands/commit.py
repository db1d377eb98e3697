"""``omnigraph commit list | show | outcome``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.options import Branch
from omnigraph.cli.render import Screen
from omnigraph.wire.history import CommitList


def run_list(
    call: Call,
    branch: Branch = "main",
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="The newest N only.")] = None,
    by: Annotated[str | None, typer.Option("--actor", metavar="ACTOR", help="Those of one actor only.")] = None,
) -> Answer:
    """List the commits of a branch, newest first."""
    with call.reading() as graph:
        commits = graph.commits(branch, actor=by, limit=limit)
    found = CommitList(branch, tuple(commits))
    return Answer(found, lambda screen: _show_list(screen, found.to_dict()["commits"]))


def run_show(call: Call) -> Answer:
    """Show one commit."""
    with call.reading() as graph:
        commit = graph.commit(call.subject)
    return Answer(commit, lambda screen: _show_commit(screen, commit.to_dict()))


def run_outcome(call: Call) -> Answer:
    """Tell what became of a write: landed, aborted, pending or absent.

    Absent means that it cannot land any more. Pending names the operation; its end decides.
    """
    with call.reading() as graph:
        outcome = graph.outcome(call.subject)
    return Answer(outcome, lambda screen: _show_outcome(screen, outcome.to_dict(), outcome.hint))


def _show_list(screen: Screen, commits: list[dict[str, Any]]) -> None:
    rows = [
        (commit["id"], commit["created_at"][:19] + "Z", commit["actor"], commit.get("kind"), _summary(commit))
        for commit in commits
    ]
    screen.table(("commit", "created", "actor", "kind", "changed"), rows)


def _summary(commit: dict[str, Any]) -> str:
    """What a change of the schema did, else the rows of each table."""
    if not commit.get("schema"):
        return _changed(commit["tables"])
    return "; ".join(_first_three([_step(step) for step in commit["schema"]["steps"]]))


def _step(step: dict[str, Any]) -> str:
    """``drop_property mood: String?``, ``widen I32? -> I64?``: a stored step has identities, and its text the names."""
    sides = [_on_a_line(step["from"]), _on_a_line(step["to"])]
    return f"{step['step']} {' -> '.join(side for side in sides if side is not None)}"


def _on_a_line(text: str | None) -> str | None:
    return None if text is None else " ".join(text.split())


def _first_three(parts: list[str]) -> list[str]:
    return parts if len(parts) <= 4 else [*parts[:3], f"and {len(parts) - 3} more"]


def _changed(tables: dict[str, dict[str, int]]) -> str:
    """``Person +3 ~1, Knows +5``."""
    signs = {"inserted": "+", "updated": "~", "deleted": "-"}
    parts = []
    for key, change in tables.items():
        done = " ".join(f"{sign}{change[name]:,}" for name, sign in signs.items() if change.get(name))
        if done:
            parts.append(f"{key.partition(':')[2]} {done}")
    return ", ".join(_first_three(parts))


_SHOWN_APART = frozenset({"tables", "schema", "merge", "reverts", "recovered_by"})


def _origin(commit: dict[str, Any]) -> list[tuple[str, str]]:
    """Where a commit comes from, if not from a write alone: the commit that was merged, those that were taken back, and the
    recovery that published it."""
    found = []
    if commit["merge"]:
        found.append(("merge", commit["merge"]["commit"]))
    if commit["reverts"]:
        found.append(("reverts", ", ".join(commit["reverts"])))
    if commit["recovered_by"]:
        found.append(("recovered_by", commit["recovered_by"]))
    return found


def _show_commit(screen: Screen, commit: dict[str, Any]) -> None:
    screen.pairs([(name, value) for name, value in commit.items() if name not in _SHOWN_APART] + _origin(commit))
    if commit.get("schema"):
        screen.pairs([("schema", commit["schema"]["to"])])
        screen.line()
        rows = [(step["step"], _on_a_line(step["from"]), _on_a_line(step["to"])) for step in commit["schema"]["steps"]]
        screen.table(("step", "from", "to"), rows)
    screen.line()
    _show_changes(screen, commit["tables"])


def _show_changes(screen: Screen, tables: dict[str, dict[str, int]]) -> None:
    names = ("version", "inserted", "updated", "deleted", "unchanged")
    screen.table(("table", *names), [(key, *(change[name] for name in names)) for key, change in tables.items()])


def _show_outcome(screen: Screen, outcome: dict[str, Any], hint: str) -> None:
    screen.pairs([(name, outcome[name]) for name in ("commit_id", "state", "operation_id") if outcome[name]])
    if outcome["searched"]:
        screen.pairs([("searched", ", ".join(outcome["searched"]))])
    if outcome["deleted"]:
        screen.pairs([("deleted", ", ".join(outcome["deleted"]))])
    if outcome["receipt"]:
        screen.line()
        _show_changes(screen, outcome["receipt"]["tables"])
    if hint:
        screen.note(hint)
