"""CSV files as record batches of texts.

Owns how such a file is taken apart: delimiter, quotes, encoding, nulls, header, and rows with too few or too many cells.
What a text means as a value of a property is decided in ``tables``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, Final, Literal, cast

import pyarrow as pa

from omnigraph.write.base import violations as v
from omnigraph.write.base.refusal import data_invalid
from omnigraph.write.base.violations import Violation
from omnigraph.write.sources.batch import CsvOptions

_BLOCK_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RaggedRow:
    """A row that has not as many cells as the file has columns. ``number`` counts records from 1."""

    number: int
    text: str
    expected: int
    found: int


@dataclass(frozen=True)
class FileTable:
    """A file of one table, as it is read. ``ragged`` grows as ``batches`` are read, ahead of them; the rows in it are in no batch."""

    names: list[str]
    batches: Iterator[pa.RecordBatch]
    ragged: list[RaggedRow] = field(default_factory=list)


def read_csv(place: str, stream: IO[bytes], options: CsvOptions) -> FileTable:
    """Take a file apart. Cells are texts, null where nothing is written or a text that means null."""
    import pyarrow.csv as pcsv

    names = _names(place, stream, options)
    ragged: list[RaggedRow] = []

    def refuse(row: Any) -> Literal["skip", "error"]:
        number = row.number - 1 if options.header else row.number
        ragged.append(RaggedRow(number, row.text, row.expected_columns, row.actual_columns))
        return "skip"

    counted = _Counted(stream, options.quote.encode())
    reader: Any = pcsv.open_csv(
        cast("IO[bytes]", counted),
        read_options=pcsv.ReadOptions(
            use_threads=False,
            block_size=_BLOCK_BYTES,
            encoding=options.encoding,
            column_names=None if options.header else names,
        ),
        parse_options=pcsv.ParseOptions(
            delimiter=options.delimiter,
            quote_char=options.quote,
            newlines_in_values=True,
            invalid_row_handler=refuse,
        ),
        convert_options=pcsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.utf8()),
            # A quoted text is that text, also where it is empty or spells null.
            null_values=["", *options.nulls],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return FileTable(names, _whole(place, stream, counted, reader, options), ragged)


class _Counted(io.RawIOBase):
    """A stream, and how many quotes went by."""

    def __init__(self, stream: IO[bytes], quote: bytes) -> None:
        self._stream = stream
        self._quote = quote
        self.quotes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.quotes += data.count(self._quote)
        return data


def _whole(
    place: str, stream: IO[bytes], counted: _Counted, batches: Iterable[pa.RecordBatch], options: CsvOptions
) -> Iterator[pa.RecordBatch]:
    """The batches; then an error if the file ends within quotes: the reader takes what stands there for a value, but the
    rest of the file is missing. An odd number of quotes can be right, so that it takes a second look to tell."""
    yield from batches
    if counted.quotes % 2 == 0:
        return
    stream.seek(0)
    text = _text(stream, options)
    try:
        for _ in csv.reader(text, delimiter=options.delimiter, quotechar=options.quote, strict=True):
            pass
    except (csv.Error, UnicodeDecodeError) as error:
        if "end of data" in str(error):
            raise unreadable(
                place, "it ends inside a quoted value: a quote is missing, or the rest of the file"
            ) from None
    finally:
        text.detach()


def _text(stream: IO[bytes], options: CsvOptions) -> io.TextIOWrapper:
    encoding = "utf-8-sig" if options.encoding.lower().replace("_", "-") in ("utf-8", "utf8") else options.encoding
    return io.TextIOWrapper(stream, encoding=encoding, newline="")


def _names(place: str, stream: IO[bytes], options: CsvOptions) -> list[str]:
    text = _text(stream, options)
    try:
        first = next(csv.reader(text, delimiter=options.delimiter, quotechar=options.quote), [])
    except (UnicodeError, csv.Error) as error:
        raise unreadable(place, f"its header: {error}" if options.header else str(error)) from error
    finally:
        text.detach()
        stream.seek(0)
    if not options.header:
        return [str(position) for position in range(1, len(first) + 1)] or ["1"]
    if not first:
        raise unreadable(place, "it has no header")
    doubled = sorted({name for name in first if first.count(name) > 1})
    if doubled:
        raise unreadable(place, f"two columns are named {doubled[0][:80]!r}")
    return first


def unreadable(place: str, reason: str) -> Exception:
    violation = Violation(v.MALFORMED, f"cannot be read: {' '.join(reason.split())[:200]}", source=place)
    return data_invalid([violation], 1)
