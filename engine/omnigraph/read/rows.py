"""Small results for people: rows as dicts, and tables as HTML for notebooks. Knows nothing of graphs."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

_CELL_CHARS_MAX = 120  # a notebook shows what a value is, not all of it


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
        return html_table(self._table.column_names, ([row[name] for name in row] for row in self))

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, (self._table,)


def html_table(names: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str = "") -> str:
    """A plain table; every text is escaped."""
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table>{title}<tr>{head}</tr>{body}</table>"


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return html.escape(text if len(text) <= _CELL_CHARS_MAX else text[: _CELL_CHARS_MAX - 1] + "…")
