"""Predicates select the same rows in memory and in storage, and nothing a user writes becomes syntax."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance import LanceDataset

from omnigraph.core.errors import InvalidInput
from omnigraph.table.predicate import (
    Among,
    And,
    Compare,
    Contains,
    IsNull,
    Not,
    Or,
    Predicate,
    columns_of,
    mask,
    quote_name,
    quote_value,
    to_filter,
)

HOSTILE = [
    "it's",
    "'",
    "''",
    "' OR '1'='1",
    "a\\'",
    "\\",
    '"',
    "`",
    "new\nline",
    "\r\n\t",
    "nul\0in",
    "--",
    "/* x */",
    "; DROP TABLE t",
    "%_",
    "ünïcödé ☃ 🏔 \u202e",
    "e\u0301",
    "",
    " ",
    "NULL",
    "true",
    "{}",
    "$1",
    "?",
    ":x",
    "\ufffe",
    "x" * 1_000_000,
]
DAYS = [dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31), None]
TIMES = [dt.datetime(1960, 1, 2, 3, 4, 5, 678901, dt.UTC), dt.datetime(2024, 2, 29, tzinfo=dt.UTC), None]


def table() -> pa.Table:
    rows = len(HOSTILE)
    return pa.table(
        {
            "text": pa.array(HOSTILE, pa.string()),
            "i32": pa.array([(k % 7) - 3 if k % 5 else None for k in range(rows)], pa.int32()),
            "i64": pa.array([2**63 - 1, -(2**63), *range(rows - 2)], pa.int64()),
            "u32": pa.array([2**32 - 1, *range(rows - 1)], pa.uint32()),
            "u64": pa.array([2**64 - 1, None, *range(rows - 2)], pa.uint64()),
            "f32": pa.array([0.1, None, *[k / 3 for k in range(rows - 2)]], pa.float32()),
            "f64": pa.array([0.1, 1e300, 5e-324, -0.0, *[k / 3 for k in range(rows - 4)]], pa.float64()),
            "flag": pa.array([[True, False, None][k % 3] for k in range(rows)], pa.bool_()),
            "day": pa.array([DAYS[k % 4] for k in range(rows)], pa.date32()),
            "at": pa.array([TIMES[k % 3] for k in range(rows)], pa.timestamp("us", "UTC")),
            "tags": pa.array([[["a", "b"], [], None, ["b", None, "b"]][k % 4] for k in range(rows)]),
            "Mixed Case": pa.array(range(rows), pa.int64()),
            "select": pa.array(range(rows), pa.int64()),
            "it's": pa.array(range(rows), pa.int64()),
        }
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[LanceDataset, pa.Table]:
    rows = table().append_column("place", pa.array(range(len(HOSTILE))))
    return lance.write_dataset(rows, str(tmp_path_factory.mktemp("p") / "t.lance")), rows


def selected(stored: tuple[LanceDataset, pa.Table], predicate: Predicate) -> list[int]:
    """The rows that storage selects; fails unless memory selects the same."""
    handle, rows = stored
    in_storage = sorted(handle.to_table(columns=["place"], filter=to_filter(predicate))["place"].to_pylist())
    in_memory = rows.filter(mask(predicate, rows))["place"].to_pylist()
    assert in_storage == in_memory
    return in_memory


@pytest.mark.parametrize("value", HOSTILE, ids=lambda text: ascii(text[:12]))
def test_a_hostile_text_selects_exactly_its_own_row(stored: tuple[LanceDataset, pa.Table], value: str) -> None:
    place = HOSTILE.index(value)
    assert selected(stored, Compare("text", "==", pa.scalar(value))) == [place]
    assert selected(stored, Among("text", pa.array([value, "no such text"]))) == [place]
    others = [k for k in range(len(HOSTILE)) if k != place]
    assert selected(stored, Not(Compare("text", "==", pa.scalar(value)))) == others


@pytest.mark.parametrize("op", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("name", ["i32", "i64", "u32", "u64", "f32", "f64", "flag", "day", "at"])
def test_every_value_of_every_kind_compares_alike_in_memory_and_in_storage(
    stored: tuple[LanceDataset, pa.Table], name: str, op: str
) -> None:
    column = stored[1].column(name).combine_chunks()
    for value in column.unique().drop_null():
        found = selected(stored, Compare(name, op, value))
        if op == "==":
            assert found == [k for k, one in enumerate(column.to_pylist()) if one == value.as_py()]


@pytest.mark.parametrize("name", ["Mixed Case", "select", "it's"])
def test_a_column_name_is_a_name_whatever_it_looks_like(stored: tuple[LanceDataset, pa.Table], name: str) -> None:
    assert selected(stored, Compare(name, "==", pa.scalar(3))) == [3]


@pytest.mark.parametrize("name", ["", "a`b", "a.b", "nul\0", "new\nline", "`", "x` = 1 OR `x"])
def test_a_column_name_that_lance_cannot_quote_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        quote_name(name)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), None, b"x", [1]])
def test_a_value_that_is_no_literal_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput):
        quote_value(pa.scalar(value))


def test_null_selects_nothing_also_under_a_not(stored: tuple[LanceDataset, pa.Table]) -> None:
    unknown = Compare("i32", "==", pa.scalar(None, pa.int32()))
    assert selected(stored, unknown) == []
    assert selected(stored, Not(unknown)) == []
    known = [k for k in range(len(HOSTILE)) if k % 5]
    assert selected(stored, Or((unknown, Not(IsNull("i32"))))) == known
    assert selected(stored, And((unknown, Not(IsNull("i32"))))) == []
    assert selected(stored, IsNull("i32")) == [k for k in range(len(HOSTILE)) if k % 5 == 0]
    assert selected(stored, Not(Among("i32", pa.array([1, None], pa.int32())))) == [k for k in known if k % 7 != 4]


def test_empty_connectives_are_neutral(stored: tuple[LanceDataset, pa.Table]) -> None:
    assert selected(stored, And(())) == list(range(len(HOSTILE)))
    assert selected(stored, Or(())) == []
    assert selected(stored, Among("text", pa.array([], pa.string()))) == []
    assert selected(stored, Not(Among("i32", pa.array([None], pa.int32())))) == list(range(len(HOSTILE)))


def test_contains_is_membership_of_a_list(stored: tuple[LanceDataset, pa.Table]) -> None:
    with_b = [k for k in range(len(HOSTILE)) if k % 4 in (0, 3)]
    assert selected(stored, Contains("tags", pa.scalar("b"))) == with_b
    assert selected(stored, Contains("tags", pa.scalar("a"))) == [k for k in with_b if k % 4 == 0]
    assert selected(stored, Contains("tags", pa.scalar("it's"))) == []
    assert selected(stored, Not(Contains("tags", pa.scalar("a")))) == [
        k for k in range(len(HOSTILE)) if k % 4 in (1, 3)
    ]


def test_a_long_list_of_values_is_one_filter(stored: tuple[LanceDataset, pa.Table]) -> None:
    values = pa.array([f"no {k}" for k in range(20_000)] + ["it's"])
    assert selected(stored, Among("text", values)) == [0]


LEAVES = st.one_of(
    st.builds(
        Compare,
        st.just("i32"),
        st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
        st.one_of(st.integers(-4, 4), st.none()).map(lambda one: pa.scalar(one, pa.int32())),
    ),
    st.builds(Compare, st.just("text"), st.sampled_from(["==", "<"]), st.sampled_from(HOSTILE[:-1]).map(pa.scalar)),
    st.builds(Compare, st.just("flag"), st.just("=="), st.booleans().map(pa.scalar)),
    st.builds(IsNull, st.sampled_from(["i32", "day", "u64"])),
    st.builds(Among, st.just("i32"), st.lists(st.integers(-4, 4), max_size=5).map(lambda x: pa.array(x, pa.int32()))),
)
TREES = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.builds(Not, parts),
        st.builds(And, st.lists(parts, max_size=3).map(tuple)),
        st.builds(Or, st.lists(parts, max_size=3).map(tuple)),
    ),
    max_leaves=8,
)


@given(TREES)
def test_any_predicate_selects_alike_in_memory_and_in_storage(
    stored: tuple[LanceDataset, pa.Table], predicate: Predicate
) -> None:
    selected(stored, predicate)
    assert columns_of(predicate) <= {"i32", "text", "flag", "day", "u64"}


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_text_round_trips_through_a_filter(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("one")
    handle = lance.write_dataset(pa.table({"text": [text, text + "x"]}), str(Path(folder) / "t.lance"))
    found = handle.to_table(filter=to_filter(Compare("text", "==", pa.scalar(text))))
    assert found["text"].to_pylist() == [text]
