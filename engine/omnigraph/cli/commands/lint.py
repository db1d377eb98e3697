"""``omnigraph lint``: a file of queries against a schema file, or against the schema of a graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.call import Answer, Call, Usage
from omnigraph.cli.options import All, At, MeantBranch
from omnigraph.cli.render import Screen, count_text
from omnigraph.cli.screenful import rest_text, worth_showing
from omnigraph.core.errors import QueryInvalid
from omnigraph.core.textfile import read_text
from omnigraph.wire.program import LintFinding, LintReport

if TYPE_CHECKING:
    from omnigraph.schema import Catalog


def run(
    call: Call,
    query: Annotated[Path, typer.Option("--query", metavar="FILE", help="The queries, a .gq file.")],
    schema: Annotated[
        Path | None, typer.Option("--schema", metavar="FILE", help="The schema; default: that of the graph.")
    ] = None,
    branch: MeantBranch = "main",
    at: At = None,
    all_: All = False,
) -> Answer:
    """Check a file of queries against a schema.

    Warnings leave the exit code 0; an error makes it 3.
    """
    from omnigraph.gq import lint

    found = tuple(
        LintFinding(**finding.to_dict())
        for finding in lint(read_text(query, "query file"), _catalog(call, schema, branch, at))
    )
    errors = sum(1 for finding in found if finding.severity == "error")
    report = LintReport(str(query), "ok", errors, len(found) - errors, found)
    if errors:
        if not call.as_json:
            _show(call.screen, report, all_)
        facts = {**report.to_dict(), "status": "error"}
        raise QueryInvalid(
            f"{count_text(errors, 'error')} in {query}", hint="correct the places named in the findings", **facts
        )
    return Answer(report, lambda screen: _show(screen, report, all_))


def _show(screen: Screen, report: LintReport, all_: bool) -> None:
    shown = worth_showing(report.findings, lambda finding: finding.severity == "error", all_=all_)
    for finding in shown:
        place = f"{report.query_file}:{finding.line}:{finding.column}"
        said = finding.message if finding.hint is None else f"{finding.message}; {finding.hint}"
        style = "red" if finding.severity == "error" else "yellow"
        screen.line(f"{finding.severity.upper()} {place}: {said}", style=style)
    if len(shown) < len(report.findings):
        screen.line(rest_text(len(report.findings), len(shown), "finding", all_=True))
    if not report.error_count:
        warnings = report.warning_count
        screen.line(f"OK {report.query_file}" + (f" ({count_text(warnings, 'warning')})" if warnings else ""))


def _catalog(call: Call, schema: Path | None, branch: str, at: str | None) -> Catalog:
    if schema is not None:
        if at is not None or branch != "main":
            raise Usage("a schema file is of no branch and no time", hint="leave --branch and --at out")
        if call.given_uri is not None:
            raise Usage("a schema file and a graph are given", hint="give one of them")
        from omnigraph.core.ids import new_ulid
        from omnigraph.schema import parse_schema

        return parse_schema(read_text(schema, "schema file"), mint=new_ulid)
    if call.uri_or_none is None:
        raise Usage(
            "which schema? neither a file nor a graph is given", hint="give --schema FILE or the URI of a graph"
        )
    with call.reading() as graph:
        return graph.snapshot(branch, at=at).catalog
