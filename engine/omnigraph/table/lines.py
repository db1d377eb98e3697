"""New lines of versions: a table at a path of its own, and a fork of a table. Both are strict, both carry our uuid.

Either lands at exactly the planned version or is refused; a repeat of a call whose answer was lost is refused too, and what
stands there tells by its uuid whose it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction

from omnigraph.core.meter import Meter
from omnigraph.table.blob import stored_schema
from omnigraph.table.dataset import COMMIT_TIMEOUT, CommitUnknown, NotLanded, TableRef, Tables
from omnigraph.table.errors import brief, classify, panics_raised

CREATE_REQUESTS = 4
FORK_REQUESTS = 5


def create(
    tables: Tables,
    ref: TableRef,
    schema: pa.Schema,
    *,
    uuid: str,
    properties: Mapping[str, str],
    meter: Meter | None = None,
) -> LanceDataset:
    """An empty table at version 1. Raises ``NotLanded`` where a dataset is there already, ``CommitUnknown``."""
    transaction = Transaction(0, LanceOperation.Overwrite(stored_schema(schema), []))
    handle = _commit(
        tables,
        ref,
        _named(transaction, uuid, properties),
        enable_stable_row_ids=True,
        enable_v2_manifest_paths=True,
    )
    if meter is not None:
        meter.count("versions", CREATE_REQUESTS)
    return handle


def fork(
    tables: Tables,
    base: TableRef,
    version: int,
    ref: TableRef,
    *,
    uuid: str,
    properties: Mapping[str, str],
    meter: Meter | None = None,
) -> LanceDataset:
    """A line of its own that begins with ``version`` of ``base``, at the same number. Raises like ``create``.

    Lance's own branches are registered in a file that all writers change; a Clone to a path of its own is not.
    """
    operation = LanceOperation.Clone(True, None, version, tables.uri(base), None)
    handle = _commit(tables, ref, _named(Transaction(version, operation), uuid, properties))
    if meter is not None:
        meter.count("versions", FORK_REQUESTS)
    return handle


def _named(transaction: Transaction, uuid: str, properties: Mapping[str, str]) -> Transaction:
    transaction.uuid = uuid
    transaction.transaction_properties = dict(properties)
    return transaction


def _commit(tables: Tables, ref: TableRef, transaction: Transaction, **options: Any) -> LanceDataset:
    try:
        with panics_raised():
            handle = LanceDataset.commit(
                tables.uri(ref),
                transaction,
                max_retries=0,
                storage_options=tables.options,
                commit_timeout=COMMIT_TIMEOUT,
                **options,
            )
    except Exception as error:
        kind = NotLanded if classify(error).surely_not_landed else CommitUnknown
        raise kind(brief(error)) from error
    return tables.remember(ref, handle)
