"""The document of a staged part, format 2: JSON, and beside it one Arrow IPC stream of key columns a table.

Owns the wire between tasks and the process that commits, and what that process refuses. In any transport it is a document
and never a pickle: an object that is pickled on the way travels as its document.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from omnigraph.core import canonical_json, documents, errors
from omnigraph.core.documents import Document, Malformed, Ulid
from omnigraph.core.errors import OmnigraphError
from omnigraph.distributed.fragments import StagedFragments
from omnigraph.write.base.rejects import Rejected, writable
from omnigraph.write.base.violations import Violation

if TYPE_CHECKING:
    from omnigraph.distributed.staged_part import StagedPart

FORMAT: Final = 2
PART_BYTES_MAX: Final = 256 * 1024 * 1024
_COUNT = Annotated[int, Field(ge=0)]
_NESTING_OF_RECORDS: Final = canonical_json.NESTING_MAX - 4  # a record lies four levels deep in the document


class _Split(Document):
    order: Annotated[int, Field(ge=0, lt=1 << 30)]
    index: Annotated[int, Field(ge=0, lt=1 << 32)]
    name: str | None
    records: _COUNT


class _Stretch(Document):
    split: _COUNT
    rows: _COUNT
    first_number: _COUNT
    numbers: list[_COUNT] | None


class _Share(Document):
    table_key: str
    staged: StagedFragments | None
    stretches: list[_Stretch]
    minted: bool | list[_COUNT]
    unnamed: dict[str, Literal[True] | list[_COUNT]] = Field(default_factory=dict)


class _Violation(Document):
    code: str
    message: str
    table_key: str | None
    type: str | None
    property: str | None
    record: int | None
    source: str | None
    id: str | None
    value: str | None
    expected: str | None
    source_order: int


class _PartViolations(Document):
    shown: list[_Violation]
    total: _COUNT
    by_code: dict[str, _COUNT] = Field(default_factory=dict)


class _Rejected(Document):
    record: Any
    reasons: Annotated[list[_Violation], Field(min_length=1)]


class _Keys(Document):
    table_key: str
    columns: list[str]
    rows: _COUNT
    sha256: str


class _Part(Document):
    format: Literal[2]
    staging_id: Ulid
    place: _COUNT
    splits: list[_Split]
    shares: list[_Share]
    malformed: _PartViolations
    bad_values: _PartViolations
    rejected: list[_Rejected]
    error: dict[str, Any] | None
    keys: list[_Keys]


# --- writing ------------------------------------------------------------------------------------------------------------


def to_document(part: StagedPart) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "staging_id": part.staging_id,
        "place": part.place,
        "splits": [
            {"order": split.order, "index": split.index, "name": split.name, "records": records}
            for split, records in part.splits
        ],
        "shares": [_share(one) for one in part.tables],
        "malformed": _violations_of(part.malformed),
        "bad_values": _violations_of(part.bad_values),
        "rejected": [
            {"record": writable(one.record, _NESTING_OF_RECORDS), "reasons": _violations(one.reasons)}
            for one in part.rejected
        ],
        "error": None if part.error is None else writable(part.error.to_dict(), _NESTING_OF_RECORDS),
        "keys": [
            {
                "table_key": one.table_key,
                "columns": list(one.columns),
                "rows": one.rows,
                "sha256": hashlib.sha256(one.data).hexdigest(),
            }
            for one in part.keys
        ],
    }


def _share(one: Any) -> dict[str, Any]:
    body = {
        "table_key": one.table_key,
        "staged": None if one.staged is None else one.staged.to_dict(),
        "stretches": [
            {
                "split": stretch.split,
                "rows": stretch.rows,
                "first_number": stretch.first_number,
                "numbers": None if stretch.numbers is None else stretch.numbers.tolist(),
            }
            for stretch in one.stretches
        ],
        "minted": _to_rows(one.minted),
    }
    return {**body, "unnamed": {name: _to_rows(mask) for name, mask in one.unnamed.items()}} if one.unnamed else body


def _to_rows(mask: Any) -> bool | list[int]:
    found: bool | list[int] = mask if isinstance(mask, bool) else np.flatnonzero(mask).tolist()
    return found


def _to_mask(given: Any, rows: int, what: str) -> Any:
    if isinstance(given, bool):
        return given
    if any(row >= rows for row in given):
        raise Malformed(f"a row of {what} does not exist")
    mask = np.zeros(rows, dtype=np.bool_)
    mask[given] = True
    return mask


def _violations_of(given: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"shown": _violations(given.shown), "total": given.total}
    return {**body, "by_code": dict(given.by_code)} if given.by_code else body


def _violations(given: Sequence[Violation]) -> list[dict[str, Any]]:
    return [writable({name: getattr(one, name) for name in _Violation.model_fields}) for one in given]


# --- reading ------------------------------------------------------------------------------------------------------------


def from_json(text: str | bytes, streams: Sequence[bytes] = ()) -> StagedPart:
    """The part in a document. ``streams``: what lies beside it, in the order of its ``keys``. Raises ``InvalidInput``, for
    a higher format ``UnsupportedStorage``."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    with documents.refusals("that was given", "the staged part", hint="stage the batch again", given=True):
        return _part(documents.read(_Part, data, format=FORMAT, bytes_max=PART_BYTES_MAX), streams)


