"""The input of one request as an offer holds it, and back: its rows with the ids that were made for them, before anything is looked up.

What the rows come to depends on the state that they are planned on, so the writer that carries them out looks up committed ids itself. An
offer that does not fit the schema there exactly is left to its owner.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.commit.intent import Intent
from omnigraph.commit.intent_format import OFFER_BYTES_MAX
from omnigraph.commit.txn import Txn
from omnigraph.core.errors import NotFound
from omnigraph.schema import Catalog
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import TableType, has_blobs
from omnigraph.write.base.changes import MODES, Origin, SourcePart, TypeChange, Unnamed
from omnigraph.write.base.constants import ENDS
from omnigraph.write.rules.completion import complete
from omnigraph.write.rules.id_reuse import adopt_ids

LOAD: Final = "load"
KINDS: Final = (LOAD, "mutate")
OFFERED_MODES: Final = ("append", "merge")
_Mask = npt.NDArray[np.bool_]


# --- writing ------------------------------------------------------------------------------------------------------------


def encode(changes: Sequence[TypeChange], *, schema_id: str, deadline_at_us: int) -> dict[str, Any] | None:
    """The body of an offer; None where there is nothing to write, or more than an offer holds."""
    written = [change for change in changes if change.rows.num_rows]
    modes = {change.mode for change in written}
    if len(modes) != 1 or not modes <= set(OFFERED_MODES):
        return None
    rows = [_rows(change) for change in written]
    if sum(len(one["ipc"]) * 3 // 4 for one in rows) > OFFER_BYTES_MAX:
        return None
    return {
        "schema_id": schema_id,
        "mode": modes.pop(),
        "options": {change.table_key: _facts(change) for change in written},
        "query": None,
        "params": None,
        "rows": rows,
        "deadline_at_us": deadline_at_us,
    }


def _rows(change: TypeChange) -> dict[str, Any]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, change.rows.schema) as stream:
        stream.write_table(change.rows.combine_chunks())
    text = base64.b64encode(sink.getvalue().to_pybytes()).decode()
    return {"key": change.table_key, "rows": change.rows.num_rows, "ipc": text}


def _facts(change: TypeChange) -> dict[str, Any]:
    """What of a table's change its rows do not say. Places are for messages."""
    origin = change.origin
    unnamed = change.unnamed
    return {
        "minted": _mask_text(change.minted),
        "unnamed": None if unnamed is None else {name: _mask_text(mask) for name, mask in unnamed.items()},
        "parts": [[part.first_row, part.name, part.order, part.first_number] for part in origin.parts],
        "numbers": None if origin.numbers is None else origin.numbers.tolist(),
        "part_of": None if origin.part_of is None else origin.part_of.tolist(),
    }


def _mask_text(mask: bool | _Mask) -> bool | str:
    return mask if isinstance(mask, bool) else base64.b64encode(np.packbits(mask).tobytes()).decode()


# --- reading ------------------------------------------------------------------------------------------------------------


def decode(intent: Intent, catalog: Catalog, schema_id: str) -> tuple[TypeChange, ...] | None:
    """The rows of an offer under this schema; None where it was made under another one, or does not fit it."""
    offer = intent.offer
    if offer is None or offer["schema_id"] != schema_id or offer["mode"] not in OFFERED_MODES:
        return None
    if intent.kind not in KINDS or offer["query"] is not None or {one["key"] for one in offer["rows"]} - intent.keys:
        return None
    try:
        found = tuple(_change(one, offer["mode"], offer["options"][one["key"]], catalog) for one in offer["rows"])
    except (ValueError, KeyError, TypeError, IndexError, OSError, pa.ArrowException, NotFound):
        return None
    keys = [change.table_key for change in found]
    return found if found and len(set(keys)) == len(keys) else None


def _change(given: Mapping[str, Any], mode: str, facts: Mapping[str, Any], catalog: Catalog) -> TypeChange:
    declared = catalog.by_table_key(given["key"])
    if has_blobs(declared):
        raise ValueError("values that lie beside the rows are not offered")
    rows = _read_rows(given, declared)
    count = rows.num_rows
    unnamed: Unnamed | None = None
    if facts["unnamed"] is not None:
        unnamed = {str(name): _mask(mask, count) for name, mask in facts["unnamed"].items()}
        if set(unnamed) - set(rows.column_names):
            raise ValueError("it names a column that the table does not have")
    assert mode in MODES
    return TypeChange(
        declared,
        rows,
        mode,
        minted=_mask(facts["minted"], count),
        origin=_origin(facts, count),
        unnamed=unnamed,
    )


def _read_rows(given: Mapping[str, Any], declared: TableType) -> pa.Table:
    data = base64.b64decode(given["ipc"], validate=True)
    with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
        rows = stream.read_all()
    rows.validate(full=True)
    schema = table_schema(declared)
    if rows.num_rows != given["rows"] or rows.schema.names != schema.names or rows.schema.types != schema.types:
        raise ValueError("its rows are not those of the table")
    if any(rows.column(name).null_count for name in ("id", *ENDS) if name in schema.names):
        raise ValueError("a row names no id or no end")
    return pa.Table.from_arrays(rows.columns, schema=schema)


def _mask(given: bool | str, rows: int) -> bool | _Mask:
    if isinstance(given, bool):
        return given
    bits = np.unpackbits(np.frombuffer(base64.b64decode(given, validate=True), dtype=np.uint8))
    if not rows <= len(bits) < rows + 8:
        raise ValueError("a mask does not fit its rows")
    return bits[:rows].astype(np.bool_)


def _origin(facts: Mapping[str, Any], rows: int) -> Origin:
    parts = tuple(SourcePart(int(row), name, int(order), int(number)) for row, name, order, number in facts["parts"])
    numbers, part_of = facts["numbers"], facts["part_of"]
    if not parts or any(listed is not None and len(listed) != rows for listed in (numbers, part_of)):
        raise ValueError("its places do not fit its rows")
    if part_of is not None and not all(0 <= at < len(parts) for at in part_of):
        raise ValueError("a row is of no part")
    return Origin(
        parts,
        None if numbers is None else np.array(numbers, dtype=np.int64),
        None if part_of is None else np.array(part_of, dtype=np.int32),
    )


def in_state(intent: Intent, changes: Sequence[TypeChange], txn: Txn) -> tuple[TypeChange, ...]:
    """The rows as the owner of the offer would plan them on this state."""
    if intent.kind != LOAD:
        return tuple(changes)  # statements name the rows that they insert
    return tuple(complete(adopt_ids(change, txn), txn) for change in changes)
