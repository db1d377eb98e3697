"""Where a parser stands: look-ahead over tokens, expectations, nesting.

Owns the error messages about form and the nesting limit. The rules of the language are in ``parse_values``,
``parse_reads`` and ``parser``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.core.errors import QueryInvalid
from omnigraph.core.limits import Limits
from omnigraph.gq.source import Position, Source
from omnigraph.gq.tokens import INT, NAME, OPERATOR, PUNCTUATION, STRING, TYPE, VARIABLE, Token, Tokens, describe

# A 64-bit integer has 20 digits and the largest double 309. Longer ones fit nothing, and converting them is slow.
_INTEGER_DIGITS_MAX = 400

_WANTED = {NAME: "a name", TYPE: "a type name", INT: "an integer", STRING: "a string", VARIABLE: "a variable"}


class Cursor:
    """One token of look-ahead always, more on demand."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self.source = source
        self.limits = limits
        self._tokens = Tokens(source, limits)
        self._ahead: deque[Token] = deque()
        self._depth = 0

    # --- looking ------------------------------------------------------------------------------------------------------

    def peek(self, distance: int = 0) -> Token:
        while len(self._ahead) <= distance:
            self._ahead.append(self._tokens.next())
        return self._ahead[distance]

    def take(self) -> Token:
        return self._ahead.popleft() if self._ahead else self._tokens.next()

    def at(self, token: Token) -> Position:
        return self.source.position(token.start)

    def sees(self, text: str, distance: int = 0) -> bool:
        """Whether a keyword, sign or operator stands there."""
        token = self.peek(distance)
        return token.text == text and token.kind in (NAME, PUNCTUATION, OPERATOR)

    def sees_kind(self, kind: str, distance: int = 0) -> bool:
        return self.peek(distance).kind == kind

    @property
    def reached(self) -> int:
        """How far the text was looked at."""
        return self._tokens.offset

    def restart(self, offset: int) -> None:
        """Go on at another place of the text, outside of everything."""
        self._ahead.clear()
        self._tokens = Tokens(self.source, self.limits, offset=offset)
        self._depth = 0

    # --- expecting ----------------------------------------------------------------------------------------------------

    def skip(self, text: str) -> bool:
        if not self.sees(text):
            return False
        self.take()
        return True

    def expect(self, text: str) -> Token:
        if not self.sees(text):
            raise self.unexpected(f"`{text}`")
        return self.take()

    def expect_kind(self, kind: str) -> Token:
        if self.peek().kind != kind:
            raise self.unexpected(_WANTED[kind])
        return self.take()

    def sees_keyword(self, word: str) -> bool:
        token = self.peek()
        return token.kind == NAME and token.text.startswith(word)

    def expect_keyword(self, word: str) -> Token:
        """A keyword where nothing else may stand. What follows it need not be set off by a blank."""
        if not self.sees_keyword(word):
            raise self.unexpected(f"`{word}`")
        token = self.take()
        if token.text != word:
            self._ahead.clear()
            self._tokens = Tokens(self.source, self.limits, offset=token.start + len(word))
        return token

    def variable(self) -> str:
        return self.expect_kind(VARIABLE).text[1:]

    def string(self) -> str:
        return self._tokens.text_of(self.expect_kind(STRING))

    def integer(self) -> int:
        token = self.expect_kind(INT)
        digits = token.text.lstrip("0") or "0"
        if len(digits) > _INTEGER_DIGITS_MAX:
            raise self.error(f"integer is too large: {len(digits)} digits", token)
        return int(digits)

    # --- failing ------------------------------------------------------------------------------------------------------

    def unexpected(self, wanted: str) -> QueryInvalid:
        token = self.peek()
        return self.error(f"expected {wanted}, found {describe(token)}", token)

    def error(self, message: str, token: Token) -> QueryInvalid:
        return self.source.invalid(message, token.start)

    @contextmanager
    def nested(self) -> Iterator[None]:
        """One level deeper, within the limit: the bound that keeps every recursion over the tree finite."""
        self._depth += 1
        if self._depth > self.limits.nesting:
            self.source.check_limit(self.limits, "nesting", self._depth, self.peek().start)
        try:
            yield
        finally:
            self._depth -= 1
