"""``omnigraph-pipelines quarantine``: what was left out of batches, why, and loading it again."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import omnigraph as og
from omnigraph_pipelines import planning
from omnigraph_pipelines.bad_rows import replayed
from omnigraph_pipelines.cli.telling import File, Json, answer, out
from omnigraph_pipelines.graph_file import GraphFile, load_graph_file
from omnigraph_pipelines.quarantine import Quarantine, QuarantineFile, Summary, summary_of
from omnigraph_pipelines.quarantine_replay import failure_of, open_entries, replay, replay_each
from omnigraph_pipelines.settings import text_of
from omnigraph_pipelines.wording import counted

_ROWS_SHOWN = 5

app = typer.Typer(
    name="quarantine",
    help="Rows that were left out of batches: list them, show what is wrong, load them again.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

Source = Annotated[str | None, typer.Option("--source", "-s", help="Only this source.", show_default=False)]
Batch = Annotated[str | None, typer.Option("--batch", "-b", help="Only this batch.", show_default=False)]


@app.command(name="list")
def list_(file: File = None, source: Source = None, batch: Batch = None, as_json: Json = False) -> None:
    """List the files that are kept, and which were loaded again. Changes nothing."""
    found, kept = _kept(file, source)
    with _opened(found, read_only=True) as graph:
        open_ = [one for name in _names(found, source) for one in open_entries(graph, kept, name, batch)]
    entries = [{**one.to_dict(), "replayed": one not in open_} for one in kept.entries(source, batch)]

    def show() -> None:
        for one in entries:
            out(
                f"{'replayed' if one['replayed'] else 'open':<8}  {one['source']}/{one['batch']}  {one['size']:,} bytes  {one['path']}"
            )
        out(f"{len(open_)} open, {len(entries) - len(open_)} replayed")

    answer({"entries": entries}, show, as_json=as_json)


@app.command()
def show(file: File = None, source: Source = None, batch: Batch = None, as_json: Json = False) -> None:
    """Show what is wrong with the rows of each file: reasons, the ids that most rows miss, the first rows."""
    _, kept = _kept(file, source)
    entries = kept.entries(source, batch)
    if not entries:
        raise _nothing(source, batch)
    found = [(one, summary_of(kept.lines(one)), _first(kept, one)) for one in entries]
    result = [{**one.to_dict(), **summary.to_dict(), "first": rows} for one, summary, rows in found]

    def print_all() -> None:
        for one, summary, rows in found:
            _print(one, summary, rows)

    answer({"entries": result}, print_all, as_json=as_json)


@app.command(name="replay")
def replay_(file: File = None, source: Source = None, batch: Batch = None, as_json: Json = False) -> None:
    """Load what was left out again, each file as one commit. What still does not fit is kept as a new file.

    A file that cannot be loaded does not keep the others back; the exit code is that of the worst.
    """
    found, kept = _kept(file, source)
    sources = {one.name: one for one in found.settings.sources}
    actions = {name: replayed(found.rules_of(one)) for name, one in sources.items()}
    branch = found.settings.graph.branch
    with _opened(found, read_only=False) as graph:
        entries = [entry for name in _names(found, source) for entry in open_entries(graph, kept, name, batch)]
        done, failures = replay_each(
            entries,
            lambda entry: replay(
                graph,
                kept,
                entry,
                branch=branch,
                mode=sources[entry.source].mode,
                on_missing_endpoint=actions[entry.source],
            ),
        )
    failure = failure_of(done, failures)

    def show() -> None:
        for one in done:
            left = f", {one.left} left in {one.kept_as or one.entry.path}" if one.left else ""
            out(f"{one.entry.source}/{one.entry.batch}  {one.loaded} loaded{left}")
            if one.summary is not None:
                _print_summary(one.summary)
        out(f"{counted(sum(one.loaded for one in done), 'row')} loaded, {sum(one.left for one in done)} left")

    if failure is None or not as_json:  # the error has the whole of it as a document
        answer({"replayed": [one.to_dict() for one in done]}, show, as_json=as_json)
    if failure is not None:
        raise failure


def _kept(file: Any, source: str | None) -> tuple[GraphFile, Quarantine]:
    found = load_graph_file(file)
    planning.choose(found, None if source is None else [source])
    graph = found.settings.graph
    options = {name: text_of(value) for name, value in graph.storage_options.items()}
    return found, Quarantine(text_of(graph.uri), tuple(options.items()))


def _names(found: GraphFile, source: str | None) -> list[str]:
    return [one.name for one in planning.choose(found, None if source is None else [source])]


def _opened(found: GraphFile, *, read_only: bool) -> og.Graph:
    graph = found.settings.graph
    options = {name: text_of(value) for name, value in graph.storage_options.items()}
    return og.open(text_of(graph.uri), read_only=read_only, storage_options=options or None, actor=graph.actor)


def _nothing(source: str | None, batch: str | None) -> og.errors.NotFound:
    of = " of ".join(one for one in (batch, source) if one)
    return og.errors.NotFound(
        f"nothing is kept{' ' if of else ''}{of}", hint="`omnigraph-pipelines quarantine list` has what is kept"
    )


def _first(kept: Quarantine, entry: QuarantineFile) -> list[str]:
    return [
        line.decode("utf-8", "replace")[:300] for line, _ in zip(kept.lines(entry), range(_ROWS_SHOWN), strict=False)
    ]


def _print(entry: QuarantineFile, summary: Summary, rows: list[str]) -> None:
    out(f"{entry.source}/{entry.batch}: {counted(summary.rows, 'row')} in {entry.path}")
    _print_summary(summary)
    for row in rows:
        out(f"  {row}")


def _print_summary(summary: Summary) -> None:
    for code, count in summary.reasons.items():
        out(f"  {count:>8,}  {code}")
    for value, count in summary.missing.items():
        out(f"  {count:>8,}  miss {value}")
