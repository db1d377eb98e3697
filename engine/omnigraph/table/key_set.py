"""An exact hash set of key tuples, filled and searched many rows at a time.

Owns the one in-memory join that the checks lean on: ids against ids, endpoints against nodes, unique tuples against
tuples. Knows nothing of types, modes or messages. A key is one or more columns; every column becomes 64-bit words, so
that hashing, probing and comparing are a handful of vector operations a word. Equal keys are found by comparing all
words, never by hash alone.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from omnigraph.table.arrays import over_buffer

pc: Any = pyarrow.compute

Words = list[npt.NDArray[np.uint64]]
Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# Bytes past the end of a text are 0xFF, which no UTF-8 text contains: so padding never makes two texts equal.
_PAD: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
# Longer texts are represented by a digest behind a word that no text can start with (0xFE is no UTF-8 byte either).
_TEXT_BYTES_MAX: Final = 64
_DIGEST_MARK: Final = np.uint64(0xFEFEFEFEFEFEFEFE)
_DIGEST_WORDS: Final = 5
# Rows handled at once: large enough to forget Python's overhead, small enough to stay in the processor's cache.
_STEP_ROWS: Final = 1 << 16
_SLOTS_MIN: Final = 1 << 10
# Mostly empty: nearly every key is where it is looked for first. Measured: twice as fast as 2.
_SLOTS_PER_ROW: Final = 3
_SLOTS_PER_DIGEST: Final = 1.5
# One multiplier a word, odd and unpredictable, so that no input can be made whose ids all meet in one slot.
_MULTIPLIERS: Final = np.array([secrets.randbits(64) | 1 for _ in range(64)], dtype=np.uint64)
_FINAL: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)
_SHIFT: Final = np.uint64(29)
# One a word of a key, so that no two words of it can change places unseen.
_LANE: Final = 1024


def lanes_of(seed: bytes) -> npt.NDArray[np.uint64]:
    """Numbers to mix digests with: the same in every process that is given the seed."""
    drawn = hashlib.shake_256(seed).digest(2 * _LANE * 8)
    return np.frombuffer(drawn, dtype=np.uint64).reshape(2, _LANE) | np.uint64(1)


_LANES: Final = lanes_of(secrets.token_bytes(32))
_TAIL_FILL: Final = np.array(
    [0xFFFFFFFFFFFFFFFF if k == 0 else (0xFFFFFFFFFFFFFFFF << (8 * k)) & 0xFFFFFFFFFFFFFFFF for k in range(9)],
    dtype=np.uint64,
)


class KeySet:
    """Keys in the order in which they were added. A key's position is the number of rows added before it.

    With ``digest`` two words stand for a key, however long it is: 128 bits, mixed with numbers that are drawn once a
    process. That two keys of one set ever meet in them is less likely than an error of the memory that holds them.
    """

    def __init__(self, columns: int = 1, expected_rows: int = 0, *, digest: bool = False) -> None:
        self._digest = digest
        self._words: list[Words] = [[] for _ in range(1 if digest else columns)]
        self._rows = 0
        self._expected = expected_rows  # room for them is made with the first that come
        self._capacity = 64
        # A digest is for many keys: room counts more than the second look that a fuller table costs.
        self._slots_per_row = _SLOTS_PER_DIGEST if digest else _SLOTS_PER_ROW
        self._reset_slots(self._slots_for(self._capacity))

    def __len__(self) -> int:
        return self._rows

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + sum(word.nbytes for column in self._words for word in column)

    def add(self, *columns: pa.Array[Any]) -> Rows:
        """Append rows (no nulls) and return, for each, the position of the first equal key: its own if it is new."""
        n = len(columns[0])
        self._reserve(self._rows + n)
        firsts = np.empty(n, dtype=np.int64)
        for start in range(0, n, _STEP_ROWS):
            part = [column.slice(start, _STEP_ROWS) for column in columns]
            words = self._encoded(part)
            firsts[start : start + _STEP_ROWS] = self._insert(words, len(part[0]))
        return firsts

    def find(self, *columns: pa.Array[Any]) -> Rows:
        """For each row (no nulls) the position of the first equal key, or -1."""
        n = len(columns[0])
        found = np.empty(n, dtype=np.int64)
        for start in range(0, n, _STEP_ROWS):
            part = [column.slice(start, _STEP_ROWS) for column in columns]
            mine = found[start : start + _STEP_ROWS]
            for rows, holder, same in self._probes(self._encoded(part), len(part[0])):
                if rows is None:
                    mine[:] = np.where(same, holder, np.int32(-1))
                else:
                    mine[rows[same]] = holder[same]
        return found

    def _encoded(self, columns: Sequence[pa.Array[Any]]) -> list[Words]:
        words = [encode_words(column) for column in columns]
        return [digest_words(words)] if self._digest else words

    def has(self, *columns: pa.Array[Any]) -> Flags:
        """For each row (no nulls) whether its key is one of these."""
        n = len(columns[0])
        known = np.empty(n, dtype=np.bool_)
        for start in range(0, n, _STEP_ROWS):
            part = [column.slice(start, _STEP_ROWS) for column in columns]
            mine = known[start : start + _STEP_ROWS]
            for rows, _, same in self._probes(self._encoded(part), len(part[0])):
                if rows is None:
                    mine[:] = same
                else:
                    mine[rows[same]] = True
        return known

    # --- storage ---------------------------------------------------------------------------------------------------

    def _slots_for(self, rows: int) -> int:
        return max(_SLOTS_MIN, 1 << (int(rows * self._slots_per_row) - 1).bit_length())

    def _reset_slots(self, slots: int) -> None:
        self._slots = np.full(slots, -1, dtype=np.int32)
        self._mask = slots - 1
        self._shift = np.uint64(64 - (slots.bit_length() - 1))

    def _reserve(self, rows: int) -> None:
        if rows > self._capacity:
            self._capacity = max(rows, self._capacity * 2, self._expected)
            for column in self._words:
                for i, word in enumerate(column):
                    grown = np.full(self._capacity, _PAD, dtype=np.uint64)
                    grown[: self._rows] = word[: self._rows]
                    column[i] = grown
        if rows * self._slots_per_row > len(self._slots):
            self._reset_slots(self._slots_for(max(rows, self._expected)))
            for start in range(0, self._rows, _STEP_ROWS):
                stop = min(start + _STEP_ROWS, self._rows)
                words = [[word[start:stop] for word in column] for column in self._words]
                self._claim(words, np.arange(start, stop, dtype=np.int64))

    def _insert(self, words: list[Words], n: int) -> Rows:
        for column, batch in zip(self._words, words, strict=True):
            while len(column) < len(batch):
                column.append(np.full(self._capacity, _PAD, dtype=np.uint64))
            for i, word in enumerate(column):
                word[self._rows : self._rows + n] = batch[i] if i < len(batch) else _PAD
        positions = np.arange(self._rows, self._rows + n, dtype=np.int64)
        self._rows += n
        return self._claim(words, positions)

    def _claim(self, words: list[Words], positions: Rows) -> Rows:
        """Give each key its slot. Equal keys walk the same slots in step; the earliest of them wins the free one."""
        firsts = positions.copy()
        slot = self._first_slots(words, len(positions))
        todo = np.arange(len(positions), dtype=np.int64)
        while len(todo):
            at = slot[todo]
            holder = self._slots.take(at, mode="wrap")
            free = holder < 0
            if free.any():
                # Of several assignments to one slot the last stands: so write in falling order.
                claims = todo[free][::-1]
                self._slots[slot[claims]] = positions[claims]
                holder = self._slots.take(at, mode="wrap")
            same = self._equal(words, todo, holder)
            firsts[todo[same]] = holder[same]
            todo = todo[~same]
            slot[todo] = (slot[todo] + 1) & self._mask
        return firsts

    def _probes(self, words: list[Words], n: int) -> Iterator[tuple[Rows | None, npt.NDArray[np.int32], Flags]]:
        """Look at the slots of all keys, then at the next ones of those that met another key: which rows (first all: None), what
        their slots hold, and whether that is their key."""
        if self._rows == 0:
            yield None, np.full(n, -1, dtype=np.int32), np.zeros(n, dtype=np.bool_)
            return
        slot = self._first_slots(words, n)
        holder = self._slots.take(slot, mode="wrap")
        same = self._equal(words, None, holder)
        yield None, holder, same
        todo = np.flatnonzero(~same & (holder >= 0))
        while len(todo):
            at = (slot[todo] + 1) & self._mask
            slot[todo] = at
            holder = self._slots.take(at, mode="wrap")
            same = self._equal(words, todo, holder)
            yield todo, holder, same
            todo = todo[~same & (holder >= 0)]

    def _first_slots(self, words: list[Words], n: int) -> Rows:
        mixed = np.zeros(n, dtype=np.uint64)
        for c, column in enumerate(words):
            for i, word in enumerate(column):
                # Padding contributes nothing, so that a key hashes alike whatever the widest text of its batch.
                mixed += ~word * _MULTIPLIERS[(c * 13 + i) % 64]
        mixed ^= mixed >> _HALF
        mixed *= _FINAL
        return (mixed >> self._shift).astype(np.int64)

    def _equal(self, words: list[Words], rows: Rows | None, holder: npt.NDArray[np.int32]) -> Flags:
        """Whether the keys (all, or those at ``rows``) equal the keys at the positions ``holder``; -1 equals nothing."""
        same = holder >= 0
        at = holder.astype(np.int64)  # -1 is the last one, and its answer does not count
        for held, batch in zip(self._words, words, strict=True):
            for i in range(max(len(held), len(batch))):
                mine: Any = batch[i] if i < len(batch) else _PAD
                if rows is not None and i < len(batch):
                    mine = mine.take(rows, mode="wrap")
                theirs: Any = held[i].take(at, mode="wrap") if i < len(held) else _PAD
                same &= mine == theirs
        return same


def digest_words(columns: Sequence[Words], lanes_: npt.NDArray[np.uint64] = _LANES) -> Words:
    """Two words for each key. Padding adds nothing, so that a key's digest does not depend on its neighbours."""
    lanes = []
    for lane in range(2):
        mixed = np.zeros(len(columns[0][0]), dtype=np.uint64)
        for c, column in enumerate(columns):
            for i, word in enumerate(column):
                x = ~word * lanes_[lane, (c * 16 + i) % _LANE]
                x ^= x >> _HALF
                x *= lanes_[lane, (c * 16 + i + _LANE // 2) % _LANE]
                x ^= x >> _SHIFT
                mixed += x
        lanes.append(mixed)
    return lanes


# --- columns as words -------------------------------------------------------------------------------------------------


def encode_words(column: pa.Array[Any]) -> Words:
    """The words of one column without nulls. Equal values of one type have equal words, and only they."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text_words(column)
    if pa.types.is_dictionary(kind):
        return encode_words(pc.cast(column, column.type.value_type))
    if pa.types.is_boolean(kind):
        return [pc.cast(column, pa.uint8()).to_numpy(zero_copy_only=False).astype(np.uint64)]
    if pa.types.is_floating(kind):
        # Adding zero turns -0 into 0: they are one key.
        values = column.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
        return [values.view(np.uint64)]
    if pa.types.is_date32(kind):
        column = column.view(pa.int32())
    elif pa.types.is_temporal(kind):
        column = column.view(pa.int64())
    return [column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False).view(np.uint64)]


def _text_words(column: pa.Array[Any]) -> Words:
    n = len(column)
    if n == 0:
        return [np.empty(0, dtype=np.uint64)]
    _, offsets_buffer, data_buffer = column.buffers()
    wide = pa.types.is_large_string(column.type)
    offsets = over_buffer(offsets_buffer, np.int64 if wide else np.int32)[column.offset : column.offset + n + 1]
    lengths = np.diff(offsets)
    longest = int(lengths.max())
    if longest == 0:
        return [np.full(n, _PAD, dtype=np.uint64)]
    begin, end = int(offsets[0]), int(offsets[-1])
    shortest = int(lengths.min())
    if shortest == longest and 8 <= longest <= _TEXT_BYTES_MAX:
        return _even_text_words(over_buffer(data_buffer, np.uint8), begin, n, longest)
    width = min(longest, _TEXT_BYTES_MAX)
    count = (width + 7) // 8
    # A word is read as eight bytes at any address, also past the end of the last text: hence the room behind.
    data = np.empty(end - begin + count * 8 + 8, dtype=np.uint8)
    data[: end - begin] = over_buffer(data_buffer, np.uint8)[begin:end]
    data[end - begin :] = 0
    at_any = np.ndarray((len(data) - 7,), dtype="<u8", buffer=data, strides=(1,))
    starts = offsets[:-1].astype(np.int64) - begin
    words: Words = []
    for i in range(count):
        reach = np.minimum(starts + 8 * i, len(at_any) - 1) if i else starts
        word = at_any[reach].astype(np.uint64, copy=False)
        if shortest < 8 * (i + 1):
            word |= _TAIL_FILL[np.clip(lengths - 8 * i, 0, 8)]
        words.append(word)
    if longest > _TEXT_BYTES_MAX:
        _digest_long(column, np.flatnonzero(lengths > _TEXT_BYTES_MAX), words)
    return words


def _even_text_words(data: npt.NDArray[np.uint8], begin: int, n: int, length: int) -> Words:
    """Texts that are all of one length, as made ids are: their words lie at even distances."""

    def at(place: int) -> npt.NDArray[np.uint64]:
        strided: npt.NDArray[np.uint64] = np.ndarray((n,), "<u8", buffer=data, offset=begin + place, strides=(length,))
        return strided

    words: Words = [at(8 * i).copy() for i in range(length // 8)]
    left = length % 8
    if left:  # the last eight bytes, less those of the word before
        words.append((at(length - 8) >> np.uint64(8 * (8 - left))) | _TAIL_FILL[left])
    return words


def _digest_long(column: pa.Array[Any], rows: Sequence[int] | Rows, words: Words) -> None:
    for row in rows:
        digest = hashlib.sha256(column[int(row)].as_buffer()).digest()
        values = [_DIGEST_MARK, *np.frombuffer(digest, dtype=np.uint64)]
        for i, word in enumerate(words):
            word[row] = values[i] if i < _DIGEST_WORDS else _PAD
