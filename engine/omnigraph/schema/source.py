"""A schema text with places: turns an offset into line and column, and makes the errors that carry them.

This module owns how a place is counted (lines and columns from 1, columns in characters) and worded. It must not know
the grammar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from omnigraph.core.errors import LimitExceeded, SchemaInvalid

_SHOWN_MAX = 40  # characters of the offending text in a message
_WORD = re.compile(r"[A-Za-z0-9_-]+")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Place(NamedTuple):
    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True)
class Source:
    text: str

    def place(self, offset: int) -> Place:
        start = self.text.rfind("\n", 0, offset) + 1
        return Place(self.text.count("\n", 0, offset) + 1, offset - start + 1)

    def invalid(self, message: str, offset: int, *, hint: str | None = None) -> SchemaInvalid:
        place = self.place(offset)
        return SchemaInvalid(f"{message} ({place})", hint=hint, line=place.line, column=place.column)

    def unexpected(self, expected: str, offset: int, *, hint: str | None = None) -> SchemaInvalid:
        return self.invalid(f"expected {expected}, found {self.shown(offset)}", offset, hint=hint)

    def over_limit(self, what: str, offset: int, *, limit: str, bound: int, actual: int) -> LimitExceeded:
        place = self.place(offset)
        return LimitExceeded(
            f"{what}: {actual}, at most {bound} ({place})",
            hint=f"stay within the limit {limit}",
            limit=limit,
            bound=bound,
            actual=actual,
            line=place.line,
            column=place.column,
        )

    def require_text(self) -> None:
        """Half of a surrogate pair cannot be stored as UTF-8."""
        found = _SURROGATE.search(self.text)
        if found is not None:
            raise self.invalid(f"not valid text: {quoted(found.group())}", found.start())

    def shown(self, offset: int) -> str:
        """What stands at the offset, fit for one line of a message; look-alikes and controls by their code point."""
        if offset >= len(self.text):
            return "the end of the text"
        word = _WORD.match(self.text, offset)
        return quoted(word.group() if word else self.text[offset])


def quoted(text: str) -> str:
    """A text inside a message. One character outside printable ASCII is named by its code point."""
    shown = text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"
    if len(text) == 1 and not (text.isascii() and text.isprintable()):
        name = f"U+{ord(text):04X}"
        return f"`{text}` ({name})" if text.isprintable() else name
    return f"`{shown}`" if shown.isprintable() else repr(shown)
