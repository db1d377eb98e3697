"""What to do about an input that is refused: one hint for the cause of the first violation.

Owns the words of the hints. A hint names what exists both in Python and on the command line.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

from omnigraph.write.base import violations as v

_ONE_A_LINE: Final = (
    "correct the records named: one JSON object on each line; a table is given with its type: --node TYPE=FILE, "
    'in Python {"TYPE": "FILE"}'
)
_DATES: Final = (
    "correct the records named, or say how dates are written: --format-of {name}=%d.%m.%Y, in Python "
    'CsvOptions(formats={{"{name}": "%d.%m.%Y"}})'
)
_DECIMALS: Final = 'correct the records named, or take the nearest number: --decimals round, in Python TableFile(path, decimals="round")'
_ENCODING: Final = 'say how the file is encoded: --encoding latin-1, in Python CsvOptions(encoding="latin-1")'
_WHOLE: Final = "the file is not whole or not of this kind: copy it again, or convert it"
_COLUMN_TWICE: Final = "give each column a name of its own, in the header of the file"
_COLUMNS: Final = (
    "name types and columns as the schema does, or say which column is meant: TYPE=FILE:property=column, in Python "
    'TableFile(path, columns={"property": "column"})'
)
_SKIPPED: Final = '; a column that is not wanted: TYPE=FILE:-{name}, in Python skip=["{name}"]'
_NO_HEADER: Final = "; a file without header: --no-header, in Python CsvOptions(header=False)"
_DELIMITER: Final = "the cells seem to be separated by another character: --delimiter '{shown}', in Python CsvOptions(delimiter=\"{shown}\")"
# Violations that are about a whole table when they name no record: its type or its columns are called otherwise.
_OF_NAMES: Final = frozenset({v.UNKNOWN_PROPERTY, v.REQUIRED, v.MISSING_ENDPOINT_VALUE, v.DUPLICATE_MEMBER})
_DELIMITERS: Final = ";\t|"


def similar(name: object, known: Iterable[str]) -> str | None:
    """The hint for a name that is nearly one of those known, whatever its case."""
    by_lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(str(name)[:200].lower(), by_lower, n=1)
    return f"did you mean {by_lower[near[0]]}?" if near else None


def hint_of(shown: Sequence[v.Violation]) -> str | None:
    """The hint for violations of one input; None where that of every refused input will do."""
    if not shown:
        return None
    first = shown[0]
    if first.hint is not None:
        return first.hint
    if all(one.record is None and one.source is not None and one.code in _OF_NAMES for one in shown):
        return _of_columns(shown)
    if first.record is None and first.source is not None and first.code == v.MALFORMED:
        return _of_file(first)
    if first.code == v.UNKNOWN_TYPE and first.record is None:
        return _COLUMNS
    if first.code == v.BAD_DATE and _is_csv(first.source):
        return _DATES.format(name=first.property)
    if "the decimal has more digits" in first.message:
        return _DECIMALS
    if first.code == v.MALFORMED and ("not JSON" in first.message or "a record is a JSON object" in first.message):
        return _ONE_A_LINE
    return None


def _of_file(first: v.Violation) -> str:
    if "codec can't decode" in first.message or "UTF" in first.message:
        return _ENCODING
    return _COLUMN_TWICE if "two columns" in first.message else _WHOLE


def _of_columns(shown: Sequence[v.Violation]) -> str:
    unknown = [one.property for one in shown if one.message.endswith("(a column)") and one.property]
    if not _is_csv(shown[0].source) or not unknown:
        return _COLUMNS + (_SKIPPED.format(name=unknown[0]) if unknown else "")
    found = next((char for char in _DELIMITERS if char in unknown[0]), None)
    if found is not None and len(unknown) == 1:
        return _DELIMITER.format(shown="\\t" if found == "\t" else found)
    headless = any(one.code == v.REQUIRED for one in shown)
    return _COLUMNS + (_NO_HEADER if headless else _SKIPPED.format(name=unknown[0]))


def _is_csv(source: str | None) -> bool:
    return source is not None and source.lower().removesuffix(".gz").endswith((".csv", ".tsv"))
