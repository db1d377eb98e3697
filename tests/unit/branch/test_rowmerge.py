"""The rule of merging rows: its truth table, its laws, and the form for columns held against the one for single rows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.branch.rowmerge import Clash, Row, Side, fold_bases, merge_columns, merge_row

Result = Row | Clash | None
SMALL: list[Row | None] = [None, *(dict(zip("xy", v, strict=True)) for v in itertools.product((0, 1, None), repeat=2))]

# Letters stand for contents of a row, - for none. The result of base, source, target.
TABLE = {
    ("-", "A", "-"): "A",
    ("-", "-", "A"): "A",
    ("-", "A", "A"): "A",
    ("-", "A", "B"): "divergent_insert",
    ("A", "A", "A"): "A",
    ("A", "B", "A"): "B",
    ("A", "A", "B"): "B",
    ("A", "B", "B"): "B",
    ("A", "B", "C"): "divergent_update",
    ("A", "-", "A"): "-",
    ("A", "A", "-"): "-",
    ("A", "-", "-"): "-",
    ("A", "-", "B"): "delete_vs_update",
    ("A", "B", "-"): "delete_vs_update",
}


def triples() -> itertools.product[tuple[Row | None, ...]]:
    return itertools.product(SMALL, repeat=3)


def test_whole_rows_merge_as_the_table_says() -> None:
    met = set()
    for base, source, target in triples():
        names: dict[Any, str] = {}

        def letter(row: Result, names: dict[Any, str] = names) -> str:
            if row is None:
                return "-"
            assert not isinstance(row, Clash)
            return names.setdefault(tuple(row.items()), "ABC"[len(names)])

        key = letter(base), letter(source), letter(target)
        wanted = TABLE.get(key)
        if wanted is None:
            assert key == ("-", "-", "-")
            continue
        met.add(key)
        found = merge_row(base, source, target, strict=True)
        assert (found.kind if isinstance(found, Clash) else letter(found)) == wanted, key
    assert met == set(TABLE)


def test_the_rule_is_symmetric_and_loses_no_change() -> None:
    for base, source, target in triples():
        found, mirrored = merge_row(base, source, target), merge_row(base, target, source)
        assert found == mirrored
        assert merge_row(base, source, base) == source
        assert merge_row(base, base, target) == target
        assert merge_row(base, source, source) == source
        strict = merge_row(base, source, target, strict=True)
        if not isinstance(strict, Clash):
            assert found == strict
        if isinstance(found, Clash) or found is None or base is None or source is None or target is None:
            continue
        for name in base:
            assert found[name] == (source[name] if target[name] == base[name] else target[name])


def test_a_clash_names_the_properties_both_sides_changed() -> None:
    base, source, target = {"x": 0, "y": 0, "z": 0}, {"x": 1, "y": 1, "z": 0}, {"x": 2, "y": 0, "z": 5}
    assert merge_row(base, source, target) == Clash("divergent_update", ("x",))
    assert merge_row(base, {"x": 0, "y": 1, "z": 0}, {"x": 0, "y": 0, "z": 5}) == {"x": 0, "y": 1, "z": 5}
    assert merge_row(base, {"x": 0, "y": 1, "z": 0}, {"x": 0, "y": 0, "z": 5}, strict=True) == Clash(
        "divergent_update", ("y", "z")
    )
    assert merge_row(None, source, target) == Clash("divergent_insert", ("x", "y", "z"))


# --- many rows at once --------------------------------------------------------------------------------------------------

VALUES: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "numbers": (pa.int64(), (0, 1, None)),
    "texts": (pa.string(), ("", "a", None)),
    "lists": (pa.list_(pa.int32()), ([], [1, None], None)),
    "vectors": (pa.list_(pa.float32(), 2), ([0.0, 1.0], [0.0, 2.0], None)),
    "bytes": (pa.large_binary(), (b"", b"a", None)),
}


def side(rows: Sequence[Row | None], kind: pa.DataType) -> Side:
    columns = {name: pa.array([None if row is None else row[name] for row in rows], kind) for name in "xy"}
    return Side(columns, np.array([row is not None for row in rows]))


def rows_of(columns: Any, present: Any) -> list[Row | None]:
    listed = {name: column.to_pylist() for name, column in columns.items()}
    return [
        {name: values[at] for name, values in listed.items()} if there else None
        for at, there in enumerate(present.tolist())
    ]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", VALUES)
def test_columns_merge_as_single_rows_do(name: str, strict: bool) -> None:
    kind, values = VALUES[name]
    all_rows = [None, *(dict(zip("xy", v, strict=True)) for v in itertools.product(values, repeat=2))]
    listed = list(itertools.product(all_rows, repeat=3))
    base, source, target = (side([triple[at] for triple in listed], kind) for at in range(3))
    found = merge_columns(base, source, target, strict=strict)
    merged = rows_of(found.columns, found.present)
    for at, (b, s, t) in enumerate(listed):
        wanted = merge_row(b, s, t, strict=strict)
        if isinstance(wanted, Clash):
            assert found.clashes[at] == wanted and not found.changed[at], (b, s, t)
            continue
        assert at not in found.clashes, (b, s, t)
        if found.changed[at]:
            assert merged[at] == wanted != t, (b, s, t)
        else:
            assert wanted == t, (b, s, t)


def test_an_ambiguous_base_clashes_unless_both_sides_agree() -> None:
    listed = list(itertools.product(SMALL, repeat=3))
    base, source, target = (side([triple[at] for triple in listed], pa.int64()) for at in range(3))
    found = merge_columns(Side(base.columns, base.present, np.ones(len(listed), np.bool_)), source, target)
    for at, (_, s, t) in enumerate(listed):
        assert (at in found.clashes) == (s != t)
        assert not found.changed[at]


def test_two_bases_fold_into_what_their_merge_gives() -> None:
    listed = list(itertools.product(SMALL, repeat=3))
    over, first, second = (side([triple[at] for triple in listed], pa.int64()) for at in range(3))
    folded = fold_bases(over, first, second)
    blind = fold_bases(None, first, second)
    rows = rows_of(folded.columns, folded.present)
    assert folded.ambiguous is not None and blind.ambiguous is not None
    for at, (o, f, s) in enumerate(listed):
        wanted = merge_row(o, f, s)
        assert folded.ambiguous[at] == isinstance(wanted, Clash)
        assert isinstance(wanted, Clash) or rows[at] == wanted
        assert blind.ambiguous[at] == (f != s)


def test_nothing_is_written_where_both_sides_made_the_same_change() -> None:
    same = side([{"x": 1, "y": 1}], pa.int64())
    found = merge_columns(side([{"x": 0, "y": 0}], pa.int64()), same, same, strict=True)
    assert not found.changed.any() and not found.clashes
