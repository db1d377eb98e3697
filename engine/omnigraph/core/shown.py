"""How values look to people, wherever they are shown: sizes and counts as text, tables for a notebook. Knows no graph.

Owns the escaping of what a notebook shows: a name, a value or an error never becomes markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from omnigraph.core.errors import OmnigraphError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CELL_CHARS_MAX: Final = 120  # a notebook shows what a value is, not all of it
_SHORT_CHARS: Final = 40  # what is shorter stays on one line: ids, times
_LEFT: Final = "padding:1px 8px;text-align:left"
_RIGHT: Final = "padding:1px 8px;text-align:right"


def time_text(us: int) -> str:
    """ISO 8601 in UTC, with microseconds."""
    return (_EPOCH + timedelta(microseconds=us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def name_text(text: str, chars_max: int = 200) -> str:
    """A name as a message may hold it: what could drive a terminal is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:chars_max])


def value_shown(value: object, chars_max: int = 80) -> str:
    """The beginning of a wrong value as a message shows it, or its kind: what a caller passes may hold itself, be nested without
    end, or fail at being shown."""
    try:
        return repr(value)[:chars_max]
    except Exception:  # noqa: BLE001 - its own ``repr`` may raise anything, and the message is about something else
        return f"a {type(value).__name__}"


def bytes_text(n: int) -> str:
    """``1.4 MiB``."""
    size = float(n)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{n} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def count_text(n: int, one: str, many: str | None = None) -> str:
    """``1 node type``, ``3 node types``."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def span_text(total_s: int) -> str:
    """``7d``, ``90s``: the largest unit that it is a whole number of."""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if total_s and total_s % size == 0:
            return f"{total_s // size}{unit}"
    return f"{total_s}s"


def html_table(
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    caption: str = "",
    *,
    notes: Sequence[str] = (),
    empty: str = "none",
) -> str:
    """A table with ``notes`` below it; every text is escaped. Numbers stand to the right, a column called bytes holds sizes.

    Without rows it says ``empty`` in place of headings: a table of headings alone looks like a fault.
    """
    listed = [tuple(row) for row in rows]
    title = f'<caption style="caption-side:top;{_LEFT};white-space:nowrap">{_escaped(caption)}</caption>'
    if listed:
        right = [all(row[at] is None or _is_number(row[at]) for row in listed) for at in range(len(names))]
        sides = [_RIGHT if number else _LEFT for number in right]
        head = "".join(f'<th style="{side}">{_escaped(name)}</th>' for name, side in zip(names, sides, strict=True))
        body = "".join(f"<tr>{_cells(names, row, sides)}</tr>" for row in listed)
        inner = f"<tr>{head}</tr>{body}"
    else:
        inner = f'<tr><td style="{_LEFT}">{_escaped(empty)}</td></tr>'
    below = "".join(f"<div>{_escaped(note)}</div>" for note in notes)
    return f"<table>{title if caption else ''}{inner}</table>{below}"


def html_members(value: Any) -> str:
    """The members of a dataclass, one a row; those that its ``repr`` leaves out are left out here, too."""
    kind = type(value)
    names = [one.name for one in fields(kind) if one.repr and not one.name.startswith("_")]
    return html_table(("member", "value"), [(name, getattr(value, name)) for name in names], kind.__name__)


def html_or_text(value: object, make: Callable[[], str]) -> str:
    """What ``make`` says of a value that reads a graph when it is shown; its ``repr`` and the error where that fails."""
    try:
        return make()
    except OmnigraphError as error:
        return html_table((), [], repr(value), empty=error.message)


def list_text(parts: Sequence[str], shown_max: int = 8) -> str:
    """``a, b, c and 4 more``."""
    more = len(parts) - shown_max
    return ", ".join(parts[:shown_max]) + (f" and {more} more" if more > 0 else "")


class Shown:
    """Base of dataclasses that a notebook shows as a table of their members."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return html_members(self)


def _escaped(text: str) -> str:
    from html import escape  # its table of entities is read where a notebook asks for HTML, and nowhere else

    return escape(text)


def _cells(names: Sequence[str], row: Sequence[Any], sides: Sequence[str]) -> str:
    found = []
    for name, value, side in zip(names, row, sides, strict=True):
        text = _cell(name, value)
        style = f"{side};white-space:nowrap" if len(text) <= _SHORT_CHARS else side
        found.append(f'<td style="{style}">{_escaped(text)}</td>')
    return "".join(found)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    if name == "bytes" and isinstance(value, int):
        return bytes_text(value)
    text = str(value)
    return text if len(text) <= _CELL_CHARS_MAX else text[: _CELL_CHARS_MAX - 1] + "…"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
