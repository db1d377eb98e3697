"""What commits did to a table, told by addresses, against reading all rows: over the histories that differences are tested with."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction

from omnigraph.table import stamps
from omnigraph.table import written_once as module
from omnigraph.table.delta import Column, Side
from omnigraph.table.stamps import Candidates, Line, commits_since, is_written_once
from omnigraph.table.written_once import WrittenOnce, read_written, untouched_at, written_by, written_once
from tests.component.table.test_delta import World, append, base_schema, create, upsert

_SEEDS = range(20, 28)
COLUMNS = [Column(one, one, one) for one in base_schema().names]


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> list[World]:
    root = tmp_path_factory.mktemp("histories")
    worlds = [World(str(root / f"t{seed}"), random.Random(seed), columns=seed % 3 == 0) for seed in _SEEDS]
    for world in worlds:
        for _ in range(24):
            world.step()
    return worlds


def numbers(*given: int) -> np.ndarray:
    return np.array(given, dtype=np.uint64)


def rows_at(side: Side) -> dict[int, dict]:
    return {row.pop("_rowaddr"): row for row in side.handle.to_table(with_row_address=True).to_pylist()}


def sides_of(world: World) -> list[Side]:
    return [world.side(name, version) for name, branch in world.branches.items() for version in branch.versions]


# --- what is decided --------------------------------------------------------------------------------------------------------


def test_commits_are_counted_along_the_lines() -> None:
    main, fork = Line(None, 7), Line("f", 8)
    assert commits_since([main], [Line(None, 8)]) == 1 and commits_since([main], [Line(None, 10)]) == 3
    assert commits_since([main], [fork, main]) == 1
    assert commits_since([main], [Line("g", 9), Line("f", 8), main]) == 2
    assert commits_since([main], [main]) is None and commits_since([Line(None, 8)], [main]) is None, (
        "none, and backwards"
    )
    assert commits_since([main], [Line("f", 8), Line(None, 6)]) is None, "a fork of an older version"
    assert commits_since([main], [Line("f", 8)]) is None, "a line that has nothing to do with it"


@dataclass
class Fragment:
    id: int
    deletion_file: Any = None


@dataclass
class Deletion:
    read_version: int = 1
    id: int = 1


TWO = [Fragment(4), Fragment(5)]


@pytest.mark.parametrize(
    ("commits", "fragments", "found", "once"),
    [
        (1, [], [], True),
        (2, TWO, [8, 9, 9], True),
        (2, [*TWO, Fragment(6)], [9, 8], True),
        (2, [Fragment(4)], [9], False),  # one of them wrote no row that is there: a delete, a Restore, a compaction
        (2, [Fragment(4), Fragment(6)], [8, 9], False),  # all rows of a fragment were taken away again
        (2, [Fragment(5), Fragment(6)], [8, 9], False),
        (2, [Fragment(4, Deletion()), Fragment(5)], [8, 9], False),  # some were
        (2, TWO, [6, 8, 9], False),  # a row of older days has come back
    ],
)
def test_rows_are_written_once_where_all_that_was_written_stands(
    commits: int, fragments: list[Any], found: list[int], once: bool
) -> None:
    assert is_written_once(3, 7, commits, fragments, numbers(*found)) is once


def test_what_was_neither_replaced_nor_new_was_deleted_or_inserted() -> None:
    found = Candidates(numbers(1, 2, 3), numbers(10, 11), replaced=(numbers(2), numbers(11)))
    write = written_by(found)
    assert write is not None
    assert [one.tolist() for one in (write.replaced, write.new, write.deleted, write.inserted)] == [
        [2],
        [11],
        [1, 3],
        [10],
    ]
    assert write.touched.tolist() == [2, 1, 3]


def test_where_rows_may_have_been_written_twice_nothing_is_told() -> None:
    assert written_by(Candidates(numbers(1), numbers(2))) is None


@pytest.mark.parametrize("reason", ["columns", "unrelated"])
def test_where_all_rows_differ_nothing_is_told(reason: str) -> None:
    assert written_by(Candidates(numbers(1), numbers(1), 2, reason, (numbers(), numbers()))) is None  # type: ignore[arg-type]


# --- on tables ----------------------------------------------------------------------------------------------------------------


def wrong_writes(histories: list[World]) -> tuple[int, list[str]]:
    """How often it was told what was done, and when that was not so."""
    told, wrong = 0, []
    for world in histories:
        for before, after in itertools.permutations(sides_of(world), 2):
            write = written_once(before, after, COLUMNS)
            read = None if write is None else read_written(write, before, after, COLUMNS)
            if write is not None and read is not None:
                told += 1
                if not _is_so(write, read.ids.to_pylist(), read.rows.to_pylist(), rows_at(before), rows_at(after)):
                    wrong.append(f"{world.root}: {before.lines[0]} → {after.lines[0]}")
    return told, wrong


def _is_so(write: WrittenOnce, ids: list, rows: list, before: dict[int, dict], after: dict[int, dict]) -> bool:
    """Doing to the old rows what is told gives the new ones."""
    names = [one.after for one in COLUMNS]
    left = {row["id"]: row for row in before.values()}
    if [before[at]["id"] for at in write.touched.tolist()] != ids:
        return False
    if [row["id"] for row in rows[: len(write.replaced)]] != ids[: len(write.replaced)]:
        return False
    for one in ids:
        del left[one]
    if left.keys() & {row["id"] for row in rows}:
        return False
    left.update((row["id"], row) for row in rows)
    plain = ({row["id"]: [row[name] for name in names] for row in some} for some in (left.values(), after.values()))
    one, other = plain
    return one == other


def test_what_was_done_is_what_reading_all_rows_says(histories: list[World]) -> None:
    told, wrong = wrong_writes(histories)
    assert told > 50 and not wrong


def test_forks_give_one_row_id_to_different_rows(histories: list[World], monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: row ids are matched between any two versions."""
    monkeypatch.setattr(module, "commits_since", lambda before, after: 1)
    monkeypatch.setattr(stamps, "commits_since", lambda before, after: 1)
    assert wrong_writes(histories[:2])[1]


