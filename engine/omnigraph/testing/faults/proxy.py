"""The proxy: reads a request, asks the rules, forwards it or not, logs it, answers or not.

Runs in one event loop; everything here is called from that loop only. ``control`` gives the same to threads and to other
processes. Connections are kept alive on both sides. Bodies are held in memory: what is measured is the number of
requests and their order, not bandwidth.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from omnigraph.testing.faults.classify import Target, classify_key, parse_target
from omnigraph.testing.faults.exchange import Exchange
from omnigraph.testing.faults.rules import Action, Kind, Rule
from omnigraph.testing.faults.wire import (
    HEAD_MAX,
    Broken,
    Message,
    error_answer,
    plain_body,
    read_answer,
    read_head,
    read_request_body,
)

AskParent = Callable[[int], Awaitable[None]]
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _NoAnswer(Exception):
    """The client gets no answer: its connection is closed."""


@dataclass(slots=True)
class ArmedRule:
    """A rule at work."""

    rule_id: int
    rule: Rule
    seen: int = 0
    fired: int = 0
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def meets(self, method: str, target: Target) -> bool:
        if not self.rule.match.holds(method, target):
            return False
        self.seen += 1
        return self.rule.fires_at(self.seen)


@dataclass(slots=True)
class _Case:
    """One request on its way."""

    seq: int
    client: asyncio.StreamReader
    request: Message
    target: Target
    ordinal: int
    started_s: float
    armed: ArmedRule | None = None
    upstream_s: float = 0.0
    fault: str = ""

    @property
    def action(self) -> Action | None:
        return self.armed.rule.action if self.armed else None


async def _first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    tasks = [asyncio.create_task(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Proxy:
    def __init__(self, upstream: str, *, ask_parent: AskParent, on_fired: Callable[[int], None]) -> None:
        address = urlsplit(upstream)
        self._host, self._port = address.hostname or "127.0.0.1", address.port or 80
        self._ask_parent = ask_parent
        self._on_fired = on_fired
        self._server: asyncio.Server | None = None
        self._idle: deque[Connection] = deque()
        self._clients: set[asyncio.Task[None]] = set()
        self._rules: list[ArmedRule] = []
        self._ever: dict[int, ArmedRule] = {}
        self._next_rule = 1
        self._in_flight = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._killed = False
        self._slots: asyncio.Semaphore | None = None
        self._latency_s = 0.0
        self.in_flight_peak = 0
        self.log: list[Exchange] = []
        self._seq = 0
        self._ordinal = 0

    # --- control --------------------------------------------------------------------------------------------------------

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._client_connected, "127.0.0.1", 0, limit=HEAD_MAX)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        self.calm()
        if self._server is not None:
            self._server.close()
        for task in list(self._clients):
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        while self._idle:
            self._idle.pop()[1].close()

    def reset(self) -> None:
        """Empty the log and count ordinals from one again. Rules stay."""
        self.log.clear()
        self._seq = self._ordinal = self.in_flight_peak = 0

    def calm(self) -> None:
        """Drop all rules, let go what is held, and open the gate that a kill has closed."""
        for armed in self._rules:
            armed.released.set()
        self._rules.clear()
        self._killed = False

    def add_rule(self, rule: Rule) -> int:
        armed = ArmedRule(self._next_rule, rule)
        self._next_rule += 1
        self._rules.append(armed)
        self._ever[armed.rule_id] = armed
        return armed.rule_id

    def release(self, rule_id: int) -> None:
        self._ever[rule_id].released.set()

    def fired(self, rule_id: int) -> int:
        return self._ever[rule_id].fired

    def slow(self, latency_s: float, in_flight_max: int | None) -> None:
        self._latency_s = latency_s
        self._slots = asyncio.Semaphore(in_flight_max) if in_flight_max else None

    async def drained(self) -> None:
        """Wait until no request is under way."""
        await self._quiet.wait()

    # --- one client -----------------------------------------------------------------------------------------------------

    async def _client_connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            with suppress(ConnectionError, asyncio.CancelledError):
                while await self._serve_one(reader, writer):
                    pass
        finally:
            self._clients.discard(task)
            # With bytes left unread this resets the connection: what a client sees when the other side dies.
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await read_head(reader)
        if head is None:
            return False
        target = parse_target(head.method, head.path)
        if target.mutating:
            self._ordinal += 1
        self._seq += 1
        case = _Case(self._seq, reader, head, target, self._ordinal if target.mutating else 0, time.monotonic())
        case.armed = self._choose(head.method, target)
        self._in_flight += 1
        self._quiet.clear()
        self.in_flight_peak = max(self.in_flight_peak, self._in_flight)
        try:
            return await self._answer(case, reader, writer)
        finally:
            self._in_flight -= 1
            if self._in_flight == 0:
                self._quiet.set()

    def _choose(self, method: str, target: Target) -> ArmedRule | None:
        """The first rule that fires; every rule counts the request."""
        firing = [armed for armed in self._rules if armed.meets(method, target)]
        return firing[0] if firing else None

    async def _answer(self, case: _Case, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        answer: Message | None = None
        try:
            if self._killed:
                case.fault = "after the kill"
                raise _NoAnswer
            if case.action is not None and case.action.kind is Kind.CUT_UPLOAD:
                self._mark(case)
                raise _NoAnswer
            await self._receive_body(case, reader, writer)
            answer = await self._decide(case)
        except (_NoAnswer, Broken) as end:
            case.fault = case.fault or str(end)
        finally:
            # Logged before the client can know: a client that has its answer finds the line.
            self._log(case, answer)
        if answer is None:
            return False
        whole = answer.encode()
        if case.action is not None and case.action.kind is Kind.TRUNCATE:
            writer.write(whole[: _cut_at(answer, case.action.size)])
            await writer.drain()
            return False
        writer.write(whole)
        await writer.drain()
        return case.request.keeps_alive

    async def _receive_body(self, case: _Case, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (case.request.header("expect") or "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            case.request = case.request.without("expect")
        case.request = await read_request_body(reader, case.request)
        if case.target.operation == "delete-many":
            first = re.search(rb"<Key>(.*?)</Key>", plain_body(case.request), re.DOTALL)
            key = first.group(1).decode() if first else ""
            case.target = replace(case.target, key=key, cls=classify_key(key))

    # --- faults ---------------------------------------------------------------------------------------------------------

    async def _decide(self, case: _Case) -> Message:
        action = case.action
        if action is None:
            return await self._forward(case)
        self._mark(case)
        if action.kind is Kind.DUPLICATE:
            return await self._twice(case, answer_second=action.after)
        if action.kind is Kind.IGNORE_CONDITION:
            case.request = case.request.without("if-none-match", "if-match")
        answer = None
        if action.after:
            answer = await self._forward(case)
        changed = await self._strike(case, action, answer)
        if changed is not None:
            return changed
        return answer if answer is not None else await self._forward(case)

    def _mark(self, case: _Case) -> None:
        assert case.armed is not None
        case.armed.fired += 1
        action = case.armed.rule.action
        case.fault = f"{action.kind}{' after' if action.after else ''}"
        self._on_fired(case.armed.rule_id)

    async def _strike(self, case: _Case, action: Action, answer: Message | None) -> Message | None:
        """The fault itself. None: go on as if nothing had happened."""
        assert case.armed is not None
        match action.kind:
            case Kind.FAIL:
                return error_answer(action.status, action.code, case.target.key)
            case Kind.DROP:
                raise _NoAnswer
            case Kind.SWALLOW:
                await _first_of(case.armed.released.wait(), case.client.read(1))
                raise _NoAnswer
            case Kind.DELAY:
                await asyncio.sleep(action.seconds)
            case Kind.HOLD:
                await case.armed.released.wait()
            case Kind.KILL:
                # Nothing that arrives from here on reaches the store, so that the cut is where it is meant to be.
                self._killed = True
                await self._ask_parent(case.armed.rule_id)
                raise _NoAnswer
            case Kind.FLIP if answer is not None and answer.body:
                at = len(answer.body) // 2
                return replace(answer, body=answer.body[:at] + bytes([answer.body[at] ^ 1]) + answer.body[at + 1 :])
            case Kind.EMPTY if answer is not None:
                return answer.with_body(b"")
            case Kind.SHORT_LIST if answer is not None and case.target.operation == "list":
                return answer.with_body(_without_newest(plain_body(answer), action.size))
            case _:
                pass
        return None

    async def _twice(self, case: _Case, *, answer_second: bool) -> Message:
        first = await self._forward(case)
        second = await self._forward(case)
        return second if answer_second else first

    # --- the store ------------------------------------------------------------------------------------------------------

    async def _forward(self, case: _Case) -> Message:
        if self._slots is None:
            return await self._forward_now(case)
        async with self._slots:
            return await self._forward_now(case)

    async def _forward_now(self, case: _Case) -> Message:
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        reader, writer = await self._connect()
        began = time.monotonic()
        try:
            writer.write(case.request.encode())
            answer = await read_answer(reader, case.request.method)
        except BaseException:
            writer.close()
            raise
        case.upstream_s += time.monotonic() - began
        if answer.keeps_alive:
            self._idle.append((reader, writer))
        else:
            writer.close()
        return answer

    async def _connect(self) -> Connection:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self._host, self._port, limit=HEAD_MAX)

    def _log(self, case: _Case, answer: Message | None) -> None:
        target = case.target
        self.log.append(
            Exchange(
                seq=case.seq,
                method=case.request.method,
                operation=target.operation,
                bucket=target.bucket,
                key=target.key,
                cls=target.cls,
                mutating=target.mutating,
                ordinal=case.ordinal,
                size_in=len(case.request.body),
                size_out=len(answer.body) if answer else 0,
                status=answer.status if answer else 0,
                started_s=case.started_s,
                ended_s=time.monotonic(),
                upstream_s=case.upstream_s,
                fault=case.fault,
            )
        )


def _cut_at(answer: Message, size: int) -> int:
    """Where an answer breaks off: inside its body if it has one, else inside its head."""
    head = len(answer.head())
    return head + (size or len(answer.body) // 2) if answer.body else head // 2


_ENTRY = re.compile(rb"<(Contents|CommonPrefixes)>.*?</\1>", re.DOTALL)
_MODIFIED = re.compile(rb"<LastModified>(.*?)</LastModified>")


def _without_newest(listing: bytes, missing: int) -> bytes:
    """The listing of a store that has not heard of its newest objects yet."""
    entries = [entry.group(0) for entry in _ENTRY.finditer(listing)]

    def age(entry: bytes) -> bytes:
        modified = _MODIFIED.search(entry)
        return modified.group(1) if modified else b""

    for entry in sorted(entries, key=age)[len(entries) - min(missing, len(entries)) :]:
        listing = listing.replace(entry, b"", 1)
    return listing
