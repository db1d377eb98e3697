"""Characters to tokens: the lexical rules of the query language.

Tokens are cut on demand, so that a broken text of many megabytes costs no more than the part before its first fault.
Owns words, literals' spelling and comments; must not know what may follow what.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from omnigraph.core.limits import Limits
from omnigraph.gq.source import Source

NAME = "name"  # lower case or "_" first: names, keywords
TYPE = "type"  # upper case first
INT = "int"
FLOAT = "float"
STRING = "string"
VARIABLE = "variable"
ANNOTATION = "annotation"
OPERATOR = "operator"
PUNCTUATION = "punctuation"
END = "end"


class Token(NamedTuple):
    kind: str
    text: str
    start: int


# Possessive repeats (++ and *+) keep the matcher from remembering every character of a long string or comment.
_TOKEN = re.compile(
    r"""
    (?P<name>[a-z_][A-Za-z0-9_]*)
  | (?P<type>[A-Z][A-Za-z0-9_]*)
  | (?P<punctuation>[{}()\[\]:,.?])
  | (?P<variable>\$[a-z_][A-Za-z0-9_]*)
  | (?P<string>"(?:[^"\\]++|\\.)*+")
  | (?P<float>[0-9]+\.[0-9]+)
  | (?P<int>[0-9]+)
  | (?P<operator>>=|<=|!=|[<>=])
  | (?P<annotation>@[a-z_][A-Za-z0-9_]*)
    """,
    re.VERBOSE | re.DOTALL,
)
_BLANK = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+)*+")

_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_NAMED = frozenset({NAME, TYPE, VARIABLE, ANNOTATION})

# How much of an unexpected character run a message shows.
_SHOWN_CHARS = 40


class Tokens:
    """The tokens of one source from an offset on, one at a time."""

    def __init__(self, source: Source, limits: Limits, *, offset: int = 0) -> None:
        self.source = source
        self.offset = offset
        self._limits = limits

    def next(self) -> Token:
        text = self.source.text
        start = self._after_blanks()
        found = _TOKEN.match(text, start)
        if found is None:
            # What was looked at counts as read, also when it is no token.
            self.offset = len(text) if text.startswith('"', start) else start
            if start >= len(text):
                return Token(END, "", start)
            raise self.source.invalid(_why_no_token(text, start), start)
        kind = found.lastgroup or END
        token = Token(kind, found.group(), start)
        if kind in _NAMED and len(token.text) > self._limits.name_chars:
            self.source.check_limit(self._limits, "name_chars", len(token.text.lstrip("$@")), start)
        self.offset = found.end()
        return token

    def _after_blanks(self) -> int:
        text, offset = self.source.text, self.offset
        while True:
            blank = _BLANK.match(text, offset)
            offset = blank.end() if blank else offset
            if not text.startswith("/*", offset):
                self._check_comments(offset)
                return offset
            if offset + 2 > self.source.comments_end:
                raise self.source.invalid("comment is not closed", offset)
            offset = text.index("*/", offset + 2) + 2

    def _check_comments(self, end: int) -> None:
        """The text of a query is stored with what it did, comments included, and half of a pair cannot be."""
        unstorable = None if self.source.text.isascii() else _SURROGATE.search(self.source.text, self.offset, end)
        if unstorable is not None:
            raise self.source.invalid("half of a surrogate pair is not a character", unstorable.start())

    def text_of(self, token: Token) -> str:
        """The value of a string token, escapes resolved."""
        raw = token.text[1:-1]
        unstorable = _SURROGATE.search(raw)
        if unstorable is not None:
            offset = token.start + 1 + unstorable.start()
            raise self.source.invalid("half of a surrogate pair is not a character", offset)
        if "\\" not in raw:
            return raw

        def resolve(escape: re.Match[str]) -> str:
            found = _ESCAPES.get(escape.group(1))
            if found is None:
                offset = token.start + 1 + escape.start()
                raise self.source.invalid(f"unsupported escape in string: \\{escape.group(1)!a}", offset)
            return found

        return _ESCAPE.sub(resolve, raw)


def _why_no_token(text: str, start: int) -> str:
    if text[start] == '"':
        return "string is not closed"
    if text[start] == "$":
        return "a variable is `$` and a name that starts with a lower-case letter or `_`"
    return f"unexpected character {text[start]!a}"


def describe(token: Token) -> str:
    """A token as an error shows it: on one line, cut, never raw control characters."""
    if token.kind == END:
        return "the end of the text"
    shown = token.text if len(token.text) <= _SHOWN_CHARS else token.text[:_SHOWN_CHARS] + "…"
    return f"string {shown[1:-1]!a}" if token.kind == STRING else f"`{shown}`"