def _part(found: _Part, streams: Sequence[bytes]) -> StagedPart:
    from omnigraph.distributed.staged_part import Split, StagedPart

    splits = tuple((Split(one.order, one.index, one.name), one.records) for one in found.splits)
    known = {split.key for split, _ in splits}
    if len(known) < len(splits):
        raise Malformed("a split is named twice")
    if len(streams) != len(found.keys):
        raise Malformed(f"it has {len(found.keys)} streams of keys, and {len(streams)} were given")
    return StagedPart(
        found.staging_id,
        found.place,
        splits,
        tuple(_task_rows(one, found.staging_id, known) for one in found.shares),
        _read_violations_of(found.malformed),
        _read_violations_of(found.bad_values),
        tuple(_rejected(one) for one in found.rejected),
        None if found.error is None else error_of(found.error),
        tuple(_key_stream(one, data) for one, data in zip(found.keys, streams, strict=True)),
    )


def _task_rows(one: _Share, staging_id: str, splits: set[int]) -> Any:
    from omnigraph.distributed.staged_part import Stretch, TaskRows

    rows = sum(stretch.rows for stretch in one.stretches)
    if one.staged is not None and (one.staged.staging_id, one.staged.table_key) != (staging_id, one.table_key):
        raise Malformed(f"the fragments of {one.table_key} were staged for another transaction or table")
    if rows != (0 if one.staged is None else one.staged.rows):
        raise Malformed(f"its stretches and its fragments of {one.table_key} count different rows")
    stretches = []
    for stretch in one.stretches:
        if stretch.split not in splits:
            raise Malformed(f"rows of {one.table_key} come from a split that it does not name")
        if stretch.numbers is not None and len(stretch.numbers) != stretch.rows:
            raise Malformed(f"a stretch of {one.table_key} has another count of numbers than of rows")
        numbers = None if stretch.numbers is None else np.array(stretch.numbers, dtype=np.int64)
        stretches.append(Stretch(stretch.split, stretch.rows, stretch.first_number, numbers))
    minted = _to_mask(one.minted, rows, f"{one.table_key} that was given an id")
    unnamed = {name: _to_mask(mask, rows, f"{one.table_key} without {name}") for name, mask in one.unnamed.items()}
    return TaskRows(one.table_key, one.staged, tuple(stretches), minted, unnamed)


def _read_violations_of(found: _PartViolations) -> Any:
    from omnigraph.distributed.staged_part import PartViolations

    if found.by_code and sum(found.by_code.values()) != found.total:
        raise Malformed("it counts other violations by code than in all")
    return PartViolations(_read_violations(found.shown), found.total, found.by_code)


def _read_violations(shown: Sequence[_Violation]) -> tuple[Violation, ...]:
    return tuple(Violation(**one.model_dump()) for one in shown)


def _rejected(one: _Rejected) -> Rejected:
    reasons = _read_violations(one.reasons)
    first = reasons[0]
    return Rejected(one.record, reasons, first.record or 0, first.source, first.source_order)


def _key_stream(one: _Keys, data: bytes) -> Any:
    from omnigraph.distributed.staged_part import KeyStream

    if hashlib.sha256(data).hexdigest() != one.sha256:
        raise Malformed(f"the stream of keys of {one.table_key} does not hold the bytes that the document names")
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
            rows = sum(batch.num_rows for batch in stream)
            columns = list(stream.schema.names)
    except pa.ArrowInvalid as error:
        raise Malformed(f"the stream of keys of {one.table_key} is no Arrow IPC stream: {error}") from None
    if (rows, columns) != (one.rows, one.columns):
        raise Malformed(f"the stream of keys of {one.table_key} holds other rows or columns than the document names")
    return KeyStream(one.table_key, tuple(one.columns), one.rows, data)


def error_of(body: Mapping[str, Any]) -> OmnigraphError:
    """The error whose ``to_dict`` this is."""
    known = {
        one.code: one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, OmnigraphError)
    }
    if not isinstance(body.get("error"), str) or body.get("code") not in known:
        raise Malformed("its error is not one of this package")
    left_out = ("error", "code", "hint", "manifest_conflict")
    facts = {name: value for name, value in body.items() if name not in left_out}
    return known[body["code"]](body["error"], hint=body.get("hint"), **facts)
