"""``omnigraph intent list | show``: writes that have not ended, in words."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.render import Screen, duration_text
from omnigraph.core.errors import NotFound
from omnigraph.wire.recovery import IntentList, PendingIntent


def run_list(call: Call) -> Answer:
    """List writes that have not ended, oldest first, and what recovery would do."""
    with call.reading() as graph:
        intents = graph.intents()
    return Answer(IntentList(tuple(intents)), lambda screen: _show_list(screen, intents))


def run_show(call: Call) -> Answer:
    """Explain one of them, table by table."""
    with call.reading() as graph:
        found = next((one for one in graph.intents() if one.operation_id == call.subject), None)
    if found is None:
        raise NotFound(
            f"no pending operation {call.subject[:80]!r}: it has ended, or there never was one",
            hint="`omnigraph intent list` shows what is pending, `omnigraph commit list` what has landed",
            operation_id=call.subject[:80],
        )
    return Answer(found, lambda screen: _show(screen, found))


def _show_list(screen: Screen, intents: Sequence[PendingIntent]) -> None:
    if not intents:
        screen.line("nothing is pending")
        return
    screen.table(
        ("operation", "kind", "state", "age", "actor", "tables", "recovery"),
        [
            (
                one.operation_id,
                one.kind,
                one.state,
                duration_text(one.age_s),
                one.actor,
                ", ".join(one.tables),
                one.decision if one.decision == one.after_grace else f"{one.decision}, {one.after_grace}",
            )
            for one in intents
        ],
    )


def _show(screen: Screen, intent: PendingIntent) -> None:
    names = ("operation_id", "kind", "state", "branch", "commit_id", "actor", "owner")
    screen.pairs([*((name, getattr(intent, name)) for name in names), ("age", duration_text(intent.age_s))])
    screen.line()
    if intent.tables:
        screen.table(("table", "what stands of it"), list(intent.tables.items()))
        screen.line()
    screen.line(intent.explanation)
