"""Canonical JSON, the form of every JSON text that the storage format defines.

Members sorted by code point, no blanks, no escaping beyond what JSON demands, finite numbers only. Reading is strict: what
``dumps`` could not have written is a ``ValueError``.
"""

from __future__ import annotations

import json
import math
from itertools import chain
from typing import Any, Final, NoReturn

NESTING_MAX: Final = 32


def dumps(value: Any) -> str:
    """Return the text of ``value``."""
    return _ENCODER.encode(value)


def loads(text: str) -> Any:
    """Return the value of ``text``. Raise ``ValueError`` for a member that occurs twice, NaN, infinity or deep nesting.

    Python's parser recurses, and says so in time; nesting is counted after it, because few texts have as many brackets."""
    try:
        found = _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError(f"JSON nested deeper than {NESTING_MAX}") from error
    if text.count("{") + text.count("[") > NESTING_MAX:
        _check_depth(found)
    return found


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"member {twice[:80]!r} appears twice")
    return found


def _not_finite(name: str) -> NoReturn:
    raise ValueError(f"JSON holds {name}, which is no finite number")


def _check_depth(value: Any) -> None:
    """Level by level: a call for each member takes longer than parsing them."""
    level = [value]
    for _ in range(NESTING_MAX):
        members = chain.from_iterable(one.values() if isinstance(one, dict) else one for one in level)
        level = [member for member in members if isinstance(member, (dict, list))]
        if not level:
            return
    raise ValueError(f"JSON nested deeper than {NESTING_MAX}")


def _finite(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"JSON holds {text[:80]}, which is no finite number")
    return found


# Made once: making them costs more than what most texts cost.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_DECODER = json.JSONDecoder(object_pairs_hook=_members, parse_constant=_not_finite, parse_float=_finite)
