"""Patterns of ``@check``: RE2 syntax, linear time, unanchored search. Used when a schema is accepted and at validation."""

from __future__ import annotations

from functools import lru_cache
from typing import Any


class PatternInvalid(ValueError):
    """RE2 refuses the pattern; the message is its reason."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Any:
    """A compiled RE2 pattern; ``.search(text)`` is the check."""
    import re2

    options = re2.Options()
    options.log_errors = False  # the reason travels in the exception, nothing is printed
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        reason = error.args[0] if error.args else "not a regular expression"
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise PatternInvalid(text) from error
