"""``omnigraph schema show | plan | apply``: the accepted schema, what another text would change, and the change itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call, Usage
from omnigraph.cli.options import DEADLINE_S, Deadline, ExpectHead, Key, MeantBranch
from omnigraph.cli.render import Screen, count_text
from omnigraph.core.errors import Refused
from omnigraph.wire.receipt import Receipt
from omnigraph.wire.schema import SchemaApplied, SchemaPlanned, SchemaSource

if TYPE_CHECKING:
    from omnigraph.schema.plan import SchemaPlan
    from omnigraph.schema.view import SchemaView

FORMATS = ("pg", "json", "mermaid", "dot")
PLAN_FORMATS = ("table", "json", "mermaid", "dot")
_Schema = Annotated[Path, typer.Option("--schema", metavar="FILE", help="The new schema, a .pg file.")]
_Fill = Annotated[
    list[str] | None,
    typer.Option("--fill", metavar="T.p=VALUE", help="The value of an added property in every row: JSON, or a text."),
]
_FillFrom = Annotated[
    list[str] | None, typer.Option("--fill-from", metavar="T.p=q", help="Fill an added property from another one.")
]
_FillSql = Annotated[
    list[str] | None,
    typer.Option("--fill-sql", metavar="T.p=EXPR", help="Fill it from an SQL expression over the row."),
]
_Loss = Annotated[bool, typer.Option("--allow-data-loss", help="Make drops hard: their bytes are to go, too.")]


def run_show(
    call: Call,
    format: Annotated[str, typer.Option("--format", metavar="|".join(FORMATS), help="How to print it.")] = "pg",
    at: Annotated[
        str | None, typer.Option("--at", metavar="PLACE", help="As of a commit, a checkpoint, a branch or a time.")
    ] = None,
    branch: MeantBranch = "main",
) -> Answer:
    """Print the accepted schema, or a diagram of it."""
    _known(format, FORMATS)
    with call.reading() as graph:
        view = graph.schema.show(branch, at)
    text = _text(view, format)
    found = SchemaSource(view.catalog.source, view.hash, view.schema_id, format, text)  # type: ignore[arg-type]  # checked
    return Answer(found, lambda screen: screen.raw(text if text.endswith("\n") else text + "\n"))


def _known(format: str, formats: Sequence[str]) -> None:
    if format not in formats:
        raise Usage(f"unknown format: {format}", hint=f"give one of {', '.join(formats)}")


def _text(view: SchemaView | SchemaPlan, format: str) -> str:
    if format == "mermaid":
        return view.to_mermaid()
    if format == "dot":
        return view.to_dot()
    if format == "json":
        return json.dumps(view.to_dict(), indent=1, ensure_ascii=False)
    return str(view)


def run_plan(
    call: Call,
    schema: _Schema,
    fill: _Fill = None,
    fill_from: _FillFrom = None,
    fill_sql: _FillSql = None,
    allow_data_loss: _Loss = False,
    branch: MeantBranch = "main",
    format: Annotated[str, typer.Option("--format", metavar="|".join(PLAN_FORMATS), help="How to print it.")] = "table",
) -> Answer:
    """Show what a new schema would change, what each step costs, and what cannot be done. Changes nothing."""
    _known(format, PLAN_FORMATS)
    fills = _fills(fill, fill_from, fill_sql)
    with call.reading() as graph:
        plan = graph.schema.plan(schema, branch=branch, allow_data_loss=allow_data_loss, fill=fills)
        found = SchemaPlanned(graph.uri, branch, plan.report())
    if format == "table":
        return Answer(found, lambda screen: _show_plan(screen, plan.to_dict()))
    return Answer(found, lambda screen: screen.raw(_text(plan, format).rstrip("\n") + "\n"))


def run_apply(
    call: Call,
    schema: _Schema,
    fill: _Fill = None,
    fill_from: _FillFrom = None,
    fill_sql: _FillSql = None,
    confirm: Annotated[bool, typer.Option("--confirm", help="Go on where the plan says that data is lost.")] = False,
    allow_data_loss: _Loss = False,
    branch: MeantBranch = "main",
    key: Key = None,
    expect_head: ExpectHead = None,
    deadline: Deadline = DEADLINE_S,
) -> Answer:
    """Make a file the accepted schema, as one commit beside other writers.

    Where the plan says that data is lost, nothing happens without --confirm.
    """
    fills = _fills(fill, fill_from, fill_sql)
    with call.writing() as graph:
        plan = graph.schema.plan(schema, branch=branch, allow_data_loss=allow_data_loss, fill=fills)
        if plan.loss and plan.supported and not confirm:
            raise _unconfirmed(plan.to_dict())
        with call.screen.busy("changing the schema"):
            # The plan that was looked at, so that nothing is lost which it did not name.
            receipt = graph.schema.apply(
                plan,
                branch=branch,
                expect_head=expect_head,
                idempotency_key=key,
                deadline_s=deadline,
            )
        facts = {item.name: getattr(receipt, item.name) for item in fields(Receipt)}
        done = SchemaApplied(**facts, uri=graph.uri, plan=None if receipt.plan is None else receipt.plan.report())
    return Answer(done, lambda screen: _show_receipt(screen, done.to_dict()))


def _unconfirmed(plan: Mapping[str, Any]) -> Refused:
    lost = [step for step in plan["steps"] if step["loss"]]
    return Refused(
        f"this change loses data: {'; '.join(_subject(step) for step in lost[:5])}",
        hint="if that is meant, repeat the command with --confirm",
        reason="no-consent",
        steps=lost,
    )


def _fills(
    fill: Sequence[str] | None, fill_from: Sequence[str] | None, fill_sql: Sequence[str] | None
) -> dict[str, object] | None:
    found: dict[str, object] = {}
    for option, listed in (("--fill", fill), ("--fill-from", fill_from), ("--fill-sql", fill_sql)):
        for item in listed or ():
            name, equals, text = item.partition("=")
            if not equals or not name or name in found:
                what = "is given twice" if name in found else "takes TYPE.PROPERTY=…"
                raise Usage(f"{option} {item!r} {what}", hint=f"for example {option} Person.score=…, once a property")
            found[name] = {"--fill-from": {"property": text}, "--fill-sql": {"sql": text}}.get(option, _value(text))
    return found or None


def _value(text: str) -> object:
    """JSON if it is, else the text itself: ``--fill Person.city=Rome`` needs no quotes inside quotes."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _subject(step: Mapping[str, Any]) -> str:
    owner = step["type"] if step["property"] is None else f"{step['type']}.{step['property']}"
    return f"{step['kind']} {owner}"


