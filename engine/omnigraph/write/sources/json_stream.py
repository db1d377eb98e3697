"""A stream of JSON values separated by white space, as Python values in their order.

Owns framing and nothing else: where one value ends and the next begins, what a broken one looks like and where reading
goes on after it. What a value means is the business of ``records``.

Three ways, from fast to patient, that accept the same texts. One object a line is by far the usual form: such a chunk
is joined with commas and parsed in one call. What the fast parser does not keep (a member written twice) is found by
counting. Anything odd is parsed again by the standard decoder, and where that stops, value by value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pydantic_core

from omnigraph.core.limits import Limits

# Large enough to forget the cost of a call; larger, and Python's garbage collector has more to walk through.
CHUNK_BYTES: Final = 512 * 1024
_WHITE: Final = " \t\r\n"
_SKIP_WHITE: Final = re.compile(r"[ \t\r\n]*")
_NEXT_OBJECT_LINE: Final = re.compile(r"\n(?=\{)")
_TWO_OBJECTS: Final = re.compile(rb"\}[ \t]*,[ \t]*\{")
_BOM: Final = b"\xef\xbb\xbf"


# Of a chunk of whole lines: how many records were delivered in another way, which is all of them; None: not one.
Take = Callable[[bytes], int | None]


class ByteStream(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Broken:
    """In the place of a value that cannot be parsed."""

    raw: str
    reason: str


class Repeated(dict[str, Any]):
    """An object that names a member twice."""

    pairs: list[tuple[str, Any]]

    @property
    def member(self) -> str:
        """The first name that occurs again."""
        seen: set[str] = set()
        return next(name for name, _ in self.pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    repeated = Repeated(found)
    repeated.pairs = pairs
    return repeated


def repeated_text(value: Any) -> str:
    """A value as JSON with every member that was written."""
    if isinstance(value, Mapping):
        pairs = value.pairs if isinstance(value, Repeated) else value.items()
        return "{" + ",".join(f"{json.dumps(str(name))}:{repeated_text(inner)}" for name, inner in pairs) + "}"
    return json.dumps(value, ensure_ascii=False, default=str)


# NaN and infinities are let through as numbers: the check of the property then names them.
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_pairs)


def read_values(
    stream: ByteStream, limits: Limits, chunk_bytes: int = CHUNK_BYTES, *, take: Take | None = None
) -> Iterator[list[Any]]:
    """Lists of values in stream order; ``Broken`` stands for a value that is not JSON. What ``take`` takes is in none of them."""
    carry = b""
    number = 1  # of the first record in ``carry``
    while True:
        block = stream.read(chunk_bytes)
        at_end = not block
        if number == 1 and len(carry) < len(_BOM):
            carry, block = b"", (carry + block).removeprefix(_BOM)
        chunk, rest = (carry + block, b"") if at_end else _cut(carry, block)
        # A line that goes on and on may still hold many short values.
        endless = not chunk and len(rest) > 4 * chunk_bytes
        taken = None if endless or take is None else take(chunk)
        values = [] if taken is not None else None if endless else _lines_at_once(chunk, limits)
        if values is None:
            whole, rest = (rest, b"") if endless else (chunk, rest)
            values, tail = _one_by_one(whole, at_end, limits, number)
            tail += rest
        else:
            tail = rest
        number += len(values) if taken is None else taken
        if values:
            yield values
        if at_end:
            return
        carry = tail
        if len(carry) > limits.record_bytes:
            limits.check("record_bytes", len(carry), where=f"record {number}")


def parse_text(text: str, limits: Limits) -> list[Any]:
    """The values of one text that is held already."""
    return _scan(text, True, limits, 1)[0]


def _cut(carry: bytes, block: bytes) -> tuple[bytes, bytes]:
    """Up to the last end of a line, and what follows it."""
    end = block.rfind(b"\n") + 1
    return (carry + block[:end], block[end:]) if end else (b"", carry + block)


# --- one object a line --------------------------------------------------------------------------------------------------


def plain_lines(chunk: bytes, limits: Limits) -> tuple[bytes, int] | None:
    """The lines without white space around them, and how many, if each may be one object; else nothing. If as many values are read
    of them, each line is one."""
    body = chunk.strip()
    if b"\r" in body:
        # Inside a JSON text a bare carriage return can only be white space.
        body = body.replace(b"\r\n", b"\n")
    if not body:
        return b"", 0
    line_ends = body.count(b"\n")
    # Every line begins with { and ends with }, and none holds two objects with a comma between them.
    if body[:1] != b"{" or body[-1:] != b"}" or body.count(b"}\n{") != line_ends or _TWO_OBJECTS.search(body):
        return None
    if len(body) > limits.record_bytes and max(map(len, body.split(b"\n"))) > limits.record_bytes:
        return None
    return body, line_ends + 1


def _lines_at_once(chunk: bytes, limits: Limits) -> list[Any] | None:
    """The values, if every line is one complete object; else nothing, and the chunk is read with patience."""
    plain = plain_lines(chunk, limits)
    if plain is None or not plain[1]:
        return None if plain is None else []
    body, lines = plain
    joined = b"[" + body.replace(b"\n", b",") + b"]"
    try:
        values: list[Any] = pydantic_core.from_json(joined, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        values = []
    if len(values) != lines or not _is_plain(body, values):
        values = _decode_joined(joined)
    return values if len(values) == lines else None


def _is_plain(body: bytes, values: list[Any]) -> bool:
    """Whether no object names a member twice: then there are as many members as there are ends of names in the text.

    A name ends with a quote and a colon; with white space between them the count would be too low, so that is left to
    the slower way, as is a text that holds the same characters by chance.
    """
    if set(map(type, values)) != {dict}:
        return False
    members = sum(map(len, values)) + sum([len(d) for value in values if type(d := value.get("data")) is dict])
    return members == body.count(b'":') and b" :" not in body and b"\t:" not in body


def _decode_joined(joined: bytes) -> list[Any]:
    try:
        values: list[Any] = _DECODER.decode(joined.decode())
    except (ValueError, RecursionError):
        return []
    return values


# --- value by value -----------------------------------------------------------------------------------------------------


def _one_by_one(chunk: bytes, at_end: bool, limits: Limits, first_number: int) -> tuple[list[Any], bytes]:
    """The values of a chunk, and the bytes at its end that need more of the stream."""
    # Bytes that are not UTF-8 become lone surrogates, so that the property which holds them can be named.
    text = chunk.decode("utf-8", "surrogateescape")
    values, end = _scan(text, at_end, limits, first_number)
    return values, text[end:].encode("utf-8", "surrogateescape")


def _scan(text: str, at_end: bool, limits: Limits, first_number: int) -> tuple[list[Any], int]:
    """Values, and where the unread text begins."""
    values: list[Any] = []
    at = _skip(text, 0)
    while at < len(text):
        try:
            value, end = _DECODER.raw_decode(text, at)
        except RecursionError:
            end = _line_end(text, at)
            if end == len(text) and not at_end:
                return values, at
            value = Broken(text[at:end], "the value is nested too deeply")
        except ValueError as error:
            stopped = getattr(error, "pos", at)
            if not at_end and _may_go_on(text, stopped):
                return values, at
            end = _resume(text, at, stopped)
            if end == len(text) and not at_end and end - at < CHUNK_BYTES:
                return values, at  # the line on which reading goes on may be yet to come
            value = Broken(text[at:end].rstrip(), _reason(error, text, at, stopped))
        if (end - at) * 4 > limits.record_bytes:  # a character has at most four bytes
            size = len(text[at:end].encode("utf-8", "surrogateescape"))
            limits.check("record_bytes", size, where=f"record {first_number + len(values)}")
        values.append(value)
        at = _skip(text, end)
    return values, at


def _skip(text: str, at: int) -> int:
    found = _SKIP_WHITE.match(text, at)
    return found.end() if found else at


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _may_go_on(text: str, stopped: int) -> bool:
    """Whether the value may be whole once more of the stream is read: the text has ended, or ends within this line."""
    return text.find("\n", stopped) < 0 or not text[stopped:].strip(_WHITE)


def _resume(text: str, at: int, stopped: int) -> int:
    """Where reading goes on after a broken value: with its line, or before the next line that opens an object."""
    line_end = _line_end(text, at)
    first_line = text[at:line_end].rstrip()
    if not first_line.startswith("{") or (stopped <= line_end and first_line.endswith("}")):
        return line_end
    found = _NEXT_OBJECT_LINE.search(text, at)
    return found.start() if found else len(text)


def _reason(error: ValueError, text: str, at: int, stopped: int) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return str(error).split(";")[0].lower()
    if stopped >= len(text.rstrip(_WHITE)):
        return "the value is not complete"
    line = text.count("\n", at, stopped)
    column = stopped - (text.rfind("\n", at, stopped) if line else at - 1)
    place = f"line {line + 1} of the record, " if line else ""
    return (
        f"{error.msg[0].lower()}{error.msg[1:].removesuffix(' at').removesuffix(' starting')} at {place}column {column}"
    )