def wrong_places(histories: list[World]) -> tuple[int, int, int]:
    """How often rows were told to be where they were, how often not, and how often it was not so."""
    told = moved = wrong = 0
    for world in histories:
        rnd, sides = random.Random(1), sides_of(world)
        for _ in range(60):
            before, other = rnd.choice(sides), rnd.choice(sides)
            old = rows_at(before)
            wanted = rnd.sample(sorted(old), min(len(old), rnd.randint(0, 3)))
            at = untouched_at(before, other, COLUMNS, numbers(*wanted))
            if at is None:
                moved += 1
                continue
            told += 1
            new = rows_at(other)
            values = ([some.get(one, {}).get(column.after) for one in places for column in COLUMNS]
                      for some, places in ((old, wanted), (new, at.tolist())))  # fmt: skip
            wrong += next(values) != next(values)
    return told, moved, wrong


def test_rows_that_are_where_they_were_are_equal(histories: list[World]) -> None:
    told, moved, wrong = wrong_places(histories)
    assert told > 50 and moved > 50 and not wrong


def test_a_row_is_not_where_it_was_because_its_file_is(histories: list[World], monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: nobody looks whether the row was deleted there."""
    monkeypatch.setattr(stamps, "_deletion", lambda meta: None)
    assert wrong_places(histories)[2]


def test_a_row_that_was_deleted_elsewhere_is_not_where_it_was(tmp_path: Path) -> None:
    first = small(tmp_path)
    second = lance.dataset(first.uri)
    second.delete("id = 'k1'")
    sides = [Side(one, (Line(None, one.version),)) for one in (first, second)]
    known = {row["id"]: at for at, row in rows_at(sides[0]).items()}
    kept = untouched_at(*sides, COLUMNS, numbers(known["k2"]))
    assert kept is not None and kept.tolist() == [known["k2"]]
    assert untouched_at(*sides, COLUMNS, numbers(known["k2"], known["k1"])) is None


def test_a_row_that_was_deleted_and_came_again_is_compared(tmp_path: Path) -> None:
    """Its new row has a row id of its own, so nothing tells that it took the place of the old one."""
    first = small(tmp_path)
    fragment = first.get_fragments()[0].metadata
    new = lance.fragment.write_fragments(rows("k1", 9), first)
    operation = LanceOperation.Update(removed_fragment_ids=[fragment.id], updated_fragments=[], new_fragments=new)
    second = LanceDataset.commit(first, Transaction(first.version, operation), max_retries=0)
    sides = [Side(one, (Line(None, one.version),)) for one in (first, second)]
    write = written_once(*sides, COLUMNS)
    assert write is not None and read_written(write, *sides, COLUMNS) is None


def test_a_restore_brings_rows_that_are_compared(tmp_path: Path) -> None:
    """They were written by an older commit, and may be equal to those that were there."""
    first = small(tmp_path)
    second = upsert(first, rows("k1", 9))
    back = LanceDataset.commit(second, Transaction(second.version, LanceOperation.Restore(first.version)))
    sides = [Side(lance.dataset(first.uri, version=one.version), (Line(None, one.version),)) for one in (second, back)]
    write = written_once(*sides, COLUMNS)
    assert write is not None and not len(write.replaced) and read_written(write, *sides, COLUMNS) is None


def small(root: Path) -> LanceDataset:
    return append(create(str(root / "t"), base_schema()), pa.concat_tables([rows(f"k{at}", 1) for at in range(4)]))


def rows(id_: str, value: int) -> pa.Table:
    return pa.table({"id": [id_], "a": [value], "b": ["x"], "c": [None]}, schema=base_schema())
