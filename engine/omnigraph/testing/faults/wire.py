"""HTTP/1.1 messages as bytes: read one, write one, change what a fault changes. Knows nothing of stores or rules.

Bodies are kept as they came, chunk framing included, so that a message that no fault touches is forwarded unchanged.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

HEAD_MAX = 256 * 1024  # bytes of start line and headers


@dataclass(frozen=True, slots=True)
class Message:
    start: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""

    @property
    def method(self) -> str:
        return self.start.split(" ", 1)[0]

    @property
    def path(self) -> str:
        return self.start.split(" ", 2)[1]

    @property
    def status(self) -> int:
        return int(self.start.split(" ", 2)[1])

    def header(self, name: str) -> str | None:
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)

    def without(self, *names: str) -> Message:
        dropped = {name.lower() for name in names}
        return replace(self, headers=tuple(pair for pair in self.headers if pair[0].lower() not in dropped))

    def with_body(self, body: bytes) -> Message:
        """The same message about other bytes: framing and length follow."""
        bare = self.without("content-length", "transfer-encoding")
        return replace(bare, headers=(*bare.headers, ("Content-Length", str(len(body)))), body=body)

    @property
    def keeps_alive(self) -> bool:
        return "close" not in (self.header("connection") or "").lower()

    def head(self) -> bytes:
        lines = [self.start, *(f"{key}: {value}" for key, value in self.headers), "", ""]
        return "\r\n".join(lines).encode("latin-1")

    def encode(self) -> bytes:
        return self.head() + self.body


class Broken(ConnectionError):
    """The other side closed, or said something that is not HTTP."""


async def read_head(reader: asyncio.StreamReader) -> Message | None:
    """The next start line and headers; None when the other side has closed between messages."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as end:
        if not end.partial:
            return None
        raise Broken("closed inside a message") from end
    except asyncio.LimitOverrunError as overrun:
        raise Broken("headers too long") from overrun
    start, *lines = raw[:-4].decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return Message(start, tuple((name.strip(), value.strip()) for name, _, value in pairs))


async def read_request_body(reader: asyncio.StreamReader, head: Message) -> Message:
    if (head.header("transfer-encoding") or "").lower() == "chunked":
        return replace(head, body=await _read_chunks(reader))
    return replace(head, body=await _read_exactly(reader, int(head.header("content-length") or 0)))


async def read_answer(reader: asyncio.StreamReader, method: str) -> Message:
    head = await read_head(reader)
    while head is not None and head.status == 100:
        head = await read_head(reader)
    if head is None:
        raise Broken("closed instead of answering")
    if method == "HEAD" or head.status in (204, 304):
        return head
    if (head.header("transfer-encoding") or "").lower() == "chunked":
        return replace(head, body=await _read_chunks(reader))
    length = head.header("content-length")
    if length is None:
        return replace(head, body=await reader.read())
    return replace(head, body=await _read_exactly(reader, int(length)))


async def _read_exactly(reader: asyncio.StreamReader, size: int) -> bytes:
    try:
        return await reader.readexactly(size) if size else b""
    except asyncio.IncompleteReadError as end:
        raise Broken("closed inside a body") from end


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    kept: list[bytes] = []
    try:
        while True:
            line = await reader.readuntil(b"\r\n")
            kept.append(line)
            size = int(line.split(b";", 1)[0], 16)
            if size == 0:
                break
            kept.append(await reader.readexactly(size + 2))
        while kept[-1] != b"\r\n":
            kept.append(await reader.readuntil(b"\r\n"))
    except (asyncio.IncompleteReadError, ValueError) as end:
        raise Broken("closed inside a chunked body") from end
    return b"".join(kept)


def plain_body(message: Message) -> bytes:
    """The body without chunk framing."""
    if (message.header("transfer-encoding") or "").lower() != "chunked":
        return message.body
    rest = message.body
    kept: list[bytes] = []
    while True:
        line, _, rest = rest.partition(b"\r\n")
        size = int(line.split(b";", 1)[0], 16)
        if size == 0:
            return b"".join(kept)
        kept.append(rest[:size])
        rest = rest[size + 2 :]


def error_answer(status: int, code: str, resource: str) -> Message:
    """An error as a store words it."""
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{code}</Code><Message>injected</Message><Resource>{resource}</Resource></Error>"
    ).encode()
    headers = (("Content-Type", "application/xml"), ("Content-Length", str(len(body))))
    return Message(f"HTTP/1.1 {status} {code}", headers, body)
