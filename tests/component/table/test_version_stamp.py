"""What a version file says of the transaction that has made it, held against what Lance says."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.core.errors import Corruption
from omnigraph.core.meter import Meter
from omnigraph.store import open_store
from omnigraph.table import dataset
from omnigraph.table.dataset import TableRef, Tables
from omnigraph.table.message import fields
from omnigraph.table.version_list import version_path
from omnigraph.table.version_stamp import stamp_in

LINE = TableRef("t.lance")
PROPERTIES = {"omnigraph:op": "01", "omnigraph:counts": '[{"inserted":1}]', "empty": ""}


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(open_store(str(tmp_path)))


@pytest.fixture
def versions(tables: Tables, tmp_path: Path) -> int:
    """A table with versions of several kinds: made, appended to, deleted from, and made anew. Returns the last."""
    place = str(tmp_path / "t.lance")
    rows = pa.table({"id": ["a", "b"]})
    lance.write_dataset(rows, place, enable_v2_manifest_paths=True)
    handle = lance.dataset(place)
    fragments = lance.fragment.write_fragments(rows, place, schema=rows.schema)
    made = lance.Transaction(handle.version, lance.LanceOperation.Append(fragments))
    made.transaction_properties = PROPERTIES
    handle = lance.LanceDataset.commit(handle, made)
    handle.delete("id = 'a'")
    lance.write_dataset(rows, place, mode="overwrite")
    return lance.dataset(place).version


def stored(tables: Tables, version: int) -> bytes:
    data = tables.store.get(version_path(LINE, version))
    assert data is not None
    return data


def test_each_version_file_names_the_transaction_that_lance_names(tables: Tables, versions: int) -> None:
    for version in range(1, versions + 1):
        meter = Meter()
        found = tables.stamp(LINE, version, meter)
        assert found == stamp_in(stored(tables, version)) and found is not None
        assert meter.snapshot().requests == 1
        told = tables.transaction_at(LINE, tables.open(LINE, version), version)
        assert told is not None and (found.uuid, found.properties) == (told.uuid, told.properties)
    appended = tables.stamp(LINE, 2)
    assert appended is not None and appended.properties == PROPERTIES
    assert versions == 4


def test_a_version_that_is_not_there_has_no_stamp(tables: Tables, versions: int) -> None:
    assert tables.stamp(LINE, versions + 1) is None


def test_a_file_that_is_cut_anywhere_or_is_no_version_says_nothing(tables: Tables, versions: int) -> None:
    whole = stored(tables, 2)
    assert all(stamp_in(whole[:end]) is None for end in range(len(whole)))
    assert all(stamp_in(junk + whole[-16:]) is None for junk in (b"", b"\xff" * 400, bytes(400)))


def test_a_message_with_a_field_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(Corruption, match="unknown kind"):
        list(fields(bytes([0x0B])))


def test_where_the_file_does_not_tell_lance_is_asked(
    tables: Tables, versions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = tables.stamp(LINE, 2)
    monkeypatch.setattr(dataset, "stamp_in", lambda stored: None)
    assert tables.stamp(LINE, 2) == expected
    assert not tables.held(LINE, 2)
