"""Every public door through which something is written has a driver in the crash and fault matrices."""

from __future__ import annotations

import inspect

import omnigraph
from omnigraph import graph as graphs
from omnigraph.distributed.staging_txn import StagingTxn
from omnigraph.testing.all_operations import OPERATIONS
from omnigraph.testing.cells import Cell
from omnigraph.testing.content import Content
from omnigraph.write.base.changes import INPUT_MODES

READING = {
    "catalog", "changes", "check", "close", "commit", "commits", "diff", "export", "history", "intents", "outcome", "probe", "recoveries", "snapshot",
    "sql",
    "status", "storage_version", "uri", "verify",
    # plans compute and touch nothing
    "plan_cleanup", "plan_compaction", "plan_schema",
}  # fmt: skip
# Adding only notes files in the record that ``begin`` made.
STAGING_READS = {"add", "add_parts", "base", "branch", "id", "key_of", "replay", "sent", "staged", "table", "task"}

# Functions of the package. Opening is a write that ``recover`` is the driver of: it ends what others left.
READING_FUNCTIONS = {
    "open",
    # Judges files that others have written, at a snapshot: its answer goes to ``load_staged``, which is in the matrix.
    "check_staged", "check_parts",
    "derive_keys", "lint", "listen", "parse_schema",
}  # fmt: skip


def doors() -> set[str]:
    """What the façade offers: a new function or method is a write until it is said here that it reads."""
    found = {name for name in omnigraph.__all__ if inspect.isfunction(getattr(omnigraph, name))} - READING_FUNCTIONS
    for name, _ in inspect.getmembers(graphs.Graph):
        if not name.startswith("_") and name not in READING:
            found |= {f"load:{mode}" for mode in INPUT_MODES} if name == "load" else {name}
    found |= {name for name, _ in inspect.getmembers(StagingTxn) if not name.startswith("_")} - STAGING_READS
    return found


def test_every_write_of_the_project_is_in_the_matrix() -> None:
    covered = {entry for operation in OPERATIONS.values() for entry in operation.entries}
    assert doors() - covered == set(), "register a driver in omnigraph.testing"
    assert covered - doors() == set(), "a driver for something that does not exist"


def test_a_cell_is_named_by_a_text_that_reads_back() -> None:
    for cell in (
        Cell("append", 2, "s3", "7", "answer"),
        Cell("init", 4, "local", "store.create:1", "kill", "*:3~kill"),
    ):
        assert Cell.parse(str(cell)) == cell


def test_a_merged_source_may_be_there_or_not_and_one_that_is_not_merged_has_to_be() -> None:
    judged = OPERATIONS["merge-delete"].judged

    def rows(*names: str) -> tuple[tuple[tuple[str, str], ...], ...]:
        return tuple((("name", name),) for name in names)

    before = Content({"node:T1": rows("a", "d"), "feature node:T1": rows("a", "c")})
    merged = Content({"node:T1": rows("a", "c", "d"), "feature node:T1": rows("a", "c")})
    deleted = Content({"node:T1": rows("a", "c", "d")})
    lost = Content({"node:T1": rows("a", "d")})
    assert judged(before) == before
    assert judged(merged) == judged(deleted) == deleted
    assert judged(lost) not in (judged(before), judged(deleted))
