"""A query text and the places in it.

Owns positions (line and column, both from 1, in characters) and the size limit of a text. Must not know tokens or
grammar.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import NamedTuple

from omnigraph.core.errors import LimitExceeded, QueryInvalid
from omnigraph.core.limits import Limits


class Position(NamedTuple):
    """A place in a query text. ``NOWHERE`` (0, 0) marks a tree that was built and not parsed."""

    line: int
    column: int


NOWHERE = Position(0, 0)

# Below this many characters no text can exceed the byte limit, whatever its script: UTF-8 takes 4 bytes at most.
_BYTES_PER_CHAR_MAX = 4


class Source:
    """A text that was found to be within the size limit."""

    def __init__(self, text: str, limits: Limits) -> None:
        if len(text) * _BYTES_PER_CHAR_MAX > limits.source_text_bytes:
            limits.check("source_text_bytes", len(text.encode("utf-8", "surrogatepass")), where="query text")
        # A leading byte-order mark is how some editors save a file; it says nothing.
        self.text = " " + text[1:] if text.startswith("\ufeff") else text

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        found = self.text.find("\n")
        while found >= 0:
            starts.append(found + 1)
            found = self.text.find("\n", found + 1)
        return starts

    @cached_property
    def comments_end(self) -> int:
        """Where the last comment of the text can close: one that opens behind it never does."""
        return self.text.rfind("*/")

    def position(self, offset: int) -> Position:
        line = bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1)

    def invalid(self, message: str, offset: int) -> QueryInvalid:
        """The error for a place in this text. The place leads the message, as compilers print it."""
        line, column = self.position(offset)
        return QueryInvalid(f"line {line}, column {column}: {message}", line=line, column=column)

    def check_limit(self, limits: Limits, name: str, actual: int, offset: int) -> None:
        """Raise ``LimitExceeded``, with the place, if ``actual`` passes the bound ``name``."""
        line, column = self.position(offset)
        try:
            limits.check(name, actual, where=f"line {line}, column {column}")
        except LimitExceeded as error:
            error.facts.update(line=line, column=column)
            raise
