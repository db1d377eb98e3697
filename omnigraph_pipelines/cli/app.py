"""The commands of ``omnigraph-pipelines``. Results on stdout, everything else on stderr; ``--json`` prints one document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

import omnigraph as og
from omnigraph_pipelines import planning
from omnigraph_pipelines.cli import quarantine
from omnigraph_pipelines.cli.telling import File, Json, answer, failed, out, say
from omnigraph_pipelines.cluster import warnings_of
from omnigraph_pipelines.graph_file import GraphFile, load_graph_file
from omnigraph_pipelines.wording import counted

EXIT_USAGE = 2
EXIT_PROBLEMS = 3
EXIT_INTERRUPTED = 130
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

app = typer.Typer(
    name="omnigraph-pipelines",
    help="Check a graph file, show what would be ingested, ingest without a UI.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    context_settings=_SETTINGS,
)

app.add_typer(quarantine.app)

Sources = Annotated[
    list[str] | None, typer.Option("--source", "-s", help="Only this source; may be repeated.", show_default=False)
]


def run(argv: Sequence[str]) -> int:
    """One command line to an exit code."""
    try:
        code = app(list(argv), standalone_mode=False)
        return code if isinstance(code, int) else 0
    except typer.Exit as left:
        return int(left.exit_code)
    except KeyboardInterrupt:
        say("interrupted: what was staged and not committed is taken back by the next cleanup")
        return EXIT_INTERRUPTED
    except og.errors.OmnigraphError as error:
        return failed(error, as_json="--json" in argv)
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer keeps the class of its complaints to itself
            raise
        say(f"error[usage]: {error.format_message()}\nhint: run `omnigraph-pipelines --help`")
        return EXIT_USAGE


@app.command()
def validate(file: File = None, as_json: Json = False) -> None:
    """Check a graph file: its settings, its schema, and each source against the schema. Opens no store."""
    found = load_graph_file(file)
    sources = [
        {"source": source.name, "batches": source.batches, "types": list(found.types_of(source))}
        for source in found.settings.sources
    ]
    result: dict[str, Any] = {
        "file": str(found.path),
        "graph": found.settings.graph.name,
        "types": sum(1 for _ in found.catalog.types()),
        "sources": sources,
        "warnings": warnings_of(found.settings),
    }
    for one in result["warnings"]:
        say(f"warning: {one}")

    def show() -> None:
        out(f"{found.path}: good; graph {result['graph']}, {counted(result['types'], 'type')}")
        for one in sources:
            out(f"  source {one['source']}: {', '.join(one['types'])} from {one['batches']}")

    answer(result, show, as_json=as_json)


@app.command()
def doctor(file: File = None, as_json: Json = False) -> None:
    """Check what a graph file needs: the store of the graph, each landing place, Spark. Changes nothing."""
    from omnigraph_pipelines.cli.doctor import findings

    found = findings(load_graph_file(file))
    bad = [one for one in found if one["state"] == "problem"]

    def show() -> None:
        for one in found:
            out(f"{one['state']:<8}  {one['what']}: {one['said']}")
            if one.get("hint"):
                out(f"          hint: {one['hint']}")

    answer({"findings": found, "problems": len(bad)}, show, as_json=as_json)
    if bad:
        raise typer.Exit(EXIT_PROBLEMS)


@app.command()
def plan(
    file: File = None,
    source: Sources = None,
    every: Annotated[bool, typer.Option("--all", help="List batches that are committed, too.")] = False,
    as_json: Json = False,
) -> None:
    """Show what the schema file would change, the batches that have arrived and what would be done with each. Changes nothing."""
    found = load_graph_file(file)
    schema = planning.plan_schema(found)
    planned = planning.plan_ingest(found, planning.choose(found, source))
    due = sum(one.is_due for one in planned)
    result = {
        "due": due,
        "committed": sum(one.state == "committed" for one in planned),
        "incomplete": sum(one.state == "incomplete" for one in planned),
        "waiting": sum(one.state == "waiting" for one in planned),
        "refused": sum(one.state == "refused" for one in planned),
        "schema": None if schema is None else schema.to_dict(),
        "batches": [one.to_dict() for one in planned if every or one.state != "committed"],
    }

    def show() -> None:
        for step in () if schema is None else schema.steps:
            out(f"schema      {step}")
        for one in planned:
            if every or one.state != "committed":
                what = one.reason or one.commit_id or f"{counted(one.files, 'file')}, {counted(one.bytes, 'byte')}"
                behind = f"  after {', '.join(one.after)}" if one.after else ""
                out(f"{one.state:<10}  {one.source}/{one.batch}  {what}{behind}")
        out(f"{due} to ingest, {result['committed']} committed, {result['incomplete']} incomplete{_of_refused(result)}")

    answer(result, show, as_json=as_json)


@app.command()
def status(file: File = None, source: Sources = None, as_json: Json = False) -> None:
    """Show how far each source is: batches done, due, waiting, refused and incomplete, with reasons. Changes nothing."""
    found = load_graph_file(file)
    chosen = planning.choose(found, source)
    planned = planning.plan_ingest(found, chosen)
    result = {"sources": [planning.summary(one.name, planned) for one in chosen]}

    def show() -> None:
        for one in result["sources"]:
            counts = ", ".join(f"{count} {what}" for what, count in one["counts"].items())
            behind = f"; waits for {', '.join(one['after'])}" if one["after"] else ""
            out(f"{one['source']}: {counts or 'no batches'}{behind}")
            for what in ("waiting", "refused", "incomplete"):
                for batch in one.get(what, ()):
                    out(f"  {what:<10}  {batch['batch']}  {batch['reason']}")

    answer(result, show, as_json=as_json)


@app.command(name="run")
def run_batches(
    file: File = None,
    source: Sources = None,
    batch: Annotated[
        list[str] | None,
        typer.Option("--batch", "-b", help="Only this batch; may be repeated. Needs one --source.", show_default=False),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Commit a batch that the graph has already once more.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Ingest what is due, one batch after the other, oldest first: stage, check, commit, as Dagster would.

    Runs are recorded where DAGSTER_HOME says, and nowhere without it. Stops at the first batch that is refused.
    """
    from omnigraph_pipelines.cli.running import run_planned

    found = load_graph_file(file)
    chosen = planning.choose(found, source)
    if batch and len(chosen) != 1:
        raise og.errors.InvalidInput("--batch needs one --source", hint="name the source that the batch belongs to")
    planned = planning.plan_ingest(found, chosen)
    if batch:
        unknown = sorted(set(batch) - {one.batch for one in planned})
        if unknown:
            raise og.errors.NotFound(
                f"source {chosen[0].name} has no batch {unknown[0]!r}", hint="`omnigraph-pipelines plan` lists them"
            )
        planned = [one for one in planned if one.batch in batch]
    todo = [one for one in planned if one.is_due or ((force or batch) and one.state != "incomplete")]
    if not batch:
        todo = _without_held_up(todo, {one.name for one in chosen})
    say(_target(found, len(todo)))
    done: list[Mapping[str, Any]] = []
    result = {"batches": done}
    for told in run_planned(found, todo, force=force, say=say):
        done.append(told)
        if not as_json:
            out(
                f"{told['source']}/{told['batch']}  commit {told['commit_id']}  {told['rows']}  {told['seconds']:.1f} s"
            )
    answer(result, lambda: out(f"{len(done)} ingested"), as_json=as_json)


def _of_refused(result: Mapping[str, Any]) -> str:
    """Return the counts of refused batches, which are among those to ingest, for the last line of a plan."""
    parts = [f"{result[what]} {what}" for what in ("waiting", "refused") if result[what]]
    return f"; {', '.join(parts)}" if parts else ""


def _without_held_up(todo: Sequence[planning.PlannedBatch], chosen: set[str]) -> list[planning.PlannedBatch]:
    """Leave out batches of a source that comes after one which is not done and is not ingested now; say which."""
    held = {one.source: sorted(set(one.after) - chosen) for one in todo if set(one.after) - chosen}
    for name, before in held.items():
        say(f"{name} comes after {', '.join(before)}, which has batches to ingest: add -s {' -s '.join(before)}")
    return [one for one in todo if one.source not in held]


def _target(file: GraphFile, count: int) -> str:
    return f"{counted(count, 'batch', 'batches')} into {file.settings.graph.name} ({file.settings.graph.uri}), branch {file.settings.graph.branch}"
