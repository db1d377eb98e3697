"""A small append-only dataset in which a key stands once, however often and by whichever process it is written.

Insert-only merge on the key with no retries inside Lance and no index on the key: the one form in which Lance notices
that two writers insert the same key.
"""

from __future__ import annotations

import contextlib
from datetime import timedelta

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction

from omnigraph.core.errors import OmnigraphError, StoreUnavailable
from omnigraph.table.dataset import TableRef, Tables, translated
from omnigraph.table.errors import Fate, classify
from omnigraph.table.new_file_checks import damaged

ATTEMPTS_MAX = 8
FRAGMENTS_MAX = 8  # beyond which the rows are written together
VERSIONS_KEPT = timedelta(days=1)  # a reader of the journal is done long before


def insert_once(tables: Tables, ref: TableRef, schema: pa.Schema, key: str, row: pa.Table) -> bool:
    """Add the rows whose keys are not there; no two of them have one key. False: all were there. Raises where the outcome
    is not certain.

    Lance writes the row's file and names it in one call, so a file that is not whole (see ``new_file_checks``) is found afterwards:
    here, or by the next caller. The row in it was never acknowledged.
    """
    with translated(f"write {ref.relative}"):
        for attempt in range(1, ATTEMPTS_MAX + 1):
            handle = _drop_damaged(_open_or_create(tables, ref, schema))
            try:
                stats = (
                    handle.merge_insert(key)
                    .when_not_matched_insert_all()
                    .conflict_retries(0)
                    .use_index(False)
                    .execute(row)
                )
            except Exception as error:
                if classify(error) is Fate.NOT_LANDED_RETRYABLE and attempt < ATTEMPTS_MAX:
                    continue
                raise
            if damaged(lance.dataset(tables.uri(ref), storage_options=tables.options)):
                raise StoreUnavailable(
                    f"{ref.relative} was not written whole", hint="free space on the disk, then repeat"
                )
            return bool(stats["num_inserted_rows"])
    return False


def _drop_damaged(handle: LanceDataset) -> LanceDataset:
    broken = damaged(handle)
    if not broken:
        return handle
    operation = LanceOperation.Delete([], sorted(broken), "rows whose file was not written whole")
    return LanceDataset.commit(handle, Transaction(handle.version, operation))


def trim(tables: Tables, ref: TableRef, doomed: str) -> None:
    """Delete the rows for which a predicate holds, write many small files together, and drop old versions of the journal.

    Raises where another process was at it; nothing is lost, and the next run does it."""
    try:
        handle = lance.dataset(tables.uri(ref), storage_options=tables.options)
    except Exception as error:
        if classify(error) is Fate.MISSING_VERSION:
            return
        with translated(f"read {ref.relative}"):
            raise
    with translated(f"trim {ref.relative}"):
        handle = _drop_damaged(handle)
        if handle.count_rows(doomed):
            handle.delete(doomed)
        if len(handle.get_fragments()) > FRAGMENTS_MAX:
            handle.optimize.compact_files(num_threads=1)
        if damaged(lance.dataset(tables.uri(ref), storage_options=tables.options)):
            raise StoreUnavailable(f"{ref.relative} was not written whole", hint="free space on the disk, then repeat")
        handle.cleanup_old_versions(older_than=VERSIONS_KEPT)


def read_all(tables: Tables, ref: TableRef) -> pa.Table | None:
    """Every row, or None where nothing was ever written."""
    try:
        handle = lance.dataset(tables.uri(ref), storage_options=tables.options)
    except Exception as error:
        if classify(error) is Fate.MISSING_VERSION:
            return None
        with translated(f"read {ref.relative}"):
            raise
    with translated(f"read {ref.relative}"):
        broken = damaged(handle)
        whole = [fragment for fragment in handle.get_fragments() if fragment.fragment_id not in broken]
        return handle.scanner(fragments=whole).to_table() if broken else handle.to_table()


def _open_or_create(tables: Tables, ref: TableRef, schema: pa.Schema) -> LanceDataset:
    try:
        return lance.dataset(tables.uri(ref), storage_options=tables.options)
    except Exception as error:
        if classify(error) is not Fate.MISSING_VERSION:
            raise
    with contextlib.suppress(OmnigraphError):
        # Refused where another process has created it meanwhile; anything else that is wrong, the open below says.
        tables.create_empty(ref, schema)
    return lance.dataset(tables.uri(ref), storage_options=tables.options)
