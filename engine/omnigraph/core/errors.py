"""Everything this product raises, grouped by what the caller does next.

Each class has a stable kebab-case ``code``, an exit code for the command line and a status for a wire. An error says
one thing in one line (facts last) and gives one hint that is a command or an action. Facts are plain JSON values, so
that an error can cross a process border, a log or a wire without losing anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from enum import Enum
from typing import Any, ClassVar

from omnigraph.core.reasons import CONFLICT_KINDS as CONFLICT_KINDS
from omnigraph.core.reasons import NOT_RAISED_YET as NOT_RAISED_YET
from omnigraph.core.reasons import REASONS as REASONS
from omnigraph.core.reasons import REASONS_NOT_GIVEN_YET as REASONS_NOT_GIVEN_YET
from omnigraph.core.reasons import ConflictKind as ConflictKind
from omnigraph.core.reasons import Reason as Reason


class OmnigraphError(Exception):
    """Base of every error of this package."""

    code: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500
    default_hint: ClassVar[str] = "run `omnigraph doctor` and report this with its output"

    def __init__(self, message: str, *, hint: str | None = None, **facts: Any) -> None:
        # A message repeats names that callers gave; with half of a surrogate pair in it, printing it would raise.
        self.message = _printable(message)
        super().__init__(self.message)
        self.hint = _printable(hint or self.default_hint)
        self.facts: dict[str, Any] = facts

    def __getattr__(self, name: str) -> Any:
        # Facts read like attributes (``error.table_key``). Only called when normal look-up failed.
        facts = self.__dict__.get("facts")
        if facts is not None and name in facts:
            return facts[name]
        raise AttributeError(name)

    def __str__(self) -> str:
        return self.message

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r}, code={self.code!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.facts)

    def to_dict(self) -> dict[str, Any]:
        """The body of this error over any wire: plain JSON values, whatever the facts are."""
        body: dict[str, Any] = {"error": self.message, "code": self.code, "hint": self.hint}
        for name, value in self.facts.items():
            body.setdefault(name, _json_value(value))
        return body


def _rebuild(kind: type[OmnigraphError], message: str, hint: str, facts: Mapping[str, Any]) -> OmnigraphError:
    # Not through the class's own constructor: one of an older or newer release may ask for other facts.
    error = kind.__new__(kind)
    OmnigraphError.__init__(error, message, hint=hint, **facts)
    return error


def from_dict(body: Mapping[str, Any]) -> OmnigraphError:
    """The error whose ``to_dict`` was ``body``. A code that this release does not know gives an ``OmnigraphError``."""
    facts = {name: value for name, value in body.items() if name not in ("error", "code", "hint", "manifest_conflict")}
    kind = all_errors().get(str(body.get("code")), OmnigraphError)
    return _rebuild(kind, str(body.get("error", "")), str(body.get("hint") or kind.default_hint), facts)


def _printable(text: str) -> str:
    """The text, with what UTF-8 cannot hold written as an escape."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _json_value(value: Any) -> Any:
    """A fact as strict JSON in UTF-8 can hold it."""
    if isinstance(value, Enum):
        return _json_value(value.value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return _printable(value)
    if isinstance(value, Mapping):
        return {_json_value(str(name)): _json_value(one) for name, one in value.items()}
    if isinstance(value, Set):
        return sorted((_json_value(one) for one in value), key=str)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_json_value(one) for one in value]
    as_plain = getattr(value, "to_dict", None) or getattr(value, "item", None)  # a report, or a number of numpy
    return _json_value(as_plain() if callable(as_plain) else str(value))


# --- the caller fixes the call or the data ------------------------------------------------------------------------------


class InvalidInput(OmnigraphError):
    code = "invalid-input"
    exit_code = 3
    http_status = 400
    default_hint = "correct the argument named in the message and call again"


class SchemaInvalid(InvalidInput):
    """A ``.pg`` text that does not parse or contradicts itself. Facts: ``line``, ``column`` where known."""

    code = "schema-invalid"
    default_hint = "correct the schema at the place named in the message"


class DataInvalid(InvalidInput):
    """Records that break the schema. Facts: ``violations`` (the first ones, as dicts) and ``total``."""

    code = "data-invalid"
    default_hint = 'correct the records named, or load with on_bad_row="quarantine"'


class QueryInvalid(InvalidInput):
    """A ``.gq`` text or its parameters. Facts: ``line``, ``column``, ``diagnostics`` where known."""

    code = "query-invalid"
    default_hint = "correct the query at the place named; `omnigraph lint --query FILE` checks a whole file"


class LimitExceeded(InvalidInput):
    """Facts: ``limit`` (its name), ``bound``, ``actual``."""

    code = "limit-exceeded"
    http_status = 413
    default_hint = "shorten or divide what the message names; limits are not settings"


class NotFound(OmnigraphError):
    code = "not-found"
    exit_code = 3
    http_status = 404
    default_hint = "check the name; `omnigraph status` lists what the graph holds"


class AlreadyExists(OmnigraphError):
    code = "already-exists"
    exit_code = 3
    http_status = 409
    default_hint = "choose another name, or open what is there"


# --- the caller plans again on a new snapshot ---------------------------------------------------------------------------


class Conflict(OmnigraphError):
    code = "conflict"
    exit_code = 4
    http_status = 409
    default_hint = "read the branch again and repeat the operation"

    def to_dict(self) -> dict[str, Any]:
        body = super().to_dict()
        if {"table_key", "expected", "actual"} <= self.facts.keys():
            body["manifest_conflict"] = {name: body[name] for name in ("table_key", "expected", "actual")}
        return body


class ExpectedVersionMismatch(Conflict):
    """A table is not at the version that the plan was made on. Facts: ``table_key``, ``expected``, ``actual``."""

    code = "expected-version-mismatch"


