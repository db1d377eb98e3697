"""The rows of one type of a snapshot, narrowed step by step and read at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph.core.errors import InvalidInput
from omnigraph.core.kinds import methods_checked
from omnigraph.core.shown import html_table
from omnigraph.read.tables import whole_number

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow.compute as pc

    from omnigraph.read.snapshot import Snapshot

_SHOWN_ROWS: Final = 20


@methods_checked
@dataclass(frozen=True, repr=False, eq=False)
class Relation:
    """``snapshot["Person"]``: nothing is read until rows are asked for, and each step gives another relation."""

    _snapshot: Snapshot
    type: str
    _columns: tuple[str, ...] | None = None
    _filter: pc.Expression | None = None
    _limit: int | None = None

    def filter(self, condition: pc.Expression) -> Relation:
        """Rows that meet an expression of pyarrow as well: ``pc.field("age") > 40``."""
        import pyarrow.compute as pc

        if not isinstance(condition, pc.Expression):
            raise InvalidInput(
                f"a filter is an expression of pyarrow, not {type(condition).__name__}",
                hint='for example pyarrow.compute.field("age") > 40',
            )
        if self._limit is not None:
            raise InvalidInput("filter comes before limit: the rows of a limit are no question any more")
        return replace(self, _filter=condition if self._filter is None else self._filter & condition)

    def select(self, columns: Sequence[str]) -> Relation:
        """Only these columns, in this order."""
        if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
            raise InvalidInput("select takes a list of columns", hint='for example select(["id", "age"])')
        return replace(self, _columns=tuple(columns))

    def limit(self, n: int) -> Relation:
        """At most ``n`` rows, the first in the order in which they are stored."""
        rows = whole_number("n", n, 0)
        return replace(self, _limit=rows if self._limit is None else min(rows, self._limit))

    def count(self) -> int:
        rows = self._snapshot.count(self.type, self._filter)
        return rows if self._limit is None else min(rows, self._limit)

    def to_batches(self) -> pa.RecordBatchReader:
        stream = self._snapshot.to_batches(self.type, self._columns, self._filter)
        if self._limit is None:
            return stream
        return pa.RecordBatchReader.from_batches(stream.schema, _first(stream, self._limit))

    def to_arrow(self) -> pa.Table:
        return self.to_batches().read_all()

    def to_pandas(self) -> pandas.DataFrame:
        from omnigraph.read.interop import to_pandas

        return to_pandas(self.to_arrow)

    def to_polars(self) -> polars.DataFrame:
        from omnigraph.read.interop import to_polars

        return to_polars(self.to_arrow)

    def __repr__(self) -> str:
        parts = [f"{self.type} of {self._snapshot.branch} at {self._snapshot.commit_id}"]
        parts += [f"columns {', '.join(self._columns)}"] if self._columns is not None else []
        parts += [f"where {self._filter}"] if self._filter is not None else []
        parts += [f"limit {self._limit}"] if self._limit is not None else []
        return f"<Relation {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        table = self.limit(_SHOWN_ROWS).to_arrow()
        rows: list[dict[str, Any]] = table.to_pylist()
        return html_table(
            table.column_names,
            [[row[name] for name in table.column_names] for row in rows],
            repr(self)[1:-1],
            empty="no rows",
        )


def _first(stream: pa.RecordBatchReader, rows: int) -> Any:
    while rows > 0:
        try:
            batch = stream.read_next_batch()
        except StopIteration:
            return
        yield batch.slice(0, rows)
        rows -= batch.num_rows
