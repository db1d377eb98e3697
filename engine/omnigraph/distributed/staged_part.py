"""A staged part: what one task has written of a batch, which rows these are, and what was wrong.

Owns the values that travel between the tasks and the process that commits, as documents. Rows are placed by split: a stretch
of one source that one task reads. A task counts records from 1 in each of its splits; their numbers in the whole source are
known once all tasks have answered.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from omnigraph.core import documents, progress
from omnigraph.core.errors import OmnigraphError
from omnigraph.distributed import part_document
from omnigraph.distributed.fragments import StagedFragments
from omnigraph.write.base.rejects import Rejected
from omnigraph.write.base.violations import Violation

T = TypeVar("T")
R = TypeVar("R")

_INDEX_BITS = 32


@dataclass(frozen=True, slots=True, order=True)
class Split:
    """The ``index``-th stretch of the ``order``-th source of the input. ``name`` is what messages call the source."""

    order: int
    index: int
    name: str | None = None

    @property
    def key(self) -> int:
        """One number that sorts as splits do; stands for the order of the source while a task is at work."""
        return self.order << _INDEX_BITS | self.index


@dataclass(frozen=True, slots=True)
class Stretch:
    """Staged rows that follow one another in their fragments and come from one split."""

    split: int  # Split.key
    rows: int
    first_number: int = 1
    numbers: npt.NDArray[np.int64] | None = None  # record number of each row, where they are not numbered on


@dataclass(frozen=True)
class TaskRows:
    """The rows of one table that one task has staged, in the order of its fragments. ``staged`` is None without rows.
    ``unnamed``: of a patch, properties that rows do not name."""

    table_key: str
    staged: StagedFragments | None
    stretches: tuple[Stretch, ...] = ()
    minted: bool | npt.NDArray[np.bool_] = False
    unnamed: Mapping[str, bool | npt.NDArray[np.bool_]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(stretch.rows for stretch in self.stretches)


@dataclass(frozen=True)
class PartViolations:
    """The first violations by place, numbered within their splits, and how many there are; of each code, where not all are
    shown."""

    shown: tuple[Violation, ...] = ()
    total: int = 0
    by_code: Mapping[str, int] = field(default_factory=dict)

    def more(self) -> Mapping[str, int]:
        """Those that are not shown, by code."""
        counted = Counter(self.by_code)
        counted.subtract(one.code for one in self.shown)
        return {code: count for code, count in counted.items() if count > 0} if self.by_code else {}


@dataclass(frozen=True)
class KeyStream:
    """Key columns of one table, as an Arrow IPC stream beside the document of a part."""

    table_key: str
    columns: tuple[str, ...]
    rows: int
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class StagedPart:
    """What one task did. ``malformed`` could not become a row; ``bad_values`` did, and break a rule by themselves.

    A document: ``to_json`` with the ``streams`` beside it, ``from_json``. Pickling one pickles that document."""

    staging_id: str
    place: int  # sorts the parts of one input
    splits: tuple[tuple[Split, int], ...] = ()  # with the records read
    tables: tuple[TaskRows, ...] = ()
    malformed: PartViolations = field(default_factory=PartViolations)
    bad_values: PartViolations = field(default_factory=PartViolations)
    rejected: tuple[Rejected, ...] = ()
    error: OmnigraphError | None = None  # why the task gave up: what it had written is in ``tables``
    keys: tuple[KeyStream, ...] = ()

    @property
    def records(self) -> int:
        return sum(count for _, count in self.splits)

    @property
    def streams(self) -> tuple[bytes, ...]:
        """What travels beside the document, in the order of its ``keys``."""
        return tuple(one.data for one in self.keys)

    @property
    def digest(self) -> str:
        """Names this very part."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        return part_document.to_document(self)

    def to_json(self) -> str:
        return documents.canonical(self.to_dict()).decode()

    @classmethod
    def from_json(cls, text: str | bytes, streams: Sequence[bytes] = ()) -> StagedPart:
        """Read what ``to_json`` made. Raises ``InvalidInput`` for anything else."""
        return part_document.from_json(text, streams)

    def __reduce__(self) -> tuple[Any, ...]:
        return StagedPart.from_json, (self.to_json(), self.streams)


class Workers(Protocol):
    """Runs a picklable function on many items, in this process or elsewhere."""

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """The results in the order of the items. Raises the first error by that order. Each counts as one unit of the
        present phase."""
        ...


class Threads:
    """Workers in this process."""

    def __init__(self, count: int = 2) -> None:
        self._count = count

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        count = progress.counter()

        def run(item: T) -> R:
            found = function(item)
            count(1, 0)
            return found

        if len(items) <= 1:
            return [run(item) for item in items]
        with ThreadPoolExecutor(self._count, "omnigraph-part") as pool:
            return list(pool.map(run, items))
