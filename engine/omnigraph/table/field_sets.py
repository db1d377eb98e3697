"""Fragments that changes of the columns have left in pieces: whose columns lie in several data files, or that hold columns which
the schema no longer has. Pure, but for the options of a compaction, which Lance makes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import lance
import lance.optimize
import pyarrow as pa

from omnigraph.table.staged import field_ids, fragment_json

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.fragment import FragmentMetadata

_Compaction: Any = lance.optimize.Compaction


def is_scattered(fragment: FragmentMetadata, live: Collection[int]) -> bool:
    """Whether a reader of all columns opens more than one file of the fragment. ``live``: ids of the fields of the schema."""
    return sum(any(one in live for one in file.fields) for file in fragment.files) > 1


def holds_dropped(fragment: FragmentMetadata, live: Collection[int]) -> bool:
    """Whether a file of the fragment has a column that is not in the schema."""
    return any(one not in live for file in fragment.files for one in file.fields)


def scattered(handle: LanceDataset) -> list[FragmentMetadata]:
    live = frozenset(field_ids(handle))
    return [one for one in _fragments(handle) if is_scattered(one, live)]


def with_dropped(handle: LanceDataset) -> list[FragmentMetadata]:
    live = frozenset(field_ids(handle))
    return [one for one in _fragments(handle) if holds_dropped(one, live)]


def _fragments(handle: LanceDataset) -> Iterator[FragmentMetadata]:
    return (one.metadata for one in handle.get_fragments())


def task_document(handle: LanceDataset, fragment: FragmentMetadata, options: dict[str, Any]) -> str:
    """Lance's JSON of a compaction task for one fragment. Lance itself plans none for a fragment that is large enough."""
    all_options = _all_options(tuple(sorted(options.items())))
    chosen = {**json.loads(all_options), "data_storage_version": handle.data_storage_version}
    task = {"fragments": [fragment_json(fragment)]}
    return json.dumps({"task": task, "read_version": handle.version, "options": chosen})


@cache
def _all_options(given: tuple[tuple[str, Any], ...]) -> str:
    """The options with Lance's defaults for what they leave out: a task has to have all of them. Read from a task that Lance
    plans for two rows in memory."""
    two = lance.write_dataset(pa.table({"a": [1, 2]}), "memory://", max_rows_per_file=1)
    [task] = _Compaction.plan(two, {**dict(given), "target_rows_per_fragment": 2}).tasks
    return json.dumps({**json.loads(task.json())["options"], **dict(given)})
