"""The doors to the static checks: one query, a whole file, the choice of a query by name."""

from __future__ import annotations

from omnigraph.core.errors import NotFound, QueryInvalid
from omnigraph.core.kinds import kinds_checked
from omnigraph.core.limits import DEFAULT_LIMITS, Limits
from omnigraph.gq.check_mutation import MIXED_HINT, check_form, check_statement
from omnigraph.gq.check_read import check_read
from omnigraph.gq.check_values import NOW_PARAMETER, Scope
from omnigraph.gq.diagnostics import WARNING, Diagnostic, Report, as_diagnostic, invalid
from omnigraph.gq.parser import parse_queries, parse_what_parses
from omnigraph.gq.tree import Query, QueryFile, Read
from omnigraph.schema.catalog import Catalog


def check_query(query: Query, catalog: Catalog) -> list[Diagnostic]:
    """Every finding about one query, in the order of the text."""
    report = Report(query.name)
    scope = Scope(query, report)
    _check_params(query, report)
    check_form(query, report)
    if isinstance(query.body, Read):
        check_read(scope, query.body, catalog)
    else:
        for statement in query.body.statements:
            check_statement(scope, statement, catalog)
    for param in query.params:
        if param.name not in scope.used:
            report.warning("W1", f"parameter ${param.name} is not used", param.at)
    return sorted(report.found, key=lambda found: (found.line, found.column))


def _check_params(query: Query, report: Report) -> None:
    seen: set[str] = set()
    for param in query.params:
        if param.name == NOW_PARAMETER:
            report.error("Q3", f"${param.name} is reserved: it carries the value of now()", param.at)
        if param.name in seen:
            report.error("Q3", f"parameter ${param.name} is declared twice", param.at)
        seen.add(param.name)


@kinds_checked
def lint(text: str, catalog: Catalog, limits: Limits = DEFAULT_LIMITS) -> list[Diagnostic]:
    """Every finding about every query of a text, faults of form included, in the order of the text. Never raises
    for a text: a finding is the answer."""
    file, errors = parse_what_parses(text, limits)
    found = [as_diagnostic(error) for error in errors]
    first_lines: dict[str, int] = {}
    for query in file.queries:
        found.extend(check_query(query, catalog))
        if query.name in first_lines:
            message = f"W2: query {query.name} stands in line {first_lines[query.name]} already; the first one is run"
            found.append(Diagnostic(WARNING, "W2", message, query.at.line, query.at.column, query.name))
        first_lines.setdefault(query.name, query.at.line)
    if not found and not file.queries:
        found.append(Diagnostic(WARNING, "W6", "W6: the text declares no query", 1, 1))
    return sorted(found, key=lambda diagnostic: (diagnostic.line, diagnostic.column))


def select_query(file: QueryFile, name: str | None = None) -> Query:
    """The first query of that name; without a name the only one.

    Raises ``NotFound`` naming it, or ``QueryInvalid`` when a name is needed. A query that both writes and deletes is
    refused here, before anything else is looked at.
    """
    query = _chosen(file, name)
    report = Report(query.name)
    check_form(query, report)
    if report.found:
        raise invalid(query.name, report.found, hint=MIXED_HINT)
    return query


def _chosen(file: QueryFile, name: str | None) -> Query:
    if name is None:
        if len(file.queries) == 1:
            return file.queries[0]
        if not file.queries:
            raise QueryInvalid("the text declares no query", hint="declare one: query name(…) { … }")
        names = [query.name for query in file.queries]
        shown = ", ".join(names[:20])
        raise QueryInvalid(
            f"the text declares {len(names)} queries, a name is needed: {shown}",
            hint="name one of the queries",
            names=names,
        )
    found = next((query for query in file.queries if query.name == name), None)
    if found is None:
        raise NotFound(
            f"query not found: {name[:128]!r}", hint="name one of the queries that the text declares", query=name
        )
    return found


def parse_query(text: str, name: str | None = None, limits: Limits = DEFAULT_LIMITS) -> Query:
    """``parse_queries`` and ``select_query`` in one step."""
    return select_query(parse_queries(text, limits), name)
