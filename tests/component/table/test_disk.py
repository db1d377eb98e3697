"""A disk that fails while Lance writes to it: nothing that is not there whole is committed.

Lance itself notices every failed write but the last to each file; see ``tests/guards/test_lance_disk.py``.
"""

from __future__ import annotations

import errno
import itertools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph.core.errors import OmnigraphError, StoreUnavailable
from omnigraph.store import open_store
from omnigraph.table import journal, new_file_checks
from omnigraph.table.blob import BLOB_MARK, READ_BYTES, as_stored, stored_schema
from omnigraph.table.compaction import Limits, plan_rewrites, rewrite
from omnigraph.table.dataset import TableRef, Tables, translated
from omnigraph.table.indices import BTREE, INVERTED, IndexSpec, stage_segment
from omnigraph.table.upsert import stage_delete, stage_update
from omnigraph.testing.calls import Call, CallWatch, give_notice
from omnigraph.testing.children import Child

SCHEMA = pa.schema([
    pa.field("id", pa.string(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
    pa.field("data", pa.large_binary(), True, BLOB_MARK),
])  # fmt: skip
SIZES = [0, 5, 70_000, 80_000, 5_000_000]  # in the data file, in a file that several share, in one of its own
MANY = 12_000  # enough that half of them are deleted by a bitmap
NOTES = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("note", pa.string())])


# --- what is done while the disk fails ----------------------------------------------------------------------------------


def rows(prefix: str, sizes: list[int]) -> pa.Table:
    data = [bytes([n % 251]) * size for n, size in enumerate(sizes)]
    return pa.table({"id": [f"{prefix}{n}" for n in range(len(sizes))], "data": data}, schema=SCHEMA)


def base(uri: str) -> LanceDataset:
    """Three fragments: blobs of each kind, twice, and many rows."""
    handle = LanceDataset.commit(uri, LanceOperation.Overwrite(stored_schema(SCHEMA), []), enable_stable_row_ids=True)
    for part in (rows("a", SIZES), rows("b", SIZES), rows("c", [1] * MANY)):
        staged = write_fragments(as_stored(part, handle.schema), handle)
        handle = LanceDataset.commit(handle, Transaction(handle.version, LanceOperation.Append(staged)))
    return handle


def commit(handle: LanceDataset, transaction: Transaction) -> None:
    LanceDataset.commit(handle, transaction, max_retries=0)


def append(handle: LanceDataset) -> None:
    stored = as_stored(rows("new", SIZES), handle.schema)
    commit(handle, Tables(open_store(str(Path(handle.uri).parent))).stage_append(handle, stored))


def append_stream(handle: LanceDataset) -> None:
    stored = as_stored(rows("new", SIZES), handle.schema)
    reader = pa.RecordBatchReader.from_batches(stored.schema, stored.to_batches(max_chunksize=2))
    commit(handle, Tables(open_store(str(Path(handle.uri).parent))).stage_append(handle, reader, max_rows_per_file=2))


def addresses(fragment: int, offsets: range) -> pa.Array[Any]:
    return pa.array((np.uint64(fragment) << np.uint64(32)) + np.array(offsets, np.uint64))


def update(handle: LanceDataset) -> None:
    gone = addresses(0, range(2))
    commit(handle, stage_update(handle, gone, rows("a", SIZES[:2]), replaces=gone).transaction)


def delete_few(handle: LanceDataset) -> None:
    commit(handle, stage_delete(handle, addresses(2, range(3))).transaction)


def delete_many(handle: LanceDataset) -> None:
    commit(handle, stage_delete(handle, addresses(2, range(0, MANY, 2))).transaction)


def compact(handle: LanceDataset) -> None:
    results = [rewrite(task, handle) for task in plan_rewrites(handle, Limits())]
    lance.optimize.Compaction.commit(handle, results)


def index(handle: LanceDataset) -> None:
    commit(handle, Transaction(handle.version, LanceOperation.CreateIndex(
        [stage_segment(handle, IndexSpec("id", kind), [0, 2]) for kind in (BTREE,)], []
    )))  # fmt: skip


def index_words(handle: LanceDataset) -> None:
    commit(handle, Transaction(handle.version, LanceOperation.CreateIndex(
        [stage_segment(handle, IndexSpec("id", INVERTED), [0])], []
    )))  # fmt: skip


@dataclass(frozen=True)
class Work:
    act: Callable[[LanceDataset], None]
    refused_min: int  # writes whose failure must be told: fewer would mean that the test looks elsewhere
    also: tuple[str, ...] = ()  # what may be said beside the truth


