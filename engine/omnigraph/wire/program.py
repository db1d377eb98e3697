"""What needs no graph: findings of lint and doctor, error codes, the version."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from omnigraph.core.errors import OmnigraphError
from omnigraph.wire.model import ABSENT, INSIDE, Count, Model


@dataclass(frozen=True)
class LintFinding(Model):
    """One thing that lint found in a query. ``query``: the declaration that it is about; ``hint``: the name that was probably meant,
    or those that there are."""

    severity: Literal["error", "warning"]
    code: str
    message: str
    line: int
    column: int
    query: str | None
    hint: str | None


@dataclass(frozen=True)
class LintReport(Model):
    """A file with errors is an error document with the code query-invalid and these members."""

    query_file: str
    status: Literal["ok"]
    error_count: Count
    warning_count: Count
    findings: tuple[LintFinding, ...]


CheckStatus = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class DoctorCheck(Model):
    """One answer. ``error`` is what made it fail, where something was raised."""

    name: str
    status: CheckStatus
    message: str
    hint: str | None = None
    error: OmnigraphError | None = field(default=None, metadata=INSIDE)


@dataclass(frozen=True)
class DoctorReport(Model):
    """A failed check makes it an error document with these members."""

    uri: str | None
    status: Literal["ok", "warn"]
    checks: tuple[DoctorCheck, ...]


@dataclass(frozen=True)
class Version(Model):
    """The release, and the storage version that it writes."""

    version: str
    storage_version: int


# --- errors ---------------------------------------------------------------------------------------------------------------

# Classes that say in their name what they mean, said in words.
_MEANINGS = {
    "internal": "A fault of the program, not of the call.",
    "invalid-input": "An argument, or a file given, is not valid.",
    "not-found": "There is nothing of this name.",
    "already-exists": "There is something of this name already.",
    "conflict": "Another writer changed what this operation was planned on.",
    "limit-exceeded": "Something is larger than a limit.",
}


@dataclass(frozen=True)
class MovedTable(Model):
    """A table that is not where a plan was made: the version that was expected and the one that is there, or None where the table
    was not to be there, or is not."""

    table_key: str
    expected: str | int | None
    actual: str | int | None


@dataclass(frozen=True)
class ErrorBody(Model):
    """Every error has its text, a code and a hint. The members that may be missing are the facts that several kinds have in
    common; any further member is a fact of one kind, as the list of error codes says."""

    open_ended: ClassVar[bool] = True

    error: str
    code: str
    hint: str
    reason: str | None = field(default=None, metadata=ABSENT)
    table_key: str | None = field(default=None, metadata=ABSENT)
    object: str | None = field(default=None, metadata=ABSENT)
    branch: str | None = field(default=None, metadata=ABSENT)
    commit_id: str | None = field(default=None, metadata=ABSENT)
    operation_id: str | None = field(default=None, metadata=ABSENT)
    total: int | None = field(default=None, metadata=ABSENT)
    manifest_conflict: MovedTable | None = field(default=None, metadata=ABSENT)


@dataclass(frozen=True)
class ErrorCode(Model):
    """What an error code means and what to do about it."""

    code: str
    class_: str = field(metadata={"name": "class"})
    exit_code: int
    http_status: int
    meaning: str
    hint: str

    @staticmethod
    def of(kind: type[OmnigraphError]) -> ErrorCode:
        return ErrorCode(kind.code, kind.__name__, kind.exit_code, kind.http_status, _meaning(kind), kind.default_hint)


@dataclass(frozen=True)
class ErrorCodes(Model):
    """Every error code."""

    codes: tuple[ErrorCode, ...]


def _meaning(kind: type[OmnigraphError]) -> str:
    """A sentence, then the facts that the class names in its docstring."""
    own = " ".join(inspect.cleandoc(kind.__dict__.get("__doc__") or "").split()).replace("``", "`")
    if kind.code not in _MEANINGS:
        return own
    return f"{_MEANINGS[kind.code]} {own if own.startswith('Facts:') else ''}".strip()
