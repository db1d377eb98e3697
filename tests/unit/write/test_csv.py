"""CSV files and decimals as people have them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import CsvOptions, TableFile
from omnigraph.core.errors import DataInvalid, InvalidInput
from omnigraph.write.sources.input import Input, read_source
from tests.unit.write.support import catalog_of

CATALOG = catalog_of(
    """
node Person { name: String @key  age: I32?  born: Date?  seen: DateTime?  score: F64?  small: F32? }
edge Knows: Person -> Person { since: I32? }
"""
)


def read(source: Any, **how: Any) -> Input:
    return read_source(source, CATALOG, **how)


def people(path: Path, text: bytes | str, csv: CsvOptions | None = None, **more: Any) -> list[dict[str, Any]]:
    file = path / "p.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    given = read({"Person": TableFile(file, csv=csv or CsvOptions(), **more)})
    assert not given.malformed, given.malformed.shown
    return [
        {name: value for name, value in row.items() if value is not None and name != "id"}
        for row in given.tables["node:Person"].rows.to_pylist()
    ]


def test_delimiter_quote_encoding_and_texts_of_null(tmp_path: Path) -> None:
    options = CsvOptions(delimiter=";", quote="'", encoding="latin-1", nulls=["NA", "-"])
    text = "name;age;score\n'Jürgen; der Ältere';NA;1.5\n'NA';7;-\n".encode("latin-1")
    assert people(tmp_path, text, options) == [{"name": "Jürgen; der Ältere", "score": 1.5}, {"name": "NA", "age": 7}]


def test_a_file_in_utf_16_and_one_with_tabs_by_its_name(tmp_path: Path) -> None:
    assert people(tmp_path, "name,age\nÅsa,3\n".encode("utf-16"), CsvOptions(encoding="utf-16")) == [
        {"name": "Åsa", "age": 3}
    ]
    (tmp_path / "p.tsv").write_text("name\tage\nb\t4\n")
    assert read({"Person": tmp_path / "p.tsv"}).tables["node:Person"].rows["age"].to_pylist() == [4]


def test_without_a_header_columns_are_counted_and_mapped(tmp_path: Path) -> None:
    found = people(tmp_path, "7,a,x\n8,b,y\n", CsvOptions(header=False), columns={"name": "2", "age": "1"}, skip=["3"])
    assert found == [{"name": "a", "age": 7}, {"name": "b", "age": 8}]


def test_a_column_that_is_skipped_is_not_missed_and_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert people(tmp_path, "name,note\na,hello\n", skip=["note"]) == [{"name": "a"}]
    with pytest.raises(DataInvalid, match=r"no column .notes"):
        people(tmp_path, "name,note\na,hello\n", skip=["notes", "note"])


def test_dates_and_times_in_formats_of_the_file(tmp_path: Path) -> None:
    options = CsvOptions(formats={"born": "%d.%m.%Y", "last": "%d/%m/%y %H:%M %z"})
    found = people(
        tmp_path, "name,born,last\na,29.02.2024,01/03/24 00:30 +0200\nb,,\n", options, columns={"seen": "last"}
    )
    seen = dt.datetime(2024, 2, 29, 22, 30, tzinfo=dt.UTC)
    assert found == [{"name": "a", "born": dt.date(2024, 2, 29), "seen": seen}, {"name": "b"}]
    stamps = people(tmp_path, "name,seen\na,1709208000001\n", CsvOptions(formats={"seen": "epoch-ms"}))
    assert stamps[0]["seen"] == dt.datetime(2024, 2, 29, 12, 0, 0, 1000, tzinfo=dt.UTC)


def test_a_text_that_does_not_follow_the_format_is_that_row_s_fault(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("name,born\na,29.02.2024\nb,2024-02-29\nc,29.02.2023\n")
    given = read({"Person": TableFile(tmp_path / "p.csv", csv=CsvOptions(formats={"born": "%d.%m.%Y"}))})
    assert [(one.record, one.code, one.property) for one in given.malformed.shown] == [
        (2, "bad-date", "born"),
        (3, "bad-date", "born"),
    ]
    with pytest.raises(DataInvalid, match="age"):
        read({"Person": TableFile(tmp_path / "p.csv", {"age": "born"}, csv=CsvOptions(formats={"born": "%d"}))})


def test_rows_of_another_length_are_set_aside_as_rows(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text('name,age\na,1\n\nshort\n"two\nlines",2\nlong,3,4\nb,5\nlast\n')
    given = read({"Person": tmp_path / "p.csv"}, keep_rejected=True)
    table = given.tables["node:Person"]
    assert table.rows["name"].to_pylist() == ["a", "two\nlines", "b"]
    assert [table.origin.place(row)[0] for row in range(3)] == [1, 3, 5]
    assert [(one.number, one.record) for one in given.rejected] == [(2, "short"), (4, "long,3,4"), (6, "last")]
    assert given.rejected[1].reasons[0].message == "a row of 3 cells where the file has 2 columns"
    assert given.records == 6


def test_a_complaint_after_a_short_row_names_the_right_row(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("name,age\na,1\nshort\nb,x\n")
    shown = read({"Person": tmp_path / "p.csv"}).malformed.shown
    assert sorted((one.record, one.code) for one in shown) == [(2, "malformed-record"), (3, "wrong-kind")]


@pytest.mark.parametrize(
    "wrong",
    [
        {"delimiter": ""},
        {"delimiter": ";;"},
        {"delimiter": "\n"},
        {"delimiter": 7},
        {"quote": ","},
        {"encoding": "klingon"},
        {"encoding": 5},
        {"nulls": "NA"},
        {"nulls": [1]},
        {"formats": {"born": 1}},
        {"formats": "born"},
        {"header": 1},
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        CsvOptions(**wrong)


# --- decimals -----------------------------------------------------------------------------------------------------------


def decimals(path: Path, name: str, values: list[str | None], kind: pa.DataType, **how: Any) -> Input:
    column = pa.array([None if value is None else Decimal(value) for value in values], kind)
    names = [f"p{i}" for i in range(len(values))]
    pq.write_table(pa.table({"name": names, name: column}), path / "p.parquet")
    return read({"Person": TableFile(path / "p.parquet", **how)})


def test_decimals_are_taken_where_they_come_back_as_they_were(tmp_path: Path) -> None:
    given = decimals(tmp_path, "score", ["1.10", "-0.01", None, "123456789012.34"], pa.decimal128(30, 2))
    assert given.tables["node:Person"].rows["score"].to_pylist() == [1.1, -0.01, None, 123456789012.34]
    whole = decimals(tmp_path, "age", ["12.00", None], pa.decimal128(10, 2))
    assert whole.tables["node:Person"].rows["age"].to_pylist() == [12, None]


def test_decimals_that_would_lose_digits_are_refused_row_by_row(tmp_path: Path) -> None:
    long = decimals(tmp_path, "score", ["1.10", "12345678901234567.89", "9" * 28 + ".99"], pa.decimal128(30, 2))
    assert [(one.record, one.code) for one in long.malformed.shown] == [
        (2, "out-of-range-integer"),
        (3, "out-of-range-integer"),
    ]
    broken = decimals(tmp_path, "age", ["1.50", "2.00", "9999999999.00"], pa.decimal256(40, 2))
    assert sorted(one.record for one in broken.malformed.shown if one.record) == [1, 3]


def test_decimals_are_rounded_on_request_and_the_loss_is_counted(tmp_path: Path) -> None:
    given = decimals(tmp_path, "score", ["1.10", "12345678901234567.89"], pa.decimal128(30, 2), decimals="round")
    assert given.tables["node:Person"].rows["score"].to_pylist() == [1.1, 1.2345678901234568e16]
    assert given.warnings == ("Person.score: decimals were rounded to F64? (1 row)",)
    with pytest.raises(InvalidInput, match="decimals is one of"):
        TableFile("p.parquet", decimals="truncate")  # type: ignore[arg-type]  # a mistake on purpose
