"""``--node`` and ``--edge`` of a load, and the options that say how their files are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from omnigraph.cli.call import Usage

if TYPE_CHECKING:
    from omnigraph.write.sources.batch import TableFile

# ``:from=src,to=dst,-note`` at the end of ``Follows=f.csv:from=src,to=dst,-note``; a colon inside a URI is followed by slashes.
_COLUMN = r"(?:\w+=[^,=]+|-[^,=]+)"
_COLUMNS = re.compile(rf":({_COLUMN}(?:,{_COLUMN})*)$")


@dataclass(frozen=True, kw_only=True)
class CsvFlags:
    """What the command line says of CSV files; None where it says nothing."""

    delimiter: str | None = None
    quote_char: str | None = None
    encoding: str | None = None
    null: Sequence[str] = ()
    no_header: bool = False
    format_of: Sequence[str] = ()
    decimals: Literal["exact", "round"] = "exact"

    @property
    def is_given(self) -> bool:
        return self != CsvFlags()


def table_files(option: str, given: Sequence[str], flags: CsvFlags) -> dict[str, TableFile]:
    """The files of each type, in the order given."""
    from omnigraph.write.sources.batch import CsvOptions, TableFile

    paths: dict[str, list[str]] = {}
    columns: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {}
    for item in given:
        name, path, mapping, skipped = table_argument(option, item)
        if columns.setdefault(name, (mapping, skipped)) != (mapping, skipped):
            raise Usage(f"{option} {name}: files of one type with different columns", hint="load them one by one")
        paths.setdefault(name, []).append(path)
    options = CsvOptions(
        delimiter=_unescaped(flags.delimiter) or ",",
        quote=flags.quote_char or '"',
        encoding=flags.encoding or "utf-8",
        nulls=tuple(flags.null),
        header=not flags.no_header,
        formats=_formats(flags.format_of),
    )
    return {
        name: TableFile(tuple(files), columns[name][0], columns[name][1], options, flags.decimals)
        for name, files in paths.items()
    }


def table_argument(option: str, item: str) -> tuple[str, str, dict[str, str], tuple[str, ...]]:
    """``Follows=f.csv:from=src,to=dst,-note`` as type, path, source column by property, and columns to leave out."""
    name, equals, rest = item.partition("=")
    found = _COLUMNS.search(rest)
    path = rest[: found.start()] if found else rest
    if not equals or not name or not path:
        raise Usage(f"{option} takes TYPE=FILE, got {item!r}", hint=f"for example {option} Person=people.parquet")
    parts = found[1].split(",") if found else []
    pairs = [part.split("=", 1) for part in parts if not part.startswith("-")]
    mapping = {pair[0]: pair[1] for pair in pairs}
    if len(mapping) != len(pairs):
        raise Usage(f"{option} {name}: a property is given two columns", hint="name each property once")
    return name, path, mapping, tuple(part[1:] for part in parts if part.startswith("-"))


def _unescaped(text: str | None) -> str | None:
    """A shell passes ``\\t`` on as two characters."""
    return "\t" if text == "\\t" else text


def _formats(given: Sequence[str]) -> dict[str, str]:
    formats = {}
    for item in given:
        column, equals, how = item.partition("=")
        if not (column and equals and how):
            raise Usage(f"--format-of takes COLUMN=FORMAT, got {item!r}", hint="for example --format-of born=%d.%m.%Y")
        formats[column] = how
    return formats