class ReadSetChanged(Conflict):
    """Something that the operation read or rewrites has moved. Facts: ``table_key``, ``expected``, ``actual``."""

    code = "read-set-changed"


class KeyConflict(Conflict):
    """A strict insert met an id that exists. Facts: ``table_key``, ``ids`` (the first ones), ``total``."""

    code = "key-conflict"
    default_hint = 'load with mode="merge" to replace rows, or leave the ids named out'


class MergeConflict(Conflict):
    """Two branches disagree. Facts: ``conflicts`` (rows of kind, type, id, property, base, source, target), ``total``,
    ``by_kind``."""

    code = "merge-conflict"
    default_hint = "make the rows named agree on one branch, then merge again"

    def to_ndjson(self, side: str = "source") -> str:
        """The rows in conflict as ``side`` has them, as records that a load takes. A row that it does not have is left out."""
        records = self.facts.get("records", {})
        if side not in records:
            raise InvalidInput(f"side is one of {', '.join(records) or 'base, source, target'}, not {str(side)[:80]!r}")
        return "".join(f"{line}\n" for line in records[side])


class WriterFenced(Conflict):
    """Another writer uses the graph exclusively. Facts: ``owner``, ``epoch``."""

    code = "writer-fenced"
    default_hint = "wait for the owner to close, or take over with open(exclusive=True)"


class PreconditionFailed(Conflict):
    """The branch head is not the expected one. Facts: ``expected``, ``actual``."""

    code = "precondition-failed"
    http_status = 412


class SchemaChanged(Conflict):
    """The schema has changed since the rows were staged or checked. Facts: ``expected``, ``actual``."""

    code = "schema-changed"
    default_hint = "stage the rows again on the present schema"


class IdempotencyMismatch(Conflict):
    """The idempotency key was used by another request. Facts: ``idempotency_key``, ``commit_id`` (of the first commit)."""

    code = "idempotency-mismatch"
    default_hint = "use a new key for a new request; `omnigraph commit show COMMIT_ID` shows the first one"


# --- the caller resolves the reason -------------------------------------------------------------------------------------


class Refused(OmnigraphError):
    """Doing it would not be safe. Facts: ``reason`` (one of a closed list, below), ``table_key`` where one is meant."""

    code = "refused"
    exit_code = 4
    http_status = 409
    default_hint = "resolve the reason named, then run it again"

    def __init__(self, message: str, *, reason: Reason, hint: str | None = None, **facts: Any) -> None:
        super().__init__(message, hint=hint, reason=reason, **facts)


# --- the caller asks, waits or goes elsewhere ---------------------------------------------------------------------------


class OutcomeUnknown(OmnigraphError):
    """The write may or may not have landed. Facts: ``commit_id``."""

    code = "outcome-unknown"
    exit_code = 5
    http_status = 503
    default_hint = "ask with `omnigraph commit outcome COMMIT_ID`; do not repeat the write blindly"


class RecoveryPending(OmnigraphError):
    """An interrupted write stands in the way. Facts: ``operation_id``."""

    code = "recovery-pending"
    exit_code = 6
    http_status = 503
    default_hint = "run `omnigraph recover`, or wait until its owner has finished"


class StoreUnavailable(OmnigraphError):
    """The store did not answer, or is full."""

    code = "store-unavailable"
    exit_code = 7
    http_status = 503
    default_hint = "try again later; `omnigraph doctor` checks the store"


class StoreRefused(OmnigraphError):
    """The store answered no: credentials, permissions, or a store that cannot create-if-absent."""

    code = "store-refused"
    exit_code = 8
    http_status = 502
    default_hint = "check credentials and permissions with `omnigraph doctor`"


class Overloaded(OmnigraphError):
    """Back-pressure. Facts: ``metric``, ``bound``, ``actual``, ``command``."""

    code = "overloaded"
    exit_code = 7
    http_status = 429
    default_hint = "run `omnigraph optimize`, then repeat the write"


class Reclaimed(OmnigraphError):
    """The version asked for was cleaned up. Facts: ``oldest`` (the oldest commit left).

    A change feed says ``start`` (from where a snapshot begins a new feed) and ``reason``: ``state`` (what lies between is gone),
    ``cursor`` (the cursor is in no history).
    """

    code = "reclaimed"
    exit_code = 3
    http_status = 410
    default_hint = "take a newer snapshot; `omnigraph commit list` shows which are left"


# --- the caller stops ---------------------------------------------------------------------------------------------------


class Corruption(OmnigraphError):
    """Durable state contradicts itself. Nothing was changed. Facts name the object."""

    code = "corruption"
    exit_code = 9
    http_status = 500
    default_hint = "stop writing and keep the files as they are; the message names the object that disagrees"


class UnsupportedStorage(OmnigraphError):
    """A graph of another storage version (facts: ``found``, ``served``), or a table that reads files outside of its graph, which
    was moved (``table``, ``place``)."""

    code = "unsupported-storage"
    exit_code = 9
    http_status = 500
    default_hint = "export with the release that wrote the graph, then init and load with this one"


class MissingExtra(OmnigraphError):
    """An optional dependency is not installed. Facts: ``extra``."""

    code = "missing-extra"
    exit_code = 2
    http_status = 500
    default_hint = "install the extra named in the message"


def all_errors() -> dict[str, type[OmnigraphError]]:
    """Every error class by its code, the base included."""
    found: dict[str, type[OmnigraphError]] = {}
    todo: list[type[OmnigraphError]] = [OmnigraphError]
    while todo:
        kind = todo.pop()
        if kind.__module__ == __name__:
            found[kind.code] = kind
        todo.extend(kind.__subclasses__())
    return dict(sorted(found.items()))
