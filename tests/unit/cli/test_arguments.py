"""Arguments into values, and values into text: what needs no graph."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.cli.app import as_options
from omnigraph.cli.call import Usage, storage_options
from omnigraph.cli.checks import credentials_source
from omnigraph.cli.render import bytes_text, clean, count_text, duration_text, show
from omnigraph.cli.table_arguments import table_argument
from omnigraph.cli.values import as_json_value, as_text


@pytest.mark.parametrize(
    ("given_", "wanted"),
    [
        ("Person=people.parquet", ("Person", "people.parquet", {})),
        ("Follows=f.csv:from=src,to=dst", ("Follows", "f.csv", {"from": "src", "to": "dst"})),
        ("Person=s3://bucket/a=1/p.csv", ("Person", "s3://bucket/a=1/p.csv", {})),
        ("Person=s3://bucket/p.csv:name=full name", ("Person", "s3://bucket/p.csv", {"name": "full name"})),
        ("Person=a:b.csv", ("Person", "a:b.csv", {})),
        ("Person=part-*.csv:name=n", ("Person", "part-*.csv", {"name": "n"})),
        ("Follows=f.csv:from=src,to=dst,-note", ("Follows", "f.csv", {"from": "src", "to": "dst"}, ("note",))),
        ("Person=p.csv:-the note", ("Person", "p.csv", {}, ("the note",))),
    ],
)
def test_a_table_argument_is_type_path_and_columns(given_: str, wanted: tuple[Any, ...]) -> None:
    assert table_argument("--node", given_) == (*wanted, ())[:4]


@pytest.mark.parametrize("given_", ["Person", "=x.csv", "Person=", "Person=:name=n", "P=f.csv:a=x,a=y"])
def test_a_malformed_table_argument_is_a_usage_error(given_: str) -> None:
    with pytest.raises(Usage):
        table_argument("--node", given_)


def test_storage_options_are_read_and_their_values_are_never_shown() -> None:
    options = storage_options(["AWS_Region=eu", "aws_secret_access_key=tops=ecret"])
    assert options is not None
    assert options["aws_region"] == "eu"
    assert options["aws_secret_access_key"] == "tops=ecret"
    assert "tops=ecret" not in repr(options)
    with pytest.raises(Usage) as caught:
        storage_options(["hunter2hunter2"])
    assert "hunter2" not in str(caught.value) + caught.value.hint
    with pytest.raises(Usage):
        storage_options(["a=1", "A=2"])


def test_hints_speak_the_language_of_the_command_line() -> None:
    assert as_options('load with on_bad_row="quarantine", or mode="merge"') == (
        "load with --on-bad-row quarantine, or --mode merge"
    )


@given(st.text())
def test_text_from_data_cannot_drive_a_terminal(text: str) -> None:
    shown = clean(text)
    assert shown.isprintable()
    if text.isprintable():
        assert shown == text


def test_control_characters_are_shown_as_escapes() -> None:
    assert clean("a\x1b[31mb\nc\u202ed") == "a\\x1b[31mb\\nc\\u202ed"


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.just(dt.UTC))
    | st.decimals(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_every_value_of_a_query_is_json_and_a_cell(value: object) -> None:
    json.dumps(as_json_value(value), allow_nan=False)
    assert show(as_text(value)).isprintable()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (dt.datetime(2024, 1, 2, 3, 4, 5, 600_000, dt.UTC), "2024-01-02T03:04:05.600Z"),
        (dt.datetime(2024, 1, 2, 3, 4, 5, 600_001, dt.UTC), "2024-01-02T03:04:05.600001Z"),
        (dt.date(2024, 1, 2), "2024-01-02"),
        (Decimal("1.50"), "1.50"),
        (b"abc", "base64:YWJj"),
        (True, "true"),
        (None, ""),
        ([1, None], "[1, null]"),
    ],
)
def test_values_have_one_text_each(value: object, text: str) -> None:
    assert as_text(value) == text


def test_sizes_durations_and_counts_read_well() -> None:
    assert [bytes_text(n) for n in (0, 1023, 1536, 3 << 30, 5 << 50)] == [
        "0 B", "1023 B", "1.5 KiB", "3.0 GiB", "5120.0 TiB",
    ]  # fmt: skip
    assert [duration_text(s) for s in (-1, 0.4, 59, 61, 7200, 90_000)] == ["0 s", "0 s", "59 s", "1 min", "2 h", "1 d"]
    assert [count_text(n, "node") for n in (0, 1, 1234)] == ["0 nodes", "1 node", "1,234 nodes"]


def test_the_source_of_credentials_is_named_and_nothing_of_them(tmp_path: object) -> None:
    nowhere = {"HOME": str(tmp_path)}
    assert credentials_source({}, nowhere) is None
    assert (
        credentials_source({}, {**nowhere, "AWS_ACCESS_KEY_ID": "AKIASECRET"}) == "the environment (AWS_ACCESS_KEY_ID)"
    )
    assert credentials_source({"aws_access_key_id": "AKIASECRET"}, nowhere) == "the storage options"
    assert "not signed" in str(credentials_source({"aws_skip_signature": "true"}, nowhere))
