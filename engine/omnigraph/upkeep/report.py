"""How reports of upkeep look to programs: plain dicts. Knows no graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any


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


def some(names: list[str], shown: int = 3) -> str:
    """``a, b, c and 4 more``."""
    listed = ", ".join(names[:shown])
    return f"{listed} and {len(names) - shown} more" if len(names) > shown else listed
