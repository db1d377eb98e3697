"""Ctrl-C that came back as something else. Libraries that call back into Python report what was raised there as an error of
their own, or end a query by themselves; a caller who catches errors would go on although the user has asked it to stop."""

from __future__ import annotations

import re

# Of Arrow's streams, which Lance and DuckDB draw through Python.
_WRAPPED = re.compile(r"(?:External error: |Python exception: .*)KeyboardInterrupt\b", re.DOTALL)
_OF_DUCKDB = "Query interrupted"
# Of a wait for a thread that an interrupt ends while it takes its lock back; what was raised first is the context.
_OF_WAITING = "cannot release un-acquired lock"


def is_interrupt(error: BaseException) -> bool:
    """Whether this is Ctrl-C, whatever it was wrapped into."""
    if isinstance(error, KeyboardInterrupt):
        return True
    if isinstance(error, RuntimeError) and str(error) == _OF_DUCKDB:
        return True
    if isinstance(error, RuntimeError) and str(error) == _OF_WAITING:
        return isinstance(error.__context__, KeyboardInterrupt)
    return isinstance(error, Exception) and _WRAPPED.search(str(error)) is not None
