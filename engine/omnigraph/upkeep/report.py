"""How reports of upkeep look: plain dicts for programs, one line for a prompt, a table for a notebook. Knows no graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from html import escape
from typing import Any

_SIZES = ("B", "kB", "MB", "GB", "TB")


class Report:
    """Base of report values: a dataclass whose fields are plain, or have a ``to_dict`` of their own."""

    def to_dict(self) -> dict[str, Any]:
        # Not by ``plain``: it would call a ``to_dict`` that extends this one, for ever.
        return _fields(self)


def plain(value: Any) -> Any:
    """A value as JSON would hold it. Fields whose names begin with an underscore stay inside."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        own = getattr(type(value), "to_dict", None)
        if own is not None and own is not Report.to_dict:
            return value.to_dict()  # type: ignore[attr-defined]  # looked up above
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(key): plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]
    return value


def _fields(value: Any) -> dict[str, Any]:
    return {item.name: plain(getattr(value, item.name)) for item in fields(value) if not item.name.startswith("_")}


def html_table(names: tuple[str, ...], rows: list[tuple[Any, ...]], caption: str) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{body}</table>"


def _cell(value: Any) -> str:
    return "" if value is None else escape(str(value))


def bytes_text(count: int) -> str:
    """1.2 MB and the like; thousands, as disks are sold."""
    size = float(count)
    for unit in _SIZES[:-1]:
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} {_SIZES[-1]}"


def some(names: list[str], shown: int = 3) -> str:
    """``a, b, c and 4 more``."""
    listed = ", ".join(names[:shown])
    return f"{listed} and {len(names) - shown} more" if len(names) > shown else listed


def count_text(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
