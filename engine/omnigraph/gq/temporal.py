"""Dates and instants from text: one reading of ISO 8601 for literals and parameters.

Results are exact: a text that is finer than a microsecond is refused, not cut.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone

_DATE = r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_TIME = (
    r"[Tt ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,18}))?)?"
    r"(?P<zone>[Zz]|(?P<sign>[+-])(?P<zone_hour>[0-9]{2})(?::?(?P<zone_minute>[0-9]{2}))?)?"
)
_TEXT = re.compile(f"{_DATE}(?:{_TIME})?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_date(text: str) -> date:
    """A date, or the date part of a date-time. ``ValueError`` if the text is neither."""
    return _local(text).date()


def parse_datetime(text: str) -> datetime:
    """An instant in UTC: an offset is applied, none means UTC, a bare date is its midnight. Else ``ValueError``."""
    try:
        return _local(text).astimezone(UTC)
    except OverflowError as error:
        raise ValueError("instant is outside of the years 1 to 9999 in UTC") from error


def datetime_of_us(microseconds: int) -> datetime:
    """The instant so many microseconds after the epoch."""
    return _EPOCH + timedelta(microseconds=microseconds)


def _local(text: str) -> datetime:
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError("not an ISO 8601 date or date-time")
    part = found.groupdict()
    fraction = part["fraction"] or ""
    if fraction[6:].strip("0"):
        raise ValueError("finer than a microsecond")
    return datetime(
        int(part["year"]),
        int(part["month"]),
        int(part["day"]),
        int(part["hour"] or 0),
        int(part["minute"] or 0),
        int(part["second"] or 0),
        int(fraction[:6].ljust(6, "0")),
        tzinfo=_zone(part),
    )


def _zone(part: dict[str, str | None]) -> timezone:
    if part["sign"] is None:
        return UTC
    minutes = int(part["zone_minute"] or 0)
    if minutes > 59:
        raise ValueError("minutes of an offset go to 59")
    offset = timedelta(hours=int(part["zone_hour"] or 0), minutes=minutes)
    return timezone(-offset if part["sign"] == "-" else offset)
