"""Tokens of ``.pg``, read at the place where one is expected. The grammar that uses them is ``parser``'s.

No keyword is reserved and a keyword needs no blank after it. Nothing here recurses on the input.
"""

from __future__ import annotations

import math
import re
from typing import NoReturn

from omnigraph.schema.source import Source, quoted
from omnigraph.schema.syntax import Word

# Possessive, so that a long run of blanks and comments is never tried a second time.
_BLANK = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+")
_TYPE_NAME = re.compile(r"[A-Z][A-Za-z0-9_]*")
NAME = re.compile(r"[a-z_][A-Za-z0-9_]*")
_WORD = re.compile(r"[A-Za-z0-9_]+")
_DIGITS = re.compile(r"[0-9]+")
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_STRING_PART = re.compile(r'[^"\\]+')
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_INTEGER_MIN, _INTEGER_MAX = -(2**63), 2**64 - 1  # everything that an integer property can hold
_DIGITS_MAX = 20  # of the largest integer; longer ones are refused before they are converted
_NUMBER_CHARS_MAX = 1_000  # of a number with a fraction; more than the largest and the finest float need


class TokenReader:
    """``pos`` always stands on the next token: whatever is taken, the blanks behind it go too."""

    def __init__(self, source: Source, name_chars: int) -> None:
        self.source = source
        self.text = source.text
        self.name_chars = name_chars
        self.pos = 1 if self.text.startswith("\ufeff") else 0  # a byte order mark says nothing
        self.skip()

    def annotation_name(self) -> str:
        """The name after ``@``, or nothing where no ``@`` stands."""
        return self.name("the name of an annotation").text if self.take("@") else ""

    def type_name(self, expected: str) -> Word:
        return self._named(_TYPE_NAME, expected, "it begins with a capital letter A-Z; then letters, digits and `_`")

    def name(self, expected: str) -> Word:
        return self._named(NAME, expected, "it begins with a small letter a-z or `_`; then letters, digits and `_`")

    def _named(self, pattern: re.Pattern[str], expected: str, hint: str) -> Word:
        at = self.pos
        found = pattern.match(self.text, at)
        if found is None:
            self.fail(expected, hint=hint)
        length = found.end() - at
        if length > self.name_chars:
            raise self.source.over_limit(
                f"{expected} is too long", at, limit="name_chars", bound=self.name_chars, actual=length
            )
        self.advance(found.end())
        return Word(found.group(), at)

    def word(self, expected: str) -> Word:
        at = self.pos
        found = _WORD.match(self.text, at)
        if found is None:
            self.fail(expected)
        self.advance(found.end())
        return Word(found.group(), at)

    def string(self) -> str:
        start = at = self.pos
        parts: list[str] = []
        at += 1
        while True:
            plain = _STRING_PART.match(self.text, at)
            if plain is not None:
                parts.append(plain.group())
                at = plain.end()
            sign = self.text[at : at + 1]
            if sign == '"':
                self.advance(at + 1)
                return "".join(parts)
            escape = self.text[at + 1 : at + 2]
            if not sign or not escape:
                raise self.source.invalid("this string is not closed", start)
            if escape not in _ESCAPES:
                raise self.source.invalid(
                    f"unsupported escape {quoted(sign + escape)}", at, hint=r"the escapes are \" \\ \n \r \t"
                )
            parts.append(_ESCAPES[escape])
            at += 2

    def whole_number(self, what: str, bound: int, *, otherwise: str | None = None) -> int:
        at = self.pos
        found = _DIGITS.match(self.text, at)
        if found is None:
            self.fail(otherwise or what)
        digits = found.group().lstrip("0") or "0"
        if len(digits) > _DIGITS_MAX or int(digits) > bound:
            raise self.source.invalid(f"{what} is out of range: at most {bound}", at)
        self.advance(found.end())
        return int(digits)

    def number(self) -> int | float:
        """A bound: an integer as far as an integer property reaches, else a finite float."""
        at = self.pos
        found = NUMBER.match(self.text, at)
        if found is None:
            self.fail("a number")
        self.advance(found.end())
        text = found.group()
        if "." in text:
            value = float(text) if len(text) <= _NUMBER_CHARS_MAX else math.inf
            if not math.isfinite(value):
                raise self.source.invalid("this number is too large or too long", at)
            return value + 0.0  # -0.0 becomes 0.0
        digits = text.lstrip("-0") or "0"
        value = int(digits) if len(digits) <= _DIGITS_MAX else _INTEGER_MAX + 1
        value = -value if text.startswith("-") else value
        if not _INTEGER_MIN <= value <= _INTEGER_MAX:
            raise self.source.invalid("this number is out of the range of every integer type", at)
        return value

    def peek(self, sign: str) -> bool:
        return self.text.startswith(sign, self.pos)

    def take(self, sign: str) -> bool:
        if not self.text.startswith(sign, self.pos):
            return False
        self.advance(self.pos + len(sign))
        return True

    def expect(self, sign: str, expected: str | None = None) -> None:
        if not self.take(sign):
            self.fail(expected or f"`{sign}`")

    def advance(self, pos: int) -> None:
        self.pos = pos
        self.skip()

    def skip(self) -> None:
        blank = _BLANK.match(self.text, self.pos)
        if blank is not None:
            self.pos = blank.end()
        if self.text.startswith("/*", self.pos):
            raise self.source.invalid("this comment is not closed", self.pos)

    def fail(self, expected: str, *, hint: str | None = None) -> NoReturn:
        raise self.source.unexpected(expected, self.pos, hint=hint)
