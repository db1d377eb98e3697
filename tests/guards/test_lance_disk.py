"""What Lance does and does not do on a local disk, seen in its system calls.

``omnigraph.table.new_file_checks`` exists because of the first; when one of these fails after an upgrade, look there, and at what the
manual says about power cuts.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.table.blob import BLOB_MARK, as_stored, stored_schema
from omnigraph.table.files import data_file_name, transaction_file, version_file, version_files
from omnigraph.table.new_file_checks import BLOB_INLINE_MAX
from omnigraph.testing.calls import Call, CallWatch, give_notice
from omnigraph.testing.children import Child
from tests.guards.substrate import append, commit, create, write

Say = Callable[[object], None]


def stage(say: Say, uri: str) -> None:
    give_notice()
    handle = lance.dataset(uri)
    try:
        [fragment] = write(handle, [f"k{n}" for n in range(100)])
        say(fragment.files[0].file_size_bytes)
    except OSError:
        say("refused")


def commit_one(say: Say, uri: str) -> None:
    give_notice()
    handle = lance.dataset(uri)
    commit(handle, append(handle, ["a"]))
    say("done")


def writes(calls: list[Call]) -> list[Call]:
    return [call for call in calls if call.name == "write"]


def test_lance_reports_success_although_the_last_write_to_a_data_file_failed(tmp_path: Path, watchable: None) -> None:
    uri = str(create(str(tmp_path / "t.lance")).uri)
    with Child(stage, uri) as child, CallWatch(child, uri) as watch:
        [meant] = child.hear_all()
    count = len(writes(watch.calls))
    told = []
    for number in range(1, count + 1):
        with Child(stage, uri) as child:
            with CallWatch(
                child, uri, at=number, among=lambda call: call.name == "write", act=lambda: errno.ENOSPC
            ) as watch:
                told += child.hear_all()
    assert told == ["refused"] * (count - 1) + [meant]
    sizes = [path.stat().st_size for path in (tmp_path / "t.lance" / "data").glob("*.lance")]
    assert len(sizes) == 2 and min(sizes) < max(sizes) == meant


def test_lance_forces_nothing_to_the_disk(tmp_path: Path, watchable: None) -> None:
    uri = str(create(str(tmp_path / "t.lance")).uri)
    with Child(commit_one, uri) as child, CallWatch(child, uri) as watch:
        assert child.hear_all() == ["done"]
    assert len(watch.calls) > 10 and all(call.changes for call in watch.calls)


@pytest.mark.parametrize(("size", "beside"), [(BLOB_INLINE_MAX, 0), (BLOB_INLINE_MAX + 1, BLOB_INLINE_MAX + 1)])
def test_blobs_above_a_bound_lie_beside_the_data_file_at_their_size(tmp_path: Path, size: int, beside: int) -> None:
    schema = pa.schema([pa.field("id", pa.string()), pa.field("data", pa.large_binary(), metadata=BLOB_MARK)])
    handle = lance.LanceDataset.commit(
        str(tmp_path / "t.lance"), lance.LanceOperation.Overwrite(stored_schema(schema), [])
    )
    table = as_stored(pa.table({"id": ["a"], "data": [b"x" * size]}, schema=schema), handle.schema)
    lance.fragment.write_fragments(table, handle, mode="append")
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.blob")) == beside


def test_a_data_file_keeps_its_name_where_it_is_read_without_making_a_class(tmp_path: Path) -> None:
    handle = create(str(tmp_path / "t"))
    [fragment] = commit(handle, append(handle, ["a"])).get_fragments()
    [file] = fragment.metadata.files
    assert data_file_name(file) == str(file.path)
    assert data_file_name(lance.fragment.DataFile("x.lance", [0])) == "x.lance"


def test_the_transaction_that_a_manifest_names_is_found_by_its_uuid(tmp_path: Path) -> None:
    handle = create(str(tmp_path / "t"))
    landed = commit(handle, append(handle, ["b"]))
    stored = (tmp_path / "t" / version_file(landed)).read_bytes()
    _, named = version_files(landed)
    uuid = named.removeprefix("_transactions/1-").removesuffix(".txn")
    assert transaction_file(landed, stored, uuid) == named
    # Another uuid is not believed: the manifest's own name counts.
    assert transaction_file(landed, stored, "0" * len(uuid)) == named