WORK = {
    "append": Work(append, 4), "append-stream": Work(append_stream, 6), "update": Work(update, 3),
    "delete-few": Work(delete_few, 1), "delete-many": Work(delete_many, 1), "compact": Work(compact, 5),
    "index": Work(index, 3), "index-words": Work(index_words, 3, ("OmnigraphError",)),  # Lance panics over what it has just written
}  # fmt: skip


def run(say: Callable[[object], None], name: str, uri: str) -> None:
    give_notice()
    try:
        WORK[name].act(lance.dataset(uri))
        say("done")
    except (OmnigraphError, OSError) as error:
        say(type(error).__name__)


def written(call: Call) -> bool:
    """What a write leaves behind, apart from the manifest: that one Lance writes as it should."""
    return call.name == "write" and call.path.startswith(("data/", "_deletions/", "_indices/"))


def first_and_last(paths: list[str]) -> list[int]:
    """For each file the ordinals of its first write and its last; a large one has hundreds."""
    last = {path: number for number, path in enumerate(paths, 1)}
    first = {path: number for number, path in reversed(list(enumerate(paths, 1)))}
    return sorted({*first.values(), *last.values()})


def held(uri: str) -> dict[str, bytes]:
    table = lance.dataset(uri).to_table(**READ_BYTES)
    return dict(zip(table["id"].to_pylist(), table["data"].to_pylist(), strict=True))


@pytest.mark.usefixtures("watchable")
@pytest.mark.fault
@pytest.mark.parametrize("name", sorted(WORK))
def test_whichever_write_of_a_file_fails_what_is_committed_reads(tmp_path: Path, name: str) -> None:
    base(str(tmp_path / "base"))
    uri = str(tmp_path / "table")
    before = held(str(tmp_path / "base"))
    shutil.copytree(tmp_path / "base", uri)
    with Child(run, name, uri) as child, CallWatch(child, uri) as watch:
        assert child.hear_all() == ["done"]
    after = held(uri)
    shutil.rmtree(uri)
    met = 0
    for ordinal in first_and_last([call.path for call in watch.calls if written(call)]):
        shutil.copytree(tmp_path / "base", uri)
        with Child(run, name, uri) as child:
            with CallWatch(child, uri, at=ordinal, among=written, act=lambda: errno.ENOSPC) as watch:
                [said] = child.hear_all()
        assert said in ("done", "StoreUnavailable", *WORK[name].also)
        assert held(uri) == (after if said == "done" else before)
        now = lance.dataset(uri)
        assert new_file_checks.damaged(now) == {}
        for one in ("a0", "c1", "new0"):
            now.to_table(columns=["id"], filter=f"id = '{one}'")  # through the index, if there is one
        shutil.rmtree(uri)
        met += watch.reached and said != "done"
    assert met >= WORK[name].refused_min


# --- what is looked at --------------------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    """The file without its last byte."""
    path.write_bytes(path.read_bytes()[:-1])


def test_a_data_file_that_is_short_or_gone_is_named(tmp_path: Path) -> None:
    handle = base(str(tmp_path / "t"))
    fragment = handle.get_fragments()[2].metadata
    new_file_checks.check_fragments(handle.uri, [fragment])
    path = tmp_path / "t" / "data" / fragment.files[0].path
    cut(path)
    with pytest.raises(StoreUnavailable, match=rf"{path.stat().st_size} of \d+ bytes are there: path=.*{path.name}"):
        new_file_checks.check_fragments(handle.uri, [fragment])
    path.unlink()
    with pytest.raises(StoreUnavailable, match="it is not there"):
        new_file_checks.check_fragments(handle.uri, [fragment])
    assert new_file_checks.damaged(handle) == {2: f"data/{path.name}: it is not there"}


