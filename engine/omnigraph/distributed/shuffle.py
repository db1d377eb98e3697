"""The shuffle of a partitioned check: key columns, cut into partitions by a hash of the key, so that equal keys meet.

Owns the wire between the two halves of a partitioned check, and the hash, which is the same wherever it is computed. Knows
neither where rows come from nor what is asked of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.table.arrays import positions
from omnigraph.table.key_set import digest_words, encode_words, lanes_of

I_ = TypeVar("I_")
R = TypeVar("R")

Side = Literal["staged", "committed", "gone"]

ROW: Final = "_row"
ADDRESS: Final = "_address"
_KIND: Final = b"omnigraph.piece"
_LATER: Final = np.uint64(40)  # slots of a key set are chosen by other bits of the same digest


@dataclass(frozen=True, slots=True, order=True)
class PieceKind:
    """What the rows of a piece are: the table, the side, and what is compared (ids, an end of edges, a unique tuple by its
    number, the sources of edges)."""

    table_key: str
    side: Side
    about: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one partition, on their way to the task that checks it."""

    partition: int
    kind: PieceKind
    rows: pa.RecordBatch

    def to_bytes(self) -> bytes:
        """For a wire that carries bytes."""
        named = {_KIND: json.dumps([self.kind.table_key, self.kind.side, self.kind.about]).encode()}
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_stream(sink, self.rows.schema.with_metadata(named), options=options) as stream:
            stream.write_batch(self.rows)
        return sink.getvalue().to_pybytes()

    @classmethod
    def from_bytes(cls, partition: int, data: bytes) -> Piece:
        """What ``to_bytes`` made."""
        with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
            rows = stream.read_next_batch()
        kind = json.loads((rows.schema.metadata or {})[_KIND])
        return cls(partition, PieceKind(*kind), rows.replace_schema_metadata(None))


@dataclass(frozen=True)
class Partitioning:
    """How keys fall to partitions. ``seed`` makes the hash the same in every process of one check, and in no other."""

    partitions: int
    seed: bytes

    def cut(
        self, kind: PieceKind, rows: pa.RecordBatch, keys: Sequence[pa.Array[Any]], only: int | None
    ) -> Iterator[Piece]:
        """The rows of each partition, in their order; of one partition if that is asked for. Without keys they stay together."""
        if not rows.num_rows:
            return
        partition = self._partition_of(keys, rows.num_rows)
        if only is not None:
            mine = np.flatnonzero(partition == only)
            if len(mine):
                yield Piece(only, kind, rows if len(mine) == rows.num_rows else rows.take(positions(mine)))
            return
        order = np.argsort(partition, kind="stable")
        sorted_rows = rows.take(positions(order))
        counts = np.bincount(partition, minlength=self.partitions)
        start = 0
        for number, count in enumerate(counts.tolist()):
            if count:
                yield Piece(number, kind, sorted_rows.slice(start, count))
            start += count

    def _partition_of(self, keys: Sequence[pa.Array[Any]], count: int) -> npt.NDArray[np.int64]:
        if not keys or self.partitions == 1:
            return np.zeros(count, dtype=np.int64)
        digest = digest_words([encode_words(column) for column in keys], lanes_of(self.seed))[1]
        found: npt.NDArray[np.int64] = ((digest >> _LATER) % np.uint64(self.partitions)).astype(np.int64)
        return found


class Exchange(Protocol):
    """Brings the pieces of a partition together and has them checked, here or elsewhere. The functions are
    picklable."""

    @property
    def side_by_side(self) -> int:
        """Partitions that can be checked at the same time."""
        ...

    def run(
        self,
        map_: Callable[[I_, int | None], Iterator[Piece]],
        items: Sequence[I_],
        reduce: Callable[[int, Iterable[Piece]], R],
        partitions: int,
    ) -> list[R]:
        """What ``reduce`` says of each partition that has rows, in the order of the partitions. Raises the first error of ours."""
        ...


class Passes:
    """An exchange in this process: everything is read once for each partition, and one partition is held at a time."""

    side_by_side = 1

    def run(
        self,
        map_: Callable[[I_, int | None], Iterator[Piece]],
        items: Sequence[I_],
        reduce: Callable[[int, Iterable[Piece]], R],
        partitions: int,
    ) -> list[R]:
        found = []
        for partition in range(partitions):
            pieces = [piece for item in items for piece in map_(item, partition)]
            if pieces:
                found.append(reduce(partition, pieces))
        return found
