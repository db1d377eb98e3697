"""Small results for people: rows as dicts that show as a table. Knows nothing of graphs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from omnigraph.core.shown import html_table


class Rows(list[dict[str, Any]]):
    """Rows in order, each a dict by column. A plain list but for how it shows."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__(table.to_pylist())
        self._table = table

    def to_arrow(self) -> pa.Table:
        return self._table

    def __repr__(self) -> str:
        return "[" + ",\n ".join(map(repr, self)) + "]"

    def _repr_html_(self) -> str:
        return html_table(self._table.column_names, ([row[name] for name in row] for row in self), empty="no rows")

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, (self._table,)
