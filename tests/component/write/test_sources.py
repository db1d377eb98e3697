"""Sources on an object store are read like files; the graph may lie elsewhere."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.store import open_store

SCHEMA = "node P { k: String @key } edge E: P -> P"
LINES = [{"type": "P", "data": {"k": "a"}}, {"edge": "E", "from": "a", "to": "a"}]


def test_records_and_tables_are_read_from_a_store(s3_root: str, tmp_path: Path) -> None:
    text = "\n".join(json.dumps(line) for line in LINES).encode()
    pq.write_table(pa.table({"k": ["b", "c"]}), tmp_path / "p.parquet")
    landing = open_store(f"{s3_root}/landing")
    landing.create("x.jsonl", text)
    landing.create("deep/x.jsonl.gz", gzip.compress(text))
    landing.create("p.parquet", (tmp_path / "p.parquet").read_bytes())
    landing.create("e.csv", b"from,to\nb,c\n")
    for uri in (str(tmp_path / "graph"), f"{s3_root}/graph"):
        with og.init(uri, SCHEMA) as graph:
            assert graph.load(f"{s3_root}/landing/x.jsonl", mode="append").affected_nodes == 1
            assert graph.load(f"{s3_root}/landing/deep/x.jsonl.gz", mode="overwrite").affected_nodes >= 1
            tables = {"P": f"{s3_root}/landing/p.parquet", "E": f"{s3_root}/landing/e.csv"}
            graph.load(tables, mode="append")
            assert sorted(graph.snapshot().to_arrow("P")["id"].to_pylist()) == ["a", "b", "c"]
            with pytest.raises(og.errors.NotFound):
                graph.load(f"{s3_root}/landing/nowhere.jsonl", mode="append")


def test_a_file_that_may_not_be_read_is_named_with_the_right_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "p.jsonl"
    secret.write_text('{"type": "P", "data": {"k": "a"}}')
    opened = Path.open

    def refused(path: Path, *args: Any, **more: Any) -> Any:
        if path == secret:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *args, **more)

    with og.init(tmp_path / "graph", "node P { k: String @key }") as graph:
        monkeypatch.setattr(Path, "open", refused)
        with pytest.raises(og.errors.StoreRefused, match="p.jsonl") as caught:
            graph.load(secret, mode="append")
        assert "right to read" in caught.value.hint


@pytest.mark.parametrize("listening", [False, True])
def test_a_stream_that_fails_while_it_is_written_fails_with_its_own_error(tmp_path: Path, listening: bool) -> None:
    """Lance draws the rows of an append and passes on no more than the text of an error."""
    (tmp_path / "p.csv").write_text('k,t\na,"one"\nb,"two, thr')
    with og.init(tmp_path / "graph", "node P { k: String @key t: String? }") as graph:
        with pytest.raises(og.errors.DataInvalid, match="p.csv: .*ends inside a quoted value") as caught:
            graph.load({"P": tmp_path / "p.csv"}, mode="append", progress=(lambda event: None) if listening else None)
        assert "Lance" not in caught.value.message
        assert graph.snapshot().count("P") == 0


@pytest.mark.parametrize("name", ["p.csv", "p.csv.gz"])
def test_a_file_that_ends_inside_quotes_was_not_written_to_its_end(tmp_path: Path, name: str) -> None:
    def load(text: str) -> og.Receipt:
        data = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return graph.load({"P": str(tmp_path / name)}, mode="merge")

    with og.init(tmp_path / "graph", "node P { k: String @key t: String? }") as graph:
        with pytest.raises(og.errors.DataInvalid, match="p.csv.*ends inside a quoted value"):
            load('k,t\na,"one"\nb,"two, thr')
        with pytest.raises(og.errors.DataInvalid, match="p.csv"):
            load('k,t\na,"one"\nb,"two\nc,three\n')
        assert graph.snapshot().count("P") == 0
        # An odd number of quotes is right where they stand inside values.
        load('k,t\na,5" wide\nb,"say ""hi"""\nc,"over\ntwo lines"\n')
        assert graph.snapshot().to_arrow("P")["t"].to_pylist() == ['5" wide', 'say "hi"', "over\ntwo lines"]
