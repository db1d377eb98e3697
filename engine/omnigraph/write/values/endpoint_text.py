"""The texts of endpoints: what ``from`` and ``to`` may hold, in the spelling that the ids of the node type have.

An endpoint is written as the id itself or as a value of the key's own kind: ``7`` for an integer key, an array for a
composite key, any accepted form of a date. One value at a time for records, a column at a time for tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute

from omnigraph.core.errors import DataInvalid
from omnigraph.schema.catalog import NodeType, PropType, ScalarKind
from omnigraph.schema.keytext import column_text, join_texts, value_text
from omnigraph.table.arrays import one_array
from omnigraph.write.base import violations as v
from omnigraph.write.values.cells import Refusal, convert
from omnigraph.write.values.columns import Refused

pc: Any = pyarrow.compute

_TIMES: Final = (ScalarKind.DATE, ScalarKind.DATETIME)


def key_kinds(node: NodeType) -> tuple[PropType, ...]:
    return tuple(node.property(name).type for name in node.key or ())


def end_text(node: NodeType, value: Any) -> str:
    """One endpoint. Raises ``Refusal``."""
    kinds = key_kinds(node)
    if isinstance(value, str):
        if len(kinds) == 1 and kinds[0].scalar in _TIMES:
            return _time_text(kinds[0], value)
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Refusal(v.BAD_TEXT, "the text is not valid UTF-8") from None
        return value
    if len(kinds) == 1:
        return _key_text(kinds[0], value)
    if len(kinds) > 1 and isinstance(value, list | tuple) and len(value) == len(kinds):
        return join_texts([_key_text(kind, member) for kind, member in zip(kinds, value, strict=True)])
    raise Refusal(
        v.WRONG_KIND, "an id text is needed" if not kinds else "an id text or the values of the key are needed"
    )


def _key_text(kind: PropType, value: Any) -> str:
    converted = convert(kind, value)
    if converted is None:
        raise Refusal(v.WRONG_KIND, "a key has no nulls")
    return value_text(kind, converted)


def _time_text(kind: PropType, text: str) -> str:
    """Another spelling of the same day or moment is the same node; what is none is left for the look-up to miss."""
    try:
        return value_text(kind, convert(kind, text))
    except Refusal:
        return text


def end_column(node: NodeType, values: Sequence[Any]) -> tuple[pa.Array[Any], Refused]:
    """Endpoints of records; null where missing or refused."""
    kinds = key_kinds(node)
    if set(map(type, values)) == {str} and not (len(kinds) == 1 and kinds[0].scalar in _TIMES):
        try:
            return pa.array(values, pa.utf8()), {}
        except UnicodeError:
            pass
    refused: Refused = {}
    texts: list[str | None] = []
    for position, value in enumerate(values):
        try:
            texts.append(None if value is None else end_text(node, value))
        except Refusal as refusal:
            refused[position] = refusal
            texts.append(None)
    return pa.array(texts, pa.utf8()), refused


def end_array(node: NodeType, column: pa.Array[Any]) -> pa.Array[Any]:
    """Endpoints of a table, whose text columns are checked and utf8 already. Raises ``DataInvalid`` for a wrong kind."""
    kinds = key_kinds(node)
    if not pa.types.is_string(column.type):
        if len(kinds) != 1 or kinds[0].scalar is ScalarKind.STRING:
            raise DataInvalid(f"a column of {column.type} holds no ids of {node.name}")
        return one_array(column_text(kinds[0], column), pa.utf8())
    if len(kinds) == 1 and kinds[0].scalar in _TIMES:
        # Few spellings occur often: each is looked at once.
        encoded = pc.dictionary_encode(column)
        again = [None if text is None else _time_text(kinds[0], text) for text in encoded.dictionary.to_pylist()]
        respelt: pa.Array[Any] = pa.array(again, pa.utf8()).take(encoded.indices)
        return respelt
    return column


def refused_rows(refused: Refused) -> Any:
    return np.fromiter(refused, dtype=np.int64, count=len(refused))
