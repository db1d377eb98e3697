"""Columns of files that the schema does not know: which there are, and what kind of property each would be.

Owns the way from what a file says of a column to a kind of the schema. Reads the columns of Parquet and ORC files from their footers,
and those of texts from their rows.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

import omnigraph as og
from omnigraph_pipelines.spark import reading
from omnigraph_pipelines.spark.sources import Files, Part, Place, find, unreadable

_NAME: Final = re.compile(r"[a-z_][A-Za-z0-9_]*")
_ENDS: Final = ("src", "dst", "from", "to")
_NO_VALUE: Final = ""  # the kind of a column without any value
_BYTES_TRIED: Final = 1 << 20  # of a CSV file: its kinds are inferred from so much of it


def known_columns(declared: Any, columns: Mapping[str, str]) -> frozenset[str]:
    """The columns of a file that mean something: properties, the id, the ends of an edge, and what the settings name."""
    ends = _ENDS if declared.table_key.startswith("edge:") else ()
    return frozenset(["id", *(prop.name for prop in declared.properties), *ends, *columns.values()])


def new_properties(declared: Any, given: Files) -> tuple[dict[str, str], list[str]]:
    """The kinds of the properties that columns of these files would be, by their names, and the columns that have no value anywhere:
    nothing says what they are."""
    known = known_columns(declared, given.columns)
    kinds: dict[str, dict[str, str]] = {}
    for place in find(given.paths, given.format, given.storage_options):
        for name, kind in _unknown(place, known).items():
            kinds.setdefault(name, {})[place.name] = kind
    found, empty = {}, []
    for name, by_file in sorted(kinds.items()):
        kind = _joined(declared.name, name, by_file)
        if kind == _NO_VALUE:
            empty.append(name)
        else:
            _check_name(declared.name, name)
            found[name] = f"{kind}?"
    return found, empty


def _unknown(place: Place, known: frozenset[str]) -> dict[str, str]:
    """The kinds of the columns of one file that are not known."""
    if place.format == "csv":
        schema = reading.schema_of(place)
        names = [name for name in (schema.names if schema is not None else ()) if name not in known]
        return _of_texts(place, names) if names else {}
    if place.format in ("json", "ndjson"):
        return _of_objects(place, known)
    schema = reading.schema_of(place)
    fields = [field for field in (schema or ()) if field.name not in known]
    return {field.name: _kind(place, field.name, field.type) for field in fields}


def _of_texts(place: Place, names: list[str]) -> dict[str, str]:
    """Kinds of the cells of a CSV file, from its beginning. A later row that does not fit is a bad row."""
    import pyarrow.csv as pcsv

    with reading.told(place), reading.text_stream(Part(place, 0)) as stream:
        head = _lines(stream.read(_BYTES_TRIED))
        table = pcsv.read_csv(
            io.BytesIO(head),
            parse_options=pcsv.ParseOptions(newlines_in_values=True),
            convert_options=pcsv.ConvertOptions(include_columns=names, null_values=[""], strings_can_be_null=True),
        )
    return {field.name: _kind(place, field.name, field.type, texts=True) for field in table.schema}


def _lines(head: bytes) -> bytes:
    """Whole lines of the beginning of a text."""
    if len(head) < _BYTES_TRIED:
        return head
    quotes, end = head.count(b'"'), len(head)
    while (end := head.rfind(b"\n", 0, end)) > 0:
        if (quotes - head.count(b'"', end)) % 2 == 0:
            return head[: end + 1]
    return head


def _of_objects(place: Place, known: frozenset[str]) -> dict[str, str]:
    import pyarrow.json as pjson

    kinds: dict[str, dict[str, str]] = {}
    with reading.text_of(Part(place, 0)) as stream:
        blocks = reading.whole(stream, place) if place.format == "json" else reading.line_blocks(stream)
        for number, block in enumerate(blocks):
            with reading.told(place):
                schema = pjson.read_json(
                    io.BytesIO(block), read_options=pjson.ReadOptions(block_size=max(len(block), 1))
                ).schema
            for field in schema:
                if field.name not in known:
                    kinds.setdefault(field.name, {})[f"{place.name}:{number}"] = _kind(place, field.name, field.type)
    return {name: _joined(place.name, name, found) for name, found in kinds.items()}


# --- kinds --------------------------------------------------------------------------------------------------------------


_SCALARS: Final[tuple[tuple[Any, str], ...]] = (
    (pa.types.is_boolean, "Bool"),
    (pa.types.is_int64, "I64"),
    (pa.types.is_signed_integer, "I32"),
    (pa.types.is_uint64, "U64"),
    (pa.types.is_unsigned_integer, "U32"),
    (pa.types.is_float64, "F64"),
    (pa.types.is_floating, "F32"),
    (pa.types.is_string, "String"),
    (pa.types.is_large_string, "String"),
    (pa.types.is_string_view, "String"),
    (pa.types.is_date, "Date"),
    (pa.types.is_timestamp, "DateTime"),
)
_WIDER: Final[tuple[frozenset[str], ...]] = (
    frozenset({"I32", "I64"}),
    frozenset({"U32", "U64"}),
    frozenset({"F32", "F64"}),
    frozenset({"I32", "I64", "F64"}),
)
_WIDEST: Final = ("F64", "I64", "U64")


def _kind(place: Place, name: str, type_: Any, *, texts: bool = False) -> str:
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if pa.types.is_null(type_):
        return _NO_VALUE
    for fits, kind in _SCALARS:
        if fits(type_):
            return kind
    if texts:
        return "String"
    if pa.types.is_fixed_size_list(type_) and pa.types.is_floating(type_.value_type):
        return f"Vector({type_.list_size})"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        inner = _kind(place, name, type_.value_type)
        if inner and not inner.startswith(("[", "Vector")):
            return f"[{inner}]"
        if inner == _NO_VALUE:
            return _NO_VALUE
    raise unreadable(place.name, ValueError(f"the column {name[:80]!r} is {type_}, which no property holds"))


def _joined(owner: str, name: str, by_file: Mapping[str, str]) -> str:
    """The kind that holds the values of all files."""
    kinds = {kind for kind in by_file.values() if kind != _NO_VALUE}
    if len(kinds) < 2:
        return next(iter(kinds), _NO_VALUE)
    if any(kinds <= family for family in _WIDER):
        return next(kind for kind in _WIDEST if kind in kinds)
    if all(file.partition(":")[0].removesuffix(".gz").endswith(".csv") for file in by_file):
        return "String"
    (first, one), (other, two) = list(_differing(by_file))[:2]
    raise _invalid(owner, name, f"it is {one} in {first} and {two} in {other}", "declare it in the schema file")


def _differing(by_file: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for file, kind in by_file.items():
        if kind != _NO_VALUE and kind not in seen:
            seen.add(kind)
            yield file, kind


def _check_name(owner: str, name: str) -> None:
    if not _NAME.fullmatch(name) or name in ("id", *_ENDS) or name.startswith("_row"):
        raise _invalid(
            owner,
            name,
            "no property can be called so",
            "name a property for it under `columns`, or write unknown_columns: ignore",
        )


def _invalid(owner: str, name: str, problem: str, hint: str) -> og.errors.DataInvalid:
    message = f"the column {name[:80]!r} cannot be added to {owner}: {problem}"
    violation = {"code": "unknown-property", "message": message, "property": name[:80], "type": owner}
    return og.errors.DataInvalid(message, hint=hint, violations=[violation], total=1)


# --- leaving columns out ------------------------------------------------------------------------------------------------


def known_batches(batches: Iterable[pa.RecordBatch], only: frozenset[str]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.select([name for name in batch.schema.names if name in only])


def known_members(blocks: Iterable[bytes], only: frozenset[str]) -> Iterator[bytes]:
    """The same objects without the members that are not known. A line that is no object stays: it is refused where rows are read."""
    import json

    for block in blocks:
        lines = []
        for line in block.split(b"\n"):
            try:
                found = json.loads(line) if line.strip() else None
            except (ValueError, RecursionError):
                found = None
            if isinstance(found, dict) and not only.issuperset(found):
                left = {name: value for name, value in found.items() if name in only}
                line = json.dumps(left, ensure_ascii=False).encode("utf-8", "surrogatepass")
            lines.append(line)
        yield b"\n".join(lines)
