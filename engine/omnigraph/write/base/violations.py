"""What is wrong with an input: one value each, and the log that keeps the first ones and counts the rest.

Owns the shape, the order and the wording's outer form (where, then what). It must not decide what is wrong.
"""

from __future__ import annotations

import builtins
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from heapq import heappush, heapreplace
from typing import Any, Final

from omnigraph.core.shown import Shown

SHOWN_MAX: Final = 20
MISSING_SHOWN_MAX: Final = 20
VALUE_CHARS_MAX: Final = 80

# The codes, in the order of the rounds that find them. They are part of the interface.
MALFORMED: Final = "malformed-record"
RECORD_TOO_LARGE: Final = "record-too-large"
DUPLICATE_MEMBER: Final = "duplicate-member"
UNKNOWN_MEMBER: Final = "unknown-member"
UNKNOWN_TYPE: Final = "unknown-type"
UNKNOWN_PROPERTY: Final = "unknown-property"
MISSING_ENDPOINT_VALUE: Final = "endpoint-required"
WRONG_KIND: Final = "wrong-kind"
OVERFLOW: Final = "out-of-range-integer"
BAD_DATE: Final = "bad-date"
NOT_FINITE: Final = "not-finite"
BAD_LENGTH: Final = "wrong-length"
BAD_TEXT: Final = "bad-text"
BLOB_URI: Final = "external-blob"
ID_MISMATCH: Final = "id-mismatch"
ID_TOO_LONG: Final = "id-too-long"
REQUIRED: Final = "required"
ENUM: Final = "enum"
RANGE: Final = "range"
CHECK: Final = "check"
DUPLICATE_ID: Final = "duplicate-id"
UNIQUE: Final = "unique"
KEY_CONFLICT: Final = "key-conflict"
ENDPOINT: Final = "missing-endpoint"
CARD_MAX: Final = "card-max"
CARD_MIN: Final = "card-min"
ORPHAN: Final = "orphan"

STUB: Final = "stub"
"""No violation: an edge whose end does not exist and is made as a stub."""

# The checks for which bounds can be given, by code. Everything else is about the value of a record.
_CHECK_OF: Final = {
    DUPLICATE_ID: "duplicates",
    UNIQUE: "duplicates",
    KEY_CONFLICT: "duplicates",
    ENDPOINT: "endpoints",
    STUB: "endpoints",
    CARD_MAX: "cardinality",
    CARD_MIN: "cardinality",
    ORPHAN: "endpoints",
}


@dataclass(frozen=True, slots=True)
class Violation(Shown):
    """One violation. ``record`` counts from 1 in ``source`` (a row number for tables); ``value`` is cut."""

    code: str
    message: str
    table_key: str | None = None
    type: str | None = None
    property: str | None = None
    record: int | None = None
    source: str | None = None
    id: str | None = None
    value: str | None = None
    expected: str | None = None
    source_order: int = 0  # position of the source in the input; orders, is not shown
    hint: str | None = None  # what to do about this one, where its kind does not say it

    def to_dict(self) -> dict[str, Any]:
        shown = ("code", "message", "table_key", "type", "property", "record", "source", "id", "value", "expected")
        return {name: value for name in shown if (value := getattr(self, name)) is not None}

    @builtins.property  # `property` is a field here
    def place(self) -> str:
        """``people.jsonl record 3``, as far as it is known."""
        parts = [self.source] if self.source else []
        if self.record is not None:
            parts.append(f"record {self.record}")
        return " ".join(parts)

    @builtins.property  # `property` is a field here
    def line(self) -> str:
        """The place, the id of the row where the message does not say it, and the message."""
        who = f" ({show_value(self.id)})" if self.id and show_value(self.id) not in self.message else ""
        return f"{self.place}{who}: {self.message}" if self.place else self.message

    @builtins.property  # `property` is a field here
    def order(self) -> tuple[Any, ...]:
        """By source and record; violations about committed rows come last, by table and id."""
        known = self.record is not None
        return (
            not known,
            self.source_order,
            self.record or 0,
            self.table_key or "",
            self.id or "",
            self.code,
            self.property or "",
            self.message,
        )

    def at(self, record: int, source: str | None, source_order: int) -> Violation:
        return replace(self, record=record, source=source, source_order=source_order)


def check_of(code: str) -> str:
    """The check that a code belongs to: values, duplicates, endpoints or cardinality."""
    return _CHECK_OF.get(code, "values")


def show_value(value: Any) -> str:
    """A value on one line, as JSON where it can be, cut to 80 characters."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        text = f"<{len(value)} bytes>"
    elif isinstance(value, str):
        # Cut first: a value may be a megabyte.
        text = json.dumps(value[: VALUE_CHARS_MAX + 1], ensure_ascii=False)
    else:
        try:
            text = json.dumps(value, ensure_ascii=False, default=str)
        except (TypeError, ValueError, RecursionError):
            text = f"<{type(value).__name__}>"
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text[: VALUE_CHARS_MAX + 1])
    return text if len(text) <= VALUE_CHARS_MAX else text[: VALUE_CHARS_MAX - 1] + "…"


class _Reversed:
    """Turns the smallest-first heap into largest-first."""

    __slots__ = ("order",)

    def __init__(self, order: tuple[Any, ...]) -> None:
        self.order = order

    def __lt__(self, other: _Reversed) -> bool:
        return other.order < self.order


class ViolationLog:
    """The first violations by record number, and how many there are. Costs nothing for those that are not kept."""

    def __init__(self, shown_max: int = SHOWN_MAX) -> None:
        self._max = shown_max
        self._heap: list[tuple[_Reversed, int, Violation]] = []
        self._serial = 0
        self.total = 0
        self.by_code: Counter[str] = Counter()
        self.missing_ids: Counter[str] = Counter()  # ids of nodes that edges name and that do not exist

    def __bool__(self) -> bool:
        return self.total > 0

    def add(self, violation: Violation) -> None:
        self.count(violation.code, 1)
        self._keep(violation)

    def count(self, code: str, more: int) -> None:
        """Count violations that are not kept."""
        self.total += more
        self.by_code[code] += more

    def extend(self, violations: Iterable[Violation]) -> None:
        for violation in violations:
            self.add(violation)

    def add_rows(self, rows: Iterable[int], count: int, describe: Callable[[int], Violation]) -> None:
        """``count`` violations at rows that ascend by record number: only those that can be shown are described."""
        code = None
        for _, row in zip(range(self._max), rows, strict=False):
            violation = describe(int(row))
            code = code or violation.code
            if not self._keep(violation):
                break
        self.count(code or MALFORMED, count)

    def merge(self, other: ViolationLog) -> None:
        self.total += other.total
        self.by_code.update(other.by_code)
        self.missing_ids.update(other.missing_ids)
        for _, _, violation in other._heap:
            self._keep(violation)

    @property
    def shown(self) -> tuple[Violation, ...]:
        return tuple(sorted((v for _, _, v in self._heap), key=lambda v: v.order))

    def _keep(self, violation: Violation) -> bool:
        self._serial += 1
        item = (_Reversed(violation.order), self._serial, violation)
        if len(self._heap) < self._max:
            heappush(self._heap, item)
            return True
        if violation.order < self._heap[0][2].order:
            heapreplace(self._heap, item)
            return True
        return False


def most_frequent(counts: Mapping[str, int], most: int = MISSING_SHOWN_MAX) -> dict[str, int]:
    """The highest counts, equal ones in the order of their names."""
    return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:most])