def _show_plan(screen: Screen, plan: Mapping[str, Any]) -> None:
    if not plan["steps"]:
        screen.line("no change")
        return
    rows = []
    for step in plan["steps"]:
        refused = "" if step["supported"] else f"refused: {step['reason']}; {step['hint']}"
        before, after = (side and " ".join(side.split()) for side in (step["from"], step["to"]))
        rows.append((_subject(step), before, after, "yes" if step["loss"] else "", refused or _cost(step)))
    screen.table(("step", "from", "to", "loses data", "cost"), rows)
    if not plan["supported"]:
        screen.line("this change cannot be applied")
    elif plan["loss"]:
        screen.note("this change loses data: schema apply wants --confirm")


def _cost(step: Mapping[str, Any]) -> str:
    cost = step["cost"]
    parts = [count_text(cost["requests"], "request")] if cost["requests"] else []
    if cost["requests_a_fragment"]:
        parts.append("a column file a fragment")
    if cost["scans"]:
        parts.append(f"a scan of {', '.join(cost['scans'])}")
    return " + ".join(parts) or "free"


def _show_receipt(screen: Screen, result: Mapping[str, Any]) -> None:
    if result["commit_id"] is None:
        screen.line("no change: this schema is accepted already")
        return
    if result["plan"] is not None:
        _show_steps(screen, result["plan"])
    screen.line(
        f"commit {result['commit_id']}" + (" (replayed: this key was used before)" if result["replayed"] else "")
    )
    for warning in result["warnings"]:
        screen.warn(f"warning: {warning}")


def _show_steps(screen: Screen, plan: Mapping[str, Any]) -> None:
    screen.line(f"{count_text(len(plan['steps']), 'step')}:")
    for step in plan["steps"]:
        screen.line(f"  {_subject(step)}")
