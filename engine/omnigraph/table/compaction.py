"""Fewer, larger files with the same rows: plan, rewrite anywhere, commit. Owns Lance's compaction calls.

A rewrite is a pair of versions, one that reserves fragment numbers and one that takes the new files. Lance names neither
after anybody, so their numbers say whose they are: they are a caller's own if they follow, without a gap, the version
that the caller knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lance.optimize

from omnigraph.core.meter import Meter
from omnigraph.table import checksums, field_sets
from omnigraph.table.dataset import (
    CommitUnknown,
    NotLanded,
    TableRef,
    Tables,
    at_version,
    metered,
    own_handle,
    translated,
)
from omnigraph.table.errors import brief, classify, panics_raised
from omnigraph.table.indices import inherited_indices
from omnigraph.table.layout import describe
from omnigraph.table.new_file_checks import check_rewritten, noticed

if TYPE_CHECKING:
    from lance import LanceDataset

# Lance's stubs name members that its objects do not have, and the other way round.
Task = Any
Result = Any
Compaction: Any = lance.optimize.Compaction
_Task: Any = lance.optimize.CompactionTask
_Result: Any = lance.optimize.RewriteResult

TARGET_ROWS = 1024 * 1024  # Lance's own default
MEMORY_MB_MIN = 16
# Decoded rows are a few times what is stored, and several batches are under way at a time.
_DECODED = 8
_BATCHES = 16
_BATCH_ROWS_MAX = 8192
_READ_AHEAD_BYTES_MAX = 256 * 1024 * 1024
VERSIONS_OF_A_REWRITE = 2


@dataclass(frozen=True)
class Limits:
    """How large rewritten fragments become, and how much memory a rewrite may take. None: Lance's defaults. ``dropped_only``:
    rewrite the fragments that hold columns which the schema no longer has, and no others."""

    target_rows: int | None = None
    memory_mb: int | None = None
    dropped_only: bool = False


def plan_rewrites(handle: LanceDataset, limits: Limits) -> list[Task]:
    """Groups of fragments worth rewriting. No request. The same plan on the same version. None while an index lies in the folder
    of another line: ``is_held_up``.

    Lance plans for what is small or has deleted rows. A fragment whose columns lie in several files, because a change of the
    schema has given it values, is rewritten alone."""
    return [] if inherited_indices(handle) else _planned(handle, limits)


def is_held_up(handle: LanceDataset, limits: Limits) -> bool:
    """Whether something is worth rewriting, and indexes have to be built on the table's own line first."""
    return bool(inherited_indices(handle)) and bool(_planned(handle, limits))


def _planned(handle: LanceDataset, limits: Limits) -> list[Task]:
    chosen = options(handle, limits)
    with translated("plan a compaction"):
        if limits.dropped_only:
            tasks, alone = [], field_sets.with_dropped(handle)
        else:
            tasks, alone = list(Compaction.plan(handle, chosen).tasks), field_sets.scattered(handle)
        planned = {fragment.id for task in tasks for fragment in task.fragments}
        return tasks + [
            task_from_json(field_sets.task_document(handle, one, chosen)) for one in alone if one.id not in planned
        ]


def options(handle: LanceDataset, limits: Limits) -> Any:
    found: dict[str, Any] = {"target_rows_per_fragment": limits.target_rows or TARGET_ROWS}
    if limits.memory_mb is not None:
        budget = limits.memory_mb * 1024 * 1024
        fragments = [fragment.metadata for fragment in handle.get_fragments()]
        rows = sum(meta.physical_rows for meta in fragments) or 1
        stored = sum(file.file_size_bytes or 0 for meta in fragments for file in meta.files)
        width = max(1, _DECODED * stored // rows)
        found["num_threads"] = 1
        found["batch_size"] = int(max(1, min(_BATCH_ROWS_MAX, budget // _BATCHES // width)))
        found["io_buffer_size"] = int(min(_READ_AHEAD_BYTES_MAX, budget // 8))
    return found


def rewrite(task: Task, handle: LanceDataset, meter: Meter | None = None) -> Result:
    """Write the new files of one task. No version names them yet; the result can be carried to another process."""
    checksums.CheckedFiles(handle).check_fragments({fragment.id for fragment in _sources(task)})
    with translated("rewrite fragments"), metered(handle, meter, "data"):
        with noticed():
            result: Result = task.execute(handle)
        check_rewritten(handle, result.original_fragments, result.new_fragments)
    return result


def still_there(result: Result, now: LanceDataset) -> bool:
    """Whether every fragment that a rewrite replaces is unchanged in ``now``: else its commit would be refused, and leave
    the version that reserves numbers behind."""
    current = {fragment.fragment_id: describe(fragment.metadata) for fragment in now.get_fragments()}
    return all(current.get(old.id) == describe(old) for old in result.original_fragments)


def index_signature(handle: LanceDataset) -> frozenset[tuple[str, str]]:
    """Which index segments there are. A rewrite knows those of its own base only."""
    return frozenset(
        (index.name, str(segment.uuid)) for index in handle.describe_indices() for segment in index.segments
    )


def _sources(work: Task | Result) -> list[Any]:
    found: list[Any] = work.fragments if isinstance(work, _Task) else work.original_fragments
    return found


def source_bytes(work: Task | Result) -> int:
    return sum(file.file_size_bytes or 0 for fragment in _sources(work) for file in fragment.files)


def source_rows(work: Task | Result) -> int:
    return sum(fragment.physical_rows - fragment.num_deletions for fragment in _sources(work))


def source_count(work: Task | Result) -> int:
    return len(_sources(work))


def commit_rewrite(
    tables: Tables, ref: TableRef, handle: LanceDataset, result: Result, op: str, meter: Meter | None = None
) -> LanceDataset:
    """Commit one rewrite on a handle in which its fragments are ``still_there``, or raise ``NotLanded`` or ``CommitUnknown``. Even one that did not land may have reserved numbers
    in a version of its own, which stands above the pin then."""
    if inherited_indices(handle):
        raise NotLanded("an index lies in the folder of another line")
    moving = own_handle(handle)  # Lance moves the handle that it commits on
    with metered(handle, meter, "versions"):
        try:
            with panics_raised():
                Compaction.commit(moving, [result])
        except Exception as error:
            kind = NotLanded if classify(error).surely_not_landed else CommitUnknown
            raise kind(brief(error)) from error
    # A fresh handle: the one that moved keeps what it cached before.
    landed = tables.open(ref, moving.version, meter)
    reserved = (at_version(handle, version) for version in range(handle.version + 1, landed.version))
    checksums.note_rewrite(op, result.new_fragments, [*reserved, landed])
    return landed


# --- carrying work elsewhere --------------------------------------------------------------------------------------------


def task_to_json(task: Task) -> str:
    text: str = task.json()
    return text


def task_from_json(text: str) -> Task:
    task: Task = _Task.from_json(text)
    return task


def result_to_json(result: Result) -> str:
    text: str = result.json()
    return text


def result_from_json(text: str) -> Result:
    result: Result = _Result.from_json(text)
    return result
