"""Values of query results as JSON and as text. Dates, times, decimals and bytes have one form each, as in an export."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any


def as_json_value(value: Any) -> Any:
    """A value that ``json`` can write. What JSON has no form for (NaN, infinities) becomes null."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [as_json_value(each) for each in value]
    if isinstance(value, dict):
        return {str(name): as_json_value(each) for name, each in value.items()}
    return as_text(value)


def as_text(value: Any) -> str:
    """A value as the text of a cell; nothing for null."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case datetime():
            return _time_text(value)
        case date() | time():
            return value.isoformat()
        case timedelta():
            return f"{value.total_seconds()} s"
        case Decimal():
            return format(value, "f")
        case bytes() | bytearray() | memoryview():
            return "base64:" + base64.b64encode(bytes(value)).decode("ascii")
        case list() | tuple() | dict():
            return json.dumps(as_json_value(value), ensure_ascii=False)
        case _:
            return str(value)


def second_text(value: datetime) -> str:
    """``2026-11-19T16:58:07Z``: a time in a table of commits or branches."""
    return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S}Z"


def _time_text(value: datetime) -> str:
    """Milliseconds, or microseconds where there are any; UTC with a Z."""
    shown = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value
    digits = "microseconds" if shown.microsecond % 1000 else "milliseconds"
    return shown.isoformat(timespec=digits) + ("Z" if value.tzinfo is not None else "")
