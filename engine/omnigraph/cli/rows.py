"""Rows as a command prints them, in each of the formats, or writes them to a file.

Owns the names of the formats and how a row looks in each. A result comes as the document that programs get, and as its rows.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from omnigraph.cli.call import Usage
from omnigraph.cli.render import Screen
from omnigraph.cli.values import as_text
from omnigraph.core.errors import AlreadyExists

if TYPE_CHECKING:
    import pyarrow as pa

_OF_THE_WHOLE: Final = ("query_name", "target", "row_count", "truncated", "columns")


class Format(StrEnum):
    table = "table"
    kv = "kv"
    csv = "csv"
    jsonl = "jsonl"
    json = "json"
    parquet = "parquet"


RowFormat = Annotated[Format, typer.Option("--format", help="How rows are printed.")]
RowFile = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="A new file; for --format parquet.")
]


def goes_to_file(format_: Format, output: Path | None) -> bool:
    """Whether rows are written instead of printed; what does not go together is refused."""
    if (format_ is Format.parquet) != (output is not None):
        raise Usage("--format parquet and --output go together", hint="add --format parquet --output rows.parquet")
    if output is not None and output.exists():
        raise AlreadyExists(f"there is a file at {output}", hint="choose another name, or delete the file")
    return output is not None


def write_file(rows: pa.RecordBatchReader, output: Path, bound: int | None) -> tuple[int, bool]:
    """Write rows as one Parquet file, as a stream: how many, and whether ``bound`` has left some out."""
    import pyarrow as pa

    from omnigraph.read.export_parquet import write_rows

    left_out = False

    def first() -> Iterator[pa.RecordBatch]:
        nonlocal left_out
        left = bound
        for batch in rows:
            if left is not None and batch.num_rows > left:
                left_out = True
                yield batch.slice(0, left)
                return
            yield batch
            left = None if left is None else left - batch.num_rows

    count = write_rows(pa.RecordBatchReader.from_batches(rows.schema, first()), output)
    return count, left_out


def show_rows(
    screen: Screen, format_: Format, result: Mapping[str, Any], rows: Sequence[Sequence[Any]], hint: str
) -> None:
    """Print rows. ``hint``: what shows more, where ``result`` is cut off."""
    columns: Sequence[str] = result["columns"]
    match format_:
        case Format.json:
            screen.document(result)
        case Format.jsonl:
            head = {name: result[name] for name in _OF_THE_WHOLE}
            for value in (head, *result["rows"]):
                screen.raw(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")
        case Format.csv:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows([as_text(value) for value in row] for row in rows)
        case Format.kv:
            for number, row in enumerate(rows):
                if number:
                    screen.line()
                screen.pairs(list(zip(columns, map(_cell, row), strict=True)))
        case _:
            screen.table(columns, [[_cell(value) for value in row] for row in rows])
    if result["truncated"] and hint:
        screen.warn(f"only the first {result['row_count']:,} rows are shown; {hint}")


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float)) else as_text(value)
