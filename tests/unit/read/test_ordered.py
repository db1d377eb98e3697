"""Lines come out by ascending id whatever fits in memory."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.read.ordered import SCHEMA, is_ascending, ordered_lines

IDS = st.lists(st.text(st.characters(codec="utf-8"), max_size=6), unique=True, max_size=60)


def batches(ids: list[str], rows: int) -> list[pa.RecordBatch]:
    return [
        pa.RecordBatch.from_pylist([{"id": one, "line": f"{one}!\n"} for one in ids[at : at + rows]], schema=SCHEMA)
        for at in range(0, len(ids), rows)
    ]


def lines(ids: list[str], rows: int, held_bytes_max: int) -> list[str]:
    return [
        line for part in ordered_lines(batches(ids, rows), held_bytes_max=held_bytes_max) for line in part.to_pylist()
    ]


@given(ids=IDS, rows=st.integers(1, 20), held=st.sampled_from([1, 200, 1 << 30]))
def test_lines_come_by_the_bytes_of_their_ids(ids: list[str], rows: int, held: int) -> None:
    assert lines(ids, rows, held) == [f"{one}!\n" for one in sorted(ids, key=str.encode)]


def test_runs_of_many_batches_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.read.ordered._RUN_BATCH_BYTES", 300)
    ids = [f"{(k * 7919) % 3001:04d}" for k in range(3000)]
    assert lines(ids, 100, 5000) == [f"{one}!\n" for one in sorted(ids)]


def test_nothing_stays_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    reading = ordered_lines(batches([f"{9999 - k}" for k in range(1000)], 10), held_bytes_max=1000)
    next(reading)
    assert list(tmp_path.iterdir())
    reading.close()  # type: ignore[attr-defined]
    assert not list(tmp_path.iterdir())


def test_order_is_strict() -> None:
    assert is_ascending(pa.array(["a", "b", "ba"]))
    assert is_ascending(pa.array([], pa.utf8()))
    assert not is_ascending(pa.array(["a", "a"]))
    assert not is_ascending(pa.array(["b", "a"]))
    assert is_ascending(pa.array(["\uffff", "\U00010000"]))  # by code point, which is by bytes, not by UTF-16
