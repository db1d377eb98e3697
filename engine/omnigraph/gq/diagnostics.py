"""Findings about a query text: their codes, their form, and the error that carries them.

A code is stable: its meaning is fixed and a message may be worded better. Owns no rule of the language.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from omnigraph.core.errors import OmnigraphError, QueryInvalid
from omnigraph.core.shown import Shown
from omnigraph.gq.source import Position

ERROR = "error"
WARNING = "warning"

# Every code that a diagnostic may carry. Q: form, T: sense against the schema, W: legal, but probably a mistake.
CODES: dict[str, str] = {
    "Q1": "the text does not follow the grammar",
    "Q2": "the text, a name or the nesting is beyond a limit",
    "Q3": "a parameter is declared twice, or under a reserved name",
    "Q4": "inserts or updates and deletes stand in one query",
    "T1": "not a node type, in a binding of a read",
    "T2": "the type has no such property, in a read",
    "T3": "a literal or now() does not fit the property",
    "T4": "unknown edge type, in a traversal",
    "T5": "a variable is not an endpoint of the edge",
    "T6": "a variable or alias cannot be resolved",
    "T7": "a parameter does not fit the property, or operands cannot be compared",
    "T8": "the operand does not suit the aggregate",
    "T9": "a projection is no group key, or a negation mentions no outer variable",
    "T10": "unknown type, or nothing is assigned, in a mutation",
    "T11": "the property does not exist on the type, or cannot be used here",
    "T12": "an insert omits something required",
    "T13": "a property is assigned twice",
    "T14": "not a declared parameter",
    "T15": "bounds of hops, or operands of nearest, are invalid",
    "T16": "edges cannot be updated",
    "T17": "nearest needs a limit",
    "T18": "ordering by an alias cannot be combined with nearest",
    "T19": "operands of search or fuzzy are invalid",
    "T20": "operands of match_text or bm25 are invalid",
    "T21": "operands of rrf are invalid, or it lacks a limit",
    "W1": "a parameter is not used",
    "W2": "a query of this name stands above",
    "W3": "a variable is bound and not used",
    "W4": "a variable hides a parameter",
    "W5": "two projections have one name",
    "W6": "the text declares no query",
}

# An error repeats the first findings; all of them are what lint is for.
_SAMPLED = 20


@dataclass(frozen=True, slots=True)
class Diagnostic(Shown):
    severity: str  # error or warning
    code: str
    message: str  # begins with the code
    line: int
    column: int
    query: str | None = None  # the declaration that it is about
    hint: str | None = None  # for this finding alone: which name was probably meant

    @property
    def is_error(self) -> bool:
        return self.severity == ERROR

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.severity}: {self.text}"

    @property
    def text(self) -> str:
        """The message, and the hint behind it."""
        return self.message if self.hint is None else f"{self.message}; {self.hint}"


class Report:
    """Collects the findings of one query."""

    def __init__(self, query: str) -> None:
        self.query = query
        self.found: list[Diagnostic] = []

    def error(self, code: str, message: str, at: Position, *, hint: str | None = None) -> None:
        self._add(ERROR, code, message, at, hint)

    def warning(self, code: str, message: str, at: Position) -> None:
        self._add(WARNING, code, message, at)

    def _add(self, severity: str, code: str, message: str, at: Position, hint: str | None = None) -> None:
        assert code in CODES, code
        self.found.append(Diagnostic(severity, code, f"{code}: {message}", at.line, at.column, self.query, hint))


def as_diagnostic(error: OmnigraphError) -> Diagnostic:
    """A refused text as a finding."""
    facts = error.facts
    code = "Q1" if isinstance(error, QueryInvalid) else "Q2"
    line, column = facts.get("line", 1), facts.get("column", 1)
    message = error.message.removeprefix(f"line {line}, column {column}: ")
    return Diagnostic(ERROR, code, f"{code}: {message}", line, column, facts.get("query"))


def refuse_errors(query: str, found: Iterable[Diagnostic]) -> None:
    """Raise ``QueryInvalid`` if any finding is an error; warnings pass."""
    errors = [diagnostic for diagnostic in found if diagnostic.is_error]
    if errors:
        raise invalid(query, errors)


def invalid(query: str, errors: Sequence[Diagnostic], *, hint: str | None = None) -> QueryInvalid:
    # A misspelled name comes first: what a statement seems to leave out often follows from it.
    first = next((error for error in errors if error.hint is not None), errors[0])
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return QueryInvalid(
        f"query {query}, line {first.line}, column {first.column}: {first.message}{more}",
        hint=hint or first.hint,
        query=query,
        line=first.line,
        column=first.column,
        diagnostics=[error.to_dict() for error in errors[:_SAMPLED]],
        total=len(errors),
    )
