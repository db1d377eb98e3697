"""Transactions that change the columns of a table, or bring back an older version of it. No data is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from lance import LanceOperation, Transaction

from omnigraph.table.fields import Projection, extended, projected


def add_columns(handle: Any, fields: Iterable[pa.Field[Any]]) -> Transaction:
    """More columns, null in every row that is there. Rows keep the stamp of their last change."""
    fragments = [fragment.metadata for fragment in handle.get_fragments()]
    return Transaction(handle.version, LanceOperation.Merge(fragments, extended(handle, fields)))


def project(handle: Any, change: Projection) -> Transaction:
    return Transaction(handle.version, LanceOperation.Project(projected(handle, change)))


def restore(handle: Any, version: int) -> Transaction:
    """The content of ``version`` of the same line, as the next version."""
    return Transaction(handle.version, LanceOperation.Restore(version))
