"""A bare Lance table for the guards: nothing of the engine, so that a guard speaks about Lance alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import FragmentMetadata, write_fragments

KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False, metadata=KEY), pa.field("v", pa.int64())])


def rows(ids: Sequence[str], v: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "v": [v] * len(ids)}, schema=SCHEMA)


def create(uri: str) -> LanceDataset:
    """An empty table with stable row ids, at version 1."""
    return LanceDataset.commit(uri, LanceOperation.Overwrite(SCHEMA, []), enable_stable_row_ids=True)


def filled(uri: str, *groups: Sequence[str]) -> LanceDataset:
    """One commit and one fragment a group."""
    handle = create(uri)
    for group in groups:
        handle = LanceDataset.commit(handle, append(handle, group))
    return handle


def write(handle: LanceDataset, ids: Sequence[str], v: int = 0) -> list[FragmentMetadata]:
    fragments: list[FragmentMetadata] = write_fragments(rows(ids, v), handle)
    return fragments


def append(handle: LanceDataset, ids: Sequence[str], v: int = 0) -> Transaction:
    return Transaction(handle.version, LanceOperation.Append(write(handle, ids, v)))


def overwrite(handle: LanceDataset, ids: Sequence[str], v: int = 0) -> Transaction:
    return Transaction(handle.version, LanceOperation.Overwrite(handle.lance_schema, write(handle, ids, v)))


def restore(handle: LanceDataset, version: int) -> Transaction:
    return Transaction(handle.version, LanceOperation.Restore(version))


def upsert(handle: LanceDataset, ids: Sequence[str], v: int = 0) -> Transaction:
    merge = handle.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return merge.execute_uncommitted(rows(ids, v))[0]


def insert_only(handle: LanceDataset, ids: Sequence[str], v: int = 0) -> Transaction:
    return handle.merge_insert("id").when_not_matched_insert_all().execute_uncommitted(rows(ids, v))[0]


def delete(handle: LanceDataset, ids: Sequence[str]) -> Transaction:
    keys = pa.table({"id": list(ids)}, schema=pa.schema([SCHEMA.field("id")]))
    return handle.merge_insert("id").when_matched_delete().execute_uncommitted(keys)[0]


def configure(handle: LanceDataset, settings: Mapping[str, str]) -> Transaction:
    updates = LanceOperation.UpdateMap(dict(settings))
    return Transaction(handle.version, LanceOperation.UpdateConfig(config_updates=updates))


def create_index(handle: LanceDataset) -> Transaction:
    fragments = [fragment.fragment_id for fragment in handle.get_fragments()]
    segment = handle.create_index_uncommitted("id", "BTREE", name="by_id", fragment_ids=fragments)
    return Transaction(handle.version, LanceOperation.CreateIndex([segment], []))


def commit(handle: LanceDataset, transaction: Transaction, **options: Any) -> LanceDataset:
    return LanceDataset.commit(handle, transaction, **{"max_retries": 0, **options})


def head(uri: str) -> LanceDataset:
    return lance.dataset(uri)


def ids(handle: LanceDataset) -> list[str]:
    found: list[str] = sorted(handle.to_table(columns=["id"])["id"].to_pylist())
    return found


STAGED = {
    "append": lambda handle: append(handle, ["new"]),
    "upsert": lambda handle: upsert(handle, ["a"], 9),
    "insert_only": lambda handle: insert_only(handle, ["new"]),
    "delete": lambda handle: delete(handle, ["b"]),
    "overwrite": lambda handle: overwrite(handle, ["all"]),
    "restore": lambda handle: restore(handle, handle.version),
    "update_config": lambda handle: configure(handle, {"k": "v"}),
    "create_index": create_index,
}
