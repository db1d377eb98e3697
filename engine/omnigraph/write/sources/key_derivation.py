"""Ids for batches that others make: what an executor needs before it writes fragments of its own.

Owns one function, which gives a batch the ids and endpoint spellings that a load would give it. It checks what a row
shows by itself; everything else is judged when the fragments come in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.core.kinds import kinds_checked

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.core.clock import Clock
    from omnigraph.core.limits import Limits
    from omnigraph.schema.catalog import Catalog


@kinds_checked
def derive_keys(
    catalog: Catalog,
    type: str,
    batch: pa.RecordBatch | pa.Table,
    *,
    limits: Limits | None = None,
    clock: Clock | None = None,
) -> Any:
    """``batch`` in the physical schema of a type, with ``id`` and, for edges, canonical ``src`` and ``dst``.

    Columns are named as for a load of tables. A table gives a table, a record batch a record batch. Raises
    ``DataInvalid`` naming the rows that cannot be loaded; row numbers count from 1 within the batch.
    """
    import pyarrow as pa

    from omnigraph.core.limits import DEFAULT_LIMITS
    from omnigraph.schema.arrow import table_schema
    from omnigraph.write.base.refusal import data_invalid
    from omnigraph.write.base.rejects import Rejects
    from omnigraph.write.sources.tables import TableReader

    declared = catalog.type(type)
    rejects = Rejects(keep=False)
    reader = TableReader(declared, catalog, limits or DEFAULT_LIMITS, clock, rejects)
    reader.resolve(batch.schema.names)
    batches = batch.to_batches() if isinstance(batch, pa.Table) else [batch]
    derived = pa.Table.from_batches([piece.batch for piece in reader.pieces(batches)], schema=table_schema(declared))
    if rejects.log:
        raise data_invalid(rejects.log.shown, rejects.log.total)
    if isinstance(batch, pa.Table):
        return derived
    combined = derived.combine_chunks().to_batches()
    return combined[0] if combined else pa.RecordBatch.from_pylist([], schema=derived.schema)
