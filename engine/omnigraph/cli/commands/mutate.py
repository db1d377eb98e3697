"""``omnigraph mutate``: one query that inserts, updates or deletes, one commit, a receipt out."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call, Usage
from omnigraph.cli.options import DEADLINE_S, ChangedBranch, Deadline, ExpectHead, Key
from omnigraph.cli.render import Screen, count_text
from omnigraph.core.actor import resolve_actor
from omnigraph.core.errors import QueryInvalid
from omnigraph.core.textfile import read_text
from omnigraph.wire.receipt import Mutated

# A text that begins with a statement is the body of a query; what a query begins with stands on a line of its own.
_STATEMENT = re.compile(r"\s*(?:insert|update|delete)\b")
_WRAPPER = "query statement() {\n"
_LIKE_THESE = (
    'write it like: insert Person { name: "Ann" }; update Person set { age: 31 } where name = "Ann"; delete Person where '
    'name = "Ann". There is one condition, and negative numbers are parameters; `omnigraph schema show` lists the properties'
)
_LINE = re.compile(r"^(?:query statement, )?line (\d+), ")


def run(
    call: Call,
    query: Annotated[
        Path | None, typer.Option("--query", metavar="FILE|-", help="The queries, a .gq file; - is standard input.")
    ] = None,
    text: Annotated[
        str | None, typer.Option("-e", "--execute", metavar="TEXT", help="The query, or its statements alone.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Which query of the text; needed if it has several.")
    ] = None,
    params: Annotated[
        str | None, typer.Option("--params", metavar="JSON", help='Parameters, for example \'{"name": "Ann"}\'.')
    ] = None,
    params_file: Annotated[
        Path | None, typer.Option("--params-file", metavar="FILE", help="A file with the parameters.")
    ] = None,
    branch: ChangedBranch = "main",
    key: Key = None,
    expect_head: ExpectHead = None,
    deadline: Deadline = DEADLINE_S,
) -> Answer:
    """Run one query that inserts, updates or deletes, as one commit.

    Inserts and updates of one query are committed together, and so are deletes; a query that has both is refused.
    """
    from omnigraph.gq import parse_params, parse_query

    source, bare = _source(query, text)
    given: Any = parse_params(_params(params, params_file))
    if bare and given:
        raise Usage(
            "statements alone take no parameters",
            hint="declare them: -e 'query q($name: String) { delete Person where name = $name }'",
        )
    # Here and not in the graph: an error in the text is reported without opening the graph.
    with _lines_as_typed(bare):
        chosen = parse_query(source, name).name
    with _lines_as_typed(bare), call.writing() as graph, call.screen.busy("changing"):
        receipt = graph.mutate(
            source,
            name=chosen,
            params=given,
            branch=branch,
            idempotency_key=key,
            expect_head=expect_head,
            deadline_s=deadline,
        )
        actor = resolve_actor(call.actor)
        done = Mutated.extending(receipt, uri=graph.uri, query_name=chosen, actor_id=actor)
    return Answer(done, lambda screen: _show(screen, done.to_dict()))


def _show(screen: Screen, result: dict[str, Any]) -> None:
    nodes, edges = count_text(result["affected_nodes"], "node"), count_text(result["affected_edges"], "edge")
    screen.line(f"changed {result['branch']} via {result['query_name']}: {nodes}, {edges}")
    names = ("inserted", "updated", "deleted", "unchanged")
    if result["tables"]:
        rows = [(key, *(change[name] for name in names)) for key, change in result["tables"].items()]
        screen.table(("table", *names), rows)
    if result["commit_id"] is None:
        screen.line("nothing changed: no commit")
    else:
        again = " (replayed: this key was used before)" if result["replayed"] else ""
        screen.line(f"commit {result['commit_id']}{again}")
    for warning in result["warnings"]:
        screen.warn(f"warning: {warning}")


# --- what to run --------------------------------------------------------------------------------------------------------


def _source(query: Path | None, text: str | None) -> tuple[str, bool]:
    """The text of a query file, and whether it was made from statements alone."""
    if (query is None) == (text is None):
        raise Usage(
            "which query? give either a file with --query or a text with -e",
            hint="for example -e 'delete Person where name = \"Ann\"'",
        )
    if query is None:
        given = text or ""
        return (f"{_WRAPPER}{given}\n}}", True) if _STATEMENT.match(given) else (given, False)
    return (sys.stdin.read() if str(query) == "-" else read_text(query, "query file")), False


@contextmanager
def _lines_as_typed(bare: bool) -> Iterator[None]:
    """Count lines from the first statement where a query was put around it."""
    try:
        yield
    except QueryInvalid as error:
        found = _LINE.match(error.message)
        if found is None or error.facts.get("line") != int(found[1]):
            raise
        if not bare:
            if error.facts.get("line") == 1 and _breaks_grammar(error):
                error.hint = _LIKE_THESE
            raise
        facts = error.facts | {"line": int(found[1]) - 1}
        if "diagnostics" in facts:
            facts["diagnostics"] = [{**one, "line": one["line"] - 1} for one in facts["diagnostics"]]
        message = f"line {facts['line']}, {error.message[found.end() :]}"
        raise QueryInvalid(message, hint=_LIKE_THESE if _breaks_grammar(error) else error.hint, **facts) from error


def _breaks_grammar(error: QueryInvalid) -> bool:
    """A lesson in the grammar is for a text that breaks it, not for a name that the schema does not have."""
    return error.hint == QueryInvalid.default_hint and "diagnostics" not in error.facts


def _params(params: str | None, params_file: Path | None) -> str:
    if params is not None and params_file is not None:
        raise Usage("parameters are given twice", hint="give one of --params and --params-file")
    if params_file is not None:
        return read_text(params_file, "parameters file")
    return "null" if params is None else params
