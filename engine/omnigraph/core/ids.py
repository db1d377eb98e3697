"""Minting of identities. Owns the ULIDs and uuids of the engine; what they name is decided elsewhere.

The ULIDs of one process sort in the order in which they were made, also within a millisecond and when the wall clock
is turned back. Between processes they only tend to: no decision may lean on that order.
"""

from __future__ import annotations

import os
import re
import threading
import uuid
import weakref
from typing import TYPE_CHECKING, Final

from omnigraph.core.clock import SYSTEM_CLOCK, Clock, SystemClock
from omnigraph.core.errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

ULID_CHARS: Final = 26
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ALPHABET_SET: Final = frozenset(_ALPHABET)
_ULID: Final = re.compile(f"[0-7][{_ALPHABET}]{{{ULID_CHARS - 1}}}")
_RANDOM_BITS: Final = 80
_TIME_MS_MAX: Final = (1 << 48) - 1
# A fresh random part leaves the top bit free, so that counting up from it practically never reaches the end.
_FRESH_BITS: Final = _RANDOM_BITS - 1
_AHEAD_MAX_US: Final = 86_400_000_000
# Arrow's string offsets are signed 32 bit.
_BULK_MAX: Final = (2**31 - 1) // ULID_CHARS


class _Sequence:
    """Strictly rising 128-bit ULID values over one clock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = -1

    def take(self, n: int, clock: Clock) -> int:
        """Reserve ``n`` consecutive values and return the first."""
        now_ms = min(max(clock.now_us() // 1_000, 0), _TIME_MS_MAX)
        with self._lock:
            if now_ms > self._last >> _RANDOM_BITS:
                first = (now_ms << _RANDOM_BITS) | _fresh()
            else:
                # Same millisecond, or the clock went back. Running out of random bits carries into the time, which
                # keeps the order.
                first = self._last + 1
            self._last = first + n - 1
        return first


# One sequence a clock: a test's fixed clock neither disturbs the real sequence nor is disturbed by it.
_system_sequence = _Sequence()
_sequences: weakref.WeakKeyDictionary[Clock, _Sequence] = weakref.WeakKeyDictionary()
_sequences_lock = threading.Lock()


def _forget_after_fork() -> None:
    """A child that went on counting where its parent stood would mint the parent's next ids again."""
    global _system_sequence, _sequences, _sequences_lock
    _system_sequence = _Sequence()
    _sequences = weakref.WeakKeyDictionary()
    _sequences_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def _take(n: int, clock: Clock | None) -> int:
    if clock is None or isinstance(clock, SystemClock):
        return _system_sequence.take(n, clock or SYSTEM_CLOCK)
    with _sequences_lock:
        sequence = _sequences.setdefault(clock, _Sequence())
    return sequence.take(n, clock)


def _encode(value: int) -> str:
    return "".join([_ALPHABET[(value >> shift) & 31] for shift in range(125, -1, -5)])


def new_ulid(clock: Clock | None = None) -> str:
    """A ULID that sorts after every other one that this process made with the same clock."""
    return _encode(_take(1, clock))


def ulid_row(n: int, clock: Clock | None = None, *, after: str | None = None) -> list[str]:
    """``n`` ULIDs in a row: nothing that another process makes sorts between them. ``after``: they sort behind this one,
    whose maker's clock may be ahead of ours; a name so far ahead that no clock can have made it is not followed."""
    first = _take(n, clock)
    if after is not None:
        ahead_us = ulid_time_us(after) - (clock or SYSTEM_CLOCK).now_us()
        floor = (ulid_time_us(after) // 1_000 + 1) << _RANDOM_BITS
        if first < floor and ahead_us <= _AHEAD_MAX_US:
            first = floor | _fresh()
    return [_encode(first + place) for place in range(n)]


def following(text: str) -> str:
    """The ULID that comes directly after this one: what its maker made next, if it did so within the same millisecond."""
    if not is_ulid(text):
        raise InvalidInput(f"not a ULID: {text[:80]!r}")
    value = 0
    for char in text:
        value = value << 5 | _ALPHABET.index(char)
    return _encode(value + 1)


def _fresh() -> int:
    return int.from_bytes(os.urandom(10), "big") & ((1 << _FRESH_BITS) - 1)


def is_ulid(text: str) -> bool:
    """Whether ``text`` is a ULID as this module writes them (upper case, 128 bits)."""
    return _ULID.fullmatch(text) is not None


def is_ulid_prefix(text: str) -> bool:
    """Whether some ULID begins with ``text``."""
    return len(text) <= ULID_CHARS and text[:1] <= "7" and _ALPHABET_SET.issuperset(text)


def ulid_time_us(text: str) -> int:
    """The wall-clock time inside a ULID, in microseconds (its resolution is a millisecond)."""
    if not is_ulid(text):
        raise InvalidInput(f"not a ULID: {text[:80]!r}")
    time_ms = 0
    for char in text[:10]:
        time_ms = time_ms << 5 | _ALPHABET.index(char)
    return time_ms * 1_000


def new_uuid() -> str:
    """A random uuid: 36 characters, lower case."""
    return str(uuid.uuid4())


def bulk_ulids(n: int, clock: Clock | None = None) -> pa.StringArray:
    """``n`` ULIDs, unique and rising, as one Arrow array. They are consecutive, so making them is copying."""
    import numpy as np
    import pyarrow as pa

    if not 0 <= n <= _BULK_MAX:
        raise InvalidInput(f"cannot make so many ids in one array: most={_BULK_MAX} asked={n}")
    if n == 0:
        return pa.array([], pa.string())
    first = _take(n, clock)
    chars, skipped = _consecutive(first, n)
    offsets = np.arange(0, n * ULID_CHARS + 1, ULID_CHARS, dtype=np.int32)
    values = pa.py_buffer(chars.data).slice(skipped * ULID_CHARS, n * ULID_CHARS)
    return pa.StringArray.from_buffers(n, pa.py_buffer(offsets.data), values)


# The last three characters of consecutive values run through one block of 32^3; the 23 before are the same within it.
_BLOCK_BITS: Final = 15
_BLOCK_CHARS: Final = 3


def _consecutive(first: int, n: int) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.uint8]], int]:
    """Rows of characters from the start of the block of ``first``, and how many rows come before ``first``."""
    import numpy as np

    alphabet = np.frombuffer(_ALPHABET.encode(), dtype=np.uint8)
    block_rows = 1 << _BLOCK_BITS
    skipped = first & (block_rows - 1)
    block_first = first >> _BLOCK_BITS
    blocks = (skipped + n + block_rows - 1) >> _BLOCK_BITS
    counter = np.arange(block_rows)
    block = np.empty((block_rows, ULID_CHARS), dtype=np.uint8)
    for i in range(_BLOCK_CHARS):
        block[:, ULID_CHARS - 1 - i] = alphabet[counter >> (5 * i) & 31]
    rows = np.empty((min(blocks * block_rows, skipped + n), ULID_CHARS), dtype=np.uint8)
    before = ""
    for i in range(blocks):
        prefix = _encode((block_first + i) << _BLOCK_BITS)[:-_BLOCK_CHARS]
        # From one block to the next mostly one character changes; writing a column is dearer than copying the block.
        for column, char in enumerate(prefix):
            if not before or char != before[column]:
                block[:, column] = ord(char)
        before = prefix
        start = i * block_rows
        part = rows[start : start + block_rows]
        part[:] = block[: len(part)]
    return rows.reshape(-1), skipped