@pytest.mark.parametrize("offsets", [range(3), range(0, MANY, 2), range(MANY - 1)])
def test_a_deletion_file_that_is_cut_anywhere_is_named(tmp_path: Path, offsets: range) -> None:
    handle = base(str(tmp_path / "t"))
    kept = new_file_checks.delete_rows(handle, 2, offsets)
    assert kept is not None and kept.deletion_file is not None
    path = tmp_path / "t" / kept.deletion_file.path(2)
    whole = path.read_bytes()
    for length in {0, 1, 7, 8, len(whole) // 2, len(whole) - 1}:
        path.write_bytes(whole[:length])
        with pytest.raises(StoreUnavailable, match="not written whole"):
            new_file_checks.check_fragments(handle.uri, [kept])
    path.write_bytes(whole)
    new_file_checks.check_fragments(handle.uri, [kept])


def test_a_damaged_data_file_is_not_blamed_on_the_deletion_that_comes_to_it(tmp_path: Path) -> None:
    handle = base(str(tmp_path / "t"))
    cut(tmp_path / "t" / "data" / handle.get_fragments()[2].metadata.files[0].path)
    assert new_file_checks.delete_rows(handle, 2, range(3)) is not None


class PanicException(BaseException):
    """As Lance's own is called, and is no ``Exception`` either."""


def test_a_panic_of_lance_is_an_error_and_an_interrupt_is_not() -> None:
    with pytest.raises(OmnigraphError, match="read it failed: Lance panicked: unwrap"), translated("read it"):
        raise PanicException("unwrap")
    with pytest.raises(KeyboardInterrupt), translated("read it"):
        raise KeyboardInterrupt


def test_a_bitmap_of_runs_is_read_as_well() -> None:
    # Two containers: rows 10 to 19 as a run, and three single ones of the next 65,536 as an array.
    runs = bytes.fromhex("3b300100 01 0000 0900 0100 0200 0100 0a00 0900 0100 0200 0300")
    assert new_file_checks._rows_in_bitmap(runs) == 13
    with pytest.raises(ValueError, match="20 of"):
        new_file_checks._rows_in_bitmap(runs[:20])


def test_blobs_beside_a_data_file_that_are_cut_are_noticed_when_they_are_rewritten(tmp_path: Path) -> None:
    handle = base(str(tmp_path / "t"))
    old = [fragment.metadata for fragment in handle.get_fragments()]
    [task, *_] = plan_rewrites(handle, Limits())
    new: list[FragmentMetadata] = task.execute(handle).new_fragments
    new_file_checks.check_rewritten(handle, old, new)
    beside = sorted((tmp_path / "t" / "data" / new[0].files[0].path.removesuffix(".lance")).iterdir())
    cut(beside[0])
    with pytest.raises(StoreUnavailable, match="bytes of blobs are there"):
        new_file_checks.check_rewritten(handle, old, new)


def test_a_file_on_an_object_store_is_whole_or_absent_and_not_looked_at(tmp_path: Path) -> None:
    handle = base(str(tmp_path / "t"))
    new_file_checks.check_fragments("s3://bucket/nowhere", [fragment.metadata for fragment in handle.get_fragments()])


# --- the journal, which Lance writes and commits in one call ------------------------------------------------------------


def note(number: int) -> pa.Table:
    return pa.table({"id": [f"n{number}"], "note": ["x"]}, schema=NOTES)


def test_a_row_of_a_journal_whose_file_is_not_whole_is_written_again(tmp_path: Path) -> None:
    tables, ref = Tables(open_store(str(tmp_path))), TableRef("j.lance")
    for number in range(2):
        assert journal.insert_once(tables, ref, NOTES, "id", note(number))
    last = lance.dataset(tables.uri(ref)).get_fragments()[-1].metadata.files[0].path
    cut(tmp_path / "j.lance" / "data" / last)
    assert noted(tables, ref) == ["n0"], "what is whole can be read meanwhile"
    assert journal.insert_once(tables, ref, NOTES, "id", note(1))
    assert not journal.insert_once(tables, ref, NOTES, "id", note(0))
    assert noted(tables, ref) == ["n0", "n1"]


def noted(tables: Tables, ref: TableRef) -> list[str]:
    found = journal.read_all(tables, ref)
    assert found is not None
    return sorted(found["id"].to_pylist())


def insert(say: Callable[[object], None], root: str) -> None:
    give_notice()
    try:
        journal.insert_once(Tables(open_store(root)), TableRef("j.lance"), NOTES, "id", note(2))
        say("done")
    except OmnigraphError as error:
        say(type(error).__name__)


@pytest.mark.usefixtures("watchable")
@pytest.mark.fault
def test_a_journal_never_says_that_a_row_is_there_that_is_not(tmp_path: Path) -> None:
    told = set()
    for ordinal in itertools.count(1):
        root = tmp_path / str(ordinal)
        tables, ref = Tables(open_store(str(root))), TableRef("j.lance")
        assert journal.insert_once(tables, ref, NOTES, "id", note(1))
        with Child(insert, str(root)) as child:
            with CallWatch(child, str(root), at=ordinal, act=lambda: errno.EIO) as watch:
                [said] = child.hear_all()
        told.add(said)
        assert said != "done" or noted(tables, ref) == ["n1", "n2"]
        journal.insert_once(tables, ref, NOTES, "id", note(2))
        assert noted(tables, ref) == ["n1", "n2"]
        if not watch.reached:
            break
    assert told == {"done", "StoreUnavailable"}
