"""What an error of the engine means to an orchestrator: try again later, or stop.

Owns that one table, and the form in which an error reaches the event log: code, message, hint and facts. Conflicts are
planned again inside the engine; one that comes out all the same is tried again as a whole.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import dagster as dg

import omnigraph as og
from omnigraph_pipelines.accepted_schema import AHEAD

RETRIES_MAX: Final = 5
FIRST_DELAY_S: Final = 5.0
DELAY_MAX_S: Final = 300.0
ERROR_TAG: Final = "omnigraph/error"  # on the run: the code, to filter by
# Hidden from the pages of the UI, and read by the sensors.
PERMANENT_TAG: Final = ".dagster/omnigraph.permanent"  # "true" where the same run cannot succeed
JUDGED_AT_TAG: Final = (
    ".dagster/omnigraph.judged_at"  # the head that a refused batch was judged against, if it may fit later
)
BECAUSE_TAG: Final = ".dagster/omnigraph.because"
_TEXT_MAX: Final = 2000
_ROWS_MAX: Final = 20


def is_transient(error: og.errors.OmnigraphError) -> bool:
    """Whether the same step may succeed later without anybody doing anything."""
    errors = og.errors
    later = (
        errors.StoreUnavailable,
        errors.Overloaded,
        errors.RecoveryPending,
        errors.OutcomeUnknown,  # asked again with the same idempotency key
        errors.ExpectedVersionMismatch,
        errors.ReadSetChanged,
        errors.WriterFenced,
    )
    return isinstance(error, later)


@contextmanager
def told_to_dagster(context: Any, *, first_delay_s: float | None = None) -> Iterator[None]:
    """Run a step's work; an error of the engine becomes a retry with backoff, or a failure that nothing retries."""
    try:
        yield
    except og.errors.OmnigraphError as error:
        raise as_outcome(context, error, first_delay_s=first_delay_s) from error


def as_outcome(
    context: Any, error: og.errors.OmnigraphError, *, first_delay_s: float | None = None
) -> dg.RetryRequested | dg.Failure:
    """The exception that tells Dagster what to do about an error. Also logs it and marks the run."""
    transient = is_transient(error)
    _mark(context, error, permanent=not transient)
    if transient and context.retry_number < RETRIES_MAX:
        delay = backoff(context.retry_number, context.run.run_id, first_delay_s=first_delay_s)
        context.log.warning(f"{error.code}: {error.message}; next try in {delay:.1f} s. Hint: {error.hint}")
        return dg.RetryRequested(max_retries=RETRIES_MAX, seconds_to_wait=delay)
    return dg.Failure(
        description=f"{error.code}: {error.message}\nHint: {error.hint}",
        metadata=error_metadata(error),
        allow_retries=transient,
    )


def backoff(attempt: int, seed: str, *, first_delay_s: float | None = None) -> float:
    """Seconds before the next try: doubling, up to a bound; runs that failed together do not come back together."""
    first = FIRST_DELAY_S if first_delay_s is None else first_delay_s
    spread = zlib.crc32(f"{seed}/{attempt}".encode()) / 2**32
    return float(min(DELAY_MAX_S, first * 2**attempt) * (0.75 + spread / 2))


def error_metadata(error: og.errors.OmnigraphError) -> dict[str, dg.MetadataValue[Any]]:
    """Code, hint and facts as the event log shows them."""
    found: dict[str, dg.MetadataValue[Any]] = {
        "code": dg.MetadataValue.text(error.code),
        "hint": dg.MetadataValue.text(error.hint),
    }
    for name, value in error.facts.items():
        if name in found or value is None:
            continue
        if isinstance(value, list | tuple) and all(isinstance(one, Mapping) for one in value):
            if value:
                found[name] = rows_metadata(value)
        elif isinstance(value, bool | int | float):
            found[name] = dg.MetadataValue.int(int(value)) if isinstance(value, int) else dg.MetadataValue.float(value)
        elif isinstance(value, str):
            found[name] = dg.MetadataValue.text(value[:_TEXT_MAX])
        else:
            found[name] = dg.MetadataValue.text(repr(value)[:_TEXT_MAX])
    return found


def rows_metadata(rows: Any) -> dg.TableMetadataValue:
    """A few dicts as a table; columns are what they have in all."""
    shown = [dict(row) for row in list(rows)[:_ROWS_MAX]]
    names = list(dict.fromkeys(str(name) for row in shown for name in row))
    records = [dg.TableRecord({name: _cell(row.get(name)) for name in names}) for row in shown]
    schema = dg.TableSchema(columns=[dg.TableColumn(name, "string") for name in names])
    return dg.MetadataValue.table(records=records, schema=schema)


def _cell(value: Any) -> str | int | float | bool:
    if isinstance(value, str | int | float | bool):
        return value[:_TEXT_MAX] if isinstance(value, str) else value
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {one}" for name, one in value.items())[:_TEXT_MAX]
    return str(value)[:_TEXT_MAX]


def _mark(context: Any, error: og.errors.OmnigraphError, *, permanent: bool) -> None:
    found = {ERROR_TAG: error.code, PERMANENT_TAG: "true" if permanent else "false", BECAUSE_TAG: in_short(error)}
    judged_at = error.facts.get("judged_at")
    if permanent and isinstance(judged_at, str):
        found[JUDGED_AT_TAG] = judged_at
    context.instance.add_run_tags(context.run.run_id, found)


def in_short(error: og.errors.OmnigraphError) -> str:
    """Return a refusal in a few words: how many complaints of which kinds, or the code of the error."""
    codes = sorted({str(one.get("code", "")) for one in error.facts.get("violations") or () if one.get("code")})
    total = error.facts.get("total")
    return f"{total:,} {', '.join(codes)}" if codes and isinstance(total, int) else error.code


# Complaints that later commits, or a later schema, may do away with.
_OF_ENDPOINTS: Final = frozenset({"missing-endpoint"})
_OF_SCHEMA: Final = frozenset({"unknown-type", "unknown-property"})


def may_fit_later(error: og.errors.OmnigraphError, catalog: Any) -> bool:
    """Return whether a batch was refused only for nodes that the graph does not hold yet, for types and properties
    that the schema file declares and the graph does not have yet, or because the file is ahead. Judged by the complaints that the error carries."""
    if error.facts.get("reason") == AHEAD:
        return True
    violations = list(error.facts.get("violations") or ())
    return bool(violations) and all(_is_awaited(one, catalog) for one in violations)


def _is_awaited(violation: Mapping[str, Any], catalog: Any) -> bool:
    code = violation.get("code")
    if code in _OF_ENDPOINTS:
        return True
    name = str(violation.get("table_key") or violation.get("type") or "").rpartition(":")[2]
    declared = catalog.find_node(name) or catalog.find_edge(name) if code in _OF_SCHEMA and name else None
    if declared is None or code == "unknown-type":
        return declared is not None
    return violation.get("property") in {one.name for one in declared.properties}
