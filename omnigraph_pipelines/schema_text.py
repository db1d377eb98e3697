"""A schema text with more properties. Everything else of the text stays as its author wrote it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_TOKEN = re.compile(
    r'(?P<blank>[\s\ufeff]+|//[^\n]*|/\*.*?\*/)|(?P<text>"(?:[^"\\]|\\.)*")|(?P<word>[A-Za-z0-9_]+)|(?P<sign>.)',
    re.DOTALL,
)
_DECLARES = frozenset({"interface", "node", "edge"})


def with_properties(text: str, added: Mapping[str, Mapping[str, str]]) -> str:
    """The text with nullable properties added to types. ``added``: by type name, the kind of each property, such as ``String?``.
    A type that the text does not declare is left out; the caller that applies the text compares it with what was asked for."""
    pieces, done = [], 0
    for name, end, has_body in _types(text):
        wanted = added.get(name)
        if not wanted:
            continue
        lines = "".join(f"    {prop}: {kind}\n" for prop, kind in wanted.items())
        before = text[done:end]
        if has_body:
            # A comment up to the end of its line must not take the first property in.
            pieces.append(before if before.endswith("\n") else f"{before}\n")
            pieces.append(lines)
        else:
            pieces.append(f"{before} {{\n{lines}}}")
        done = end
    return "".join([*pieces, text[done:]])


def _types(text: str) -> Iterator[tuple[str, int, bool]]:
    """Each declared type, where more properties go, and whether it has a body: before its closing bracket, or behind its last word."""
    name: str | None = None
    before, depth, last_end = "", 0, 0
    expects_name = False
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "blank":
            continue
        said = token.group()
        if token.lastgroup == "word" and depth == 0 and said in _DECLARES and before != "@":
            if name is not None:
                yield name, last_end, False
            name, expects_name = None, True
        elif expects_name:
            name, expects_name = said, False
        elif said in ("{", "("):
            depth += 1
        elif said in ("}", ")"):
            depth -= 1
            if said == "}" and depth == 0 and name is not None:
                yield name, token.start(), True
                name = None
        before, last_end = said, token.end()
    if name is not None:
        yield name, last_end, False
