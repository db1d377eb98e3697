"""The difference of two versions of a table, against comparing all their rows: over histories of every kind of commit, on
lines that were forked from each other."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph.core.meter import Meter
from omnigraph.schema import parse_schema
from omnigraph.schema.arrow import BLOB_COLUMN, PRIMARY_KEY, PROP_ID
from omnigraph.table import delta as delta_module
from omnigraph.table import stamps
from omnigraph.table.blob import stored_schema
from omnigraph.table.column_files import read_fragment, write_column_file
from omnigraph.table.delta import NULL, Column, Looked, Side, columns_of, delta
from omnigraph.table.evolve import add_columns, fill_columns, project
from omnigraph.table.fields import Projection
from omnigraph.table.stamps import Line

_KINDS = ("append", "upsert", "upsert", "delete", "delete", "restore", "compact", "fork", "fork", "add", "fill", "drop",
          "rename", "widen")  # fmt: skip


def prop(name: str, kind: Any, number: int) -> pa.Field[Any]:
    return pa.field(name, kind, metadata={PROP_ID: f"p{number}".encode()})


def base_schema() -> pa.Schema:
    name = pa.field("id", pa.utf8(), nullable=False, metadata=PRIMARY_KEY)
    return pa.schema([name, prop("a", pa.int32(), 1), prop("b", pa.utf8(), 2), prop("c", pa.list_(pa.int32()), 3)])


def create(uri: str, schema: pa.Schema) -> LanceDataset:
    return LanceDataset.commit(
        uri,
        LanceOperation.Overwrite(stored_schema(schema), []),
        enable_stable_row_ids=True,
        enable_v2_manifest_paths=True,
        max_retries=0,
    )


def append(handle: LanceDataset, rows: pa.Table) -> LanceDataset:
    return LanceDataset.commit(handle, write_fragments(rows, handle, return_transaction=True), max_retries=0)


def upsert(handle: LanceDataset, rows: pa.Table) -> LanceDataset:
    job = handle.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    transaction, _ = job.execute_uncommitted(rows)
    return LanceDataset.commit(handle, transaction, max_retries=0)


@dataclass
class Branch:
    uri: str
    lines: tuple[tuple[str | None, int], ...]
    """The lines it was forked from, nearest first."""
    versions: list[int]


@dataclass
class World:
    """A table, forks of it and forks of those. ``fills``: what each added property was filled with."""

    root: str
    rnd: random.Random
    columns: bool
    branches: dict[str | None, Branch] = field(default_factory=dict)
    fills: dict[str, str | None] = field(default_factory=dict)
    serial: int = 100
    done: list[str] = field(default_factory=list)
    known: bool = False
    """Whether comparisons are told which rows are deleted."""

    def __post_init__(self) -> None:
        handle = create(self.root, base_schema())
        for part in range(2):
            handle = append(handle, self.rows(handle, [f"k{part * 30 + at:03d}" for at in range(30)]))
        self.branches[None] = Branch(self.root, (), [handle.version])

    def rows(self, handle: LanceDataset, ids: list[str]) -> pa.Table:
        rnd, kinds = self.rnd, {one.name: one.type for one in handle.schema}
        made = {
            name: ids if name == "id" else [self.value(kind) if rnd.random() < 0.9 else None for _ in ids]
            for name, kind in kinds.items()
        }
        return pa.table(made, schema=handle.schema)

    def value(self, kind: Any) -> Any:
        if pa.types.is_integer(kind):
            return self.rnd.randint(0, 3)
        return self.rnd.choice("pq") if pa.types.is_string(kind) else [self.rnd.randint(0, 1)] * self.rnd.randint(0, 2)

    def step(self) -> None:
        name = self.rnd.choice(list(self.branches))
        branch, kind = self.branches[name], self.rnd.choice(_KINDS)
        handle = lance.dataset(branch.uri)
        if kind == "fork":
            if len(self.branches) < 6:
                self.fork(name, branch)
        elif (landed := self.change(kind, branch, handle)) is not None:
            branch.versions.append(landed.version)
            self.done.append(kind)

    def fork(self, name: str | None, branch: Branch) -> None:
        at = self.rnd.choice(branch.versions)
        ref = f"f{len(self.branches)}"
        uri = f"{self.root}/tree/{ref}"
        clone = LanceOperation.Clone(True, None, at, branch.uri, None)
        LanceDataset.commit(uri, Transaction(at, clone), max_retries=0)
        self.branches[ref] = Branch(uri, ((name, at), *branch.lines), [at])
        self.done.append("fork")

    def change(self, kind: str, branch: Branch, handle: LanceDataset) -> LanceDataset | None:
        ids = handle.to_table(columns=["id"]).column("id").to_pylist()
        if kind == "append":
            return append(handle, self.rows(handle, [self.fresh(ids) for _ in range(3)]))
        if kind == "upsert":
            return upsert(handle, self.rows(handle, [*self.rnd.sample(ids, min(3, len(ids))), self.fresh(ids)]))
        if kind == "delete" and len(ids) > 10:
            handle.delete(f"id IN ({', '.join(repr(one) for one in self.rnd.sample(ids, 2))})")
        elif kind == "restore":
            back = Transaction(handle.version, LanceOperation.Restore(self.rnd.choice(branch.versions)))
            return LanceDataset.commit(handle, back, max_retries=5)
        elif kind == "compact":
            handle.optimize.compact_files(target_rows_per_fragment=self.rnd.choice([40, 10_000]))
        elif self.columns:
            return self.change_columns(kind, handle)
        else:
            return None
        return lance.dataset(branch.uri)

    def fresh(self, ids: list[str]) -> str:
        """An id that is not on this line now. It may be on another one, or have been on this one."""
        self.serial -= self.rnd.randint(0, 2)
        while (made := f"k{self.serial:03d}") in ids:
            self.serial += 1
        ids.append(made)
        return made

    def change_columns(self, kind: str, handle: LanceDataset) -> LanceDataset | None:
        extra = [one for one in handle.schema.names if one.startswith("x")]
        if kind in ("add", "fill"):
            number = len(self.fills) + 10
            added = prop(f"x{number}", pa.utf8(), number)
            self.fills[f"p{number}"] = "d" if kind == "fill" else None
            transaction = add_columns(handle, [added]) if kind == "add" else self.filled(handle, added, lambda _: "d")
        elif kind == "widen" and handle.schema.field("a").type == pa.int32():
            wide = prop("a", pa.int64(), 1)
            transaction = self.filled(handle, wide, lambda row: row["a"], replaced="a", reads=["a"])
        elif kind == "drop" and extra:
            transaction = project(handle, Projection(drop=frozenset([self.rnd.choice(extra)])))
        elif kind == "rename" and extra:
            old = self.rnd.choice(extra)
            transaction = project(handle, Projection(rename={old: f"x{self.rnd.randint(1000, 9999)}"}))
        else:
            return None
        return LanceDataset.commit(handle, transaction, max_retries=0)

    def filled(
        self,
        handle: LanceDataset,
        added: pa.Field[Any],
        make: Callable[[dict[str, Any]], Any],
        *,
        replaced: str | None = None,
        reads: list[str] | None = None,
    ) -> Transaction:
        schema = pa.schema([added])

        def values(fragment: int) -> Any:
            for offsets, batch in read_fragment(handle, fragment, reads or ["id"], None, batch_rows=100):
                made = pa.array([make(row) for row in batch.to_pylist()], added.type)
                yield offsets, pa.record_batch([made], schema=schema)

        files = [
            write_column_file(handle, one.metadata, schema, values(one.fragment_id), None)
            for one in handle.get_fragments()
        ]
        gone = frozenset() if replaced is None else frozenset([replaced])
        return fill_columns(handle, [added], [], files, replaced=gone)

    # --- comparing --------------------------------------------------------------------------------------------------

    def side(self, name: str | None, version: int) -> Side:
        branch = self.branches[name]
        lines = (Line(name, version), *(Line(*one) for one in branch.lines))
        handle = lance.dataset(branch.uri, version=version)
        return Side(handle, lines, lambda one: deleted_offsets(handle, one) if self.known else None)

    def column_pairs(self, before: LanceDataset, after: LanceDataset) -> list[Column]:
        old, new = columns_by_id(before), columns_by_id(after)
        pairs = [Column(one, old.get(one), new.get(one), self.lift(one)) for one in {**new, **old}]
        return [one for one in pairs if one.after is not None or one.before is not None]

    def lift(self, one: str) -> Any:
        fill = self.fills.get(one)
        return NULL if fill is None else lambda rows: pa.array([fill] * rows.num_rows)


def deleted_offsets(handle: LanceDataset, fragment: FragmentMetadata) -> Any:
    live = handle.scanner(columns=[], with_row_address=True, fragments=[handle.get_fragment(fragment.id)]).to_table()
    offsets = live.column("_rowaddr").to_numpy() & np.uint64(0xFFFFFFFF)
    return np.setdiff1d(np.arange(fragment.physical_rows), offsets.astype(np.int64))


def columns_by_id(handle: LanceDataset) -> dict[str, str]:
    return {(one.metadata or {}).get(PROP_ID, one.name.encode()).decode(): one.name for one in handle.schema}


Found = dict[str, dict[str, Any]]


def found_by_delta(before: Side, after: Side, columns: list[Column], looked: Looked | None = None) -> Found:
    found: Found = {"delete": {}, "update": {}, "insert": {}}
    for some in delta(before, after, columns, looked=looked, batch_rows=7):
        rows = some.before if some.after is None else some.after
        assert rows is not None
        for at, row in enumerate(rows.to_pylist()):
            changed = sorted(name for name, mask in some.changed.items() if mask[at])
            was = some.before.slice(at, 1).to_pylist()[0] if some.before is not None else None
            assert row["id"] not in found[some.kind]
            found[some.kind][row["id"]] = (changed, was, row if some.after is not None else None)
    return found


def found_by_reading(before: Side, after: Side, columns: list[Column]) -> Found:
    old, new = ({row["id"]: row for row in side.handle.to_table().to_pylist()} for side in (before, after))
    found: Found = {
        "delete": {one: ([], old[one], None) for one in old.keys() - new.keys()},
        "update": {},
        "insert": {one: ([], None, new[one]) for one in new.keys() - old.keys()},
    }
    for one in old.keys() & new.keys():
        changed = []
        for column in columns:
            if column.after is None:
                continue
            if column.before is not None:
                was = old[one][column.before]
            else:
                was = column.lift(pa.table({"n": [1]}))[0].as_py() if callable(column.lift) else None
            if was != new[one][column.after]:
                changed.append(column.id)
        if changed:
            found["update"][one] = (sorted(changed), old[one], new[one])
    return found


def wrong_pairs(root: Path, seed: int, *, pairs: int = 20, steps: int = 24) -> list[str]:
    """The pairs of versions of one random history of which the difference is not what reading all rows says."""
    world = World(str(root / f"t{seed}"), random.Random(seed), columns=seed % 2 == 0)
    for _ in range(steps):
        world.step()
    versions = [(name, version) for name, branch in world.branches.items() for version in branch.versions]
    wrong = []
    for _ in range(pairs):
        one, other = world.rnd.choice(versions), world.rnd.choice(versions)
        world.known = world.rnd.random() < 0.5
        before, after = world.side(*one), world.side(*other)
        columns = world.column_pairs(before.handle, after.handle)
        if found_by_delta(before, after, columns) != found_by_reading(before, after, columns):
            wrong.append(f"seed {seed}: {one} → {other}")
    return wrong


# Random histories, and those among them that once found a mistake.
_SEEDS = (*range(8),)


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_difference_is_what_reading_all_rows_says(tmp_path: Path, seed: int) -> None:
    assert not wrong_pairs(tmp_path, seed)


@pytest.mark.parametrize("seed", [10, 11])
def test_many_rows_of_a_fragment_are_not_named_one_by_one(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stamps, "FILTERED_MAX", 1)
    assert not wrong_pairs(tmp_path, seed)


def test_deletions_that_are_told_are_not_read(tmp_path: Path) -> None:
    """Planted: deletions that are told wrongly are believed."""
    handle = create(str(tmp_path / "t"), base_schema())
    ids = [f"k{at}" for at in range(9)]
    rows = pa.table({"id": ids, "a": [1] * 9, "b": ["x"] * 9, "c": [None] * 9}, schema=base_schema())
    first = append(handle, rows)
    second = lance.dataset(first.uri)
    second.delete("id IN ('k3', 'k5')")
    columns = [Column(one, one, one) for one in base_schema().names]

    def gone(told: list[int] | None) -> list[str]:
        known = None if told is None else np.array(told)
        before = Side(first, (Line(None, first.version),))
        after = Side(second, (Line(None, second.version),), lambda _: known)
        return list(found_by_delta(before, after, columns)["delete"])

    assert gone(None) == gone([3, 5]) == ["k3", "k5"]
    assert gone([3]) == ["k3"]


@pytest.mark.parametrize("seed", [8, 9])
def test_a_large_difference_is_found_in_passes(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamps, "STAMPS_MAX", 16)
    monkeypatch.setattr(delta_module, "HELD_ROWS_MAX", 4)
    assert not wrong_pairs(tmp_path, seed)


def test_stamps_younger_than_the_fork_say_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: without the condition on the common ancestor, two forks' rows with equal stamps count as equal."""
    monkeypatch.setattr(stamps, "ancestor", lambda before, after: 2**63)
    assert any(wrong_pairs(tmp_path, seed) for seed in _SEEDS)


def test_lances_own_delta_loses_what_a_restore_brought_back(tmp_path: Path) -> None:
    """Planted: what Lance calls the difference says that nothing was updated."""
    handle = create(str(tmp_path / "t"), base_schema())
    rows = pa.table({"id": ["k1", "k2"], "a": [1, 2], "b": ["x", "x"], "c": [None, None]}, schema=base_schema())
    first = append(handle, rows)
    second = upsert(first, rows.set_column(1, base_schema().field("a"), pa.array([1, 9], pa.int32())))
    back = LanceDataset.commit(second, Transaction(second.version, LanceOperation.Restore(first.version)))
    columns = [Column(one, one, one) for one in base_schema().names]
    sides = [Side(lance.dataset(first.uri, version=one.version), (Line(None, one.version),)) for one in (second, back)]
    assert list(found_by_delta(*sides, columns)["update"]) == ["k2"]
    theirs = lance.dataset(first.uri, version=back.version).delta(compared_against=second.version)
    assert pa.table(theirs.get_updated_rows()).num_rows == 0


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[int]]:
    """200,000 rows in four fragments, of which 80 are updated, 10 deleted, and 10 inserted; then compacted. The versions
    before, after, and after the compaction."""
    handle = create(str(tmp_path_factory.mktemp("large") / "t"), base_schema())

    def rows(numbers: Any, value: int) -> pa.Table:
        count = len(numbers)
        values = [[f"k{at:06d}" for at in numbers], [value] * count, ["x"] * count, [[1]] * count]
        return pa.table(values, schema=base_schema())

    for part in range(4):
        handle = append(handle, rows(range(part * 50_000, (part + 1) * 50_000), 1))
    versions = [handle.version]
    handle = upsert(handle, rows([*range(0, 160_000, 2_000), *range(900_000, 900_010)], 2))
    gone = [f"k{at:06d}" for at in range(7, 100_000, 10_000)]
    handle.delete(f"id IN ({', '.join(map(repr, gone))})")
    versions.append(handle.version)
    handle.optimize.compact_files(target_rows_per_fragment=1_000_000, materialize_deletions_threshold=0.0)
    versions.append(lance.dataset(handle.uri).version)
    return handle.uri, versions


@pytest.mark.parametrize("after", [1, 2], ids=["as written", "compacted"])
def test_rows_read_are_those_that_changed(large: tuple[str, list[int]], after: int) -> None:
    uri, versions = large
    handles = [lance.dataset(uri, version=versions[at]) for at in (0, after)]
    sides = [Side(one, (Line(None, one.version),)) for one in handles]
    looked, meter = Looked(), Meter()
    columns = [Column(one, one, one) for one in base_schema().names]
    found = list(delta(*sides, columns, looked=looked, meter=meter))
    assert [(some.kind, some.rows) for some in found] == [("delete", 10), ("update", 80), ("insert", 10)]
    assert found[1].changed.keys() == {"a"}
    assert looked.rows == 180
    assert looked.stamps == (400_000 if after == 2 else 180)
    # Four fragments before and one after. A local read of 20 rows of one takes 30 small requests, one of a store five.
    assert meter.snapshot().requests <= 5 * 30


def test_two_versions_with_the_same_files_read_nothing(large: tuple[str, list[int]]) -> None:
    uri, versions = large
    side = Side(lance.dataset(uri, version=versions[0]), (Line(None, versions[0]),))
    looked = Looked()
    assert not list(delta(side, side, [Column("id", "id", "id"), Column("a", "a", "a")], looked=looked))
    assert looked == Looked()


def test_blobs_are_compared_by_their_bytes(tmp_path: Path) -> None:
    schema = pa.schema([base_schema().field("id"), pa.field("pic", pa.large_binary(), metadata=BLOB_COLUMN)])
    handle = create(str(tmp_path / "t"), schema)
    first = append(handle, pa.table({"id": ["a", "b", "c"], "pic": [b"1", b"2" * 70_000, None]}, schema=schema))
    second = upsert(first, pa.table({"id": ["a", "b", "c"], "pic": [b"1", b"3", b""]}, schema=schema))
    sides = [Side(one, (Line(None, one.version),)) for one in (first, second)]
    [found] = delta(*sides, [Column("id", "id", "id"), Column("pic", "pic", "pic")])
    assert found.before is not None and found.after is not None
    assert found.before.to_pylist() == [{"id": "b", "pic": b"2" * 70_000}, {"id": "c", "pic": None}]
    assert found.after.to_pylist() == [{"id": "b", "pic": b"3"}, {"id": "c", "pic": b""}]


def test_a_table_that_one_side_lacks_is_all_inserted_or_deleted(large: tuple[str, list[int]]) -> None:
    uri, versions = large
    side = Side(lance.dataset(uri, version=versions[1]), (Line(None, versions[1]),))
    columns = [Column("id", "id", "id")]
    for kind, pair in (("insert", (None, side)), ("delete", (side, None))):
        found = list(delta(*pair, columns))
        assert {some.kind for some in found} == {kind}
        assert max(some.rows for some in found) <= 16_384
        assert sum(some.rows for some in found) == 200_000


def test_columns_are_matched_by_every_identity_of_a_property() -> None:
    numbers = iter(range(100))
    old = parse_schema("node P { name: String @key\n gone: I32?\n kept: I32? }", mint=lambda: f"i{next(numbers):02d}")
    before = old.node("P")
    kept, name = before.by_name["kept"], before.by_name["name"]
    renamed = replace(kept, name="kept2", prop_id="other", also=(kept.prop_id,))
    added = replace(kept, name="new", prop_id="fresh")
    after = replace(before, properties=(renamed, name, added))
    assert columns_of(before, after) == (
        Column("id", "id", "id"),
        Column("other", "kept", "kept2"),
        Column(name.prop_id, "name", "name"),
        Column("fresh", None, "new"),
        Column(before.by_name["gone"].prop_id, "gone", None),
    )
    assert Column("other", "kept2", "kept") in [replace(one, id="other") for one in columns_of(after, before)]


def test_lines_part_where_the_nearest_common_one_was_left() -> None:
    main, fork = Line(None, 5), Line("f1", 9)
    assert stamps.ancestor([main], [Line(None, 3)]) == 2**63
    assert stamps.ancestor([fork, main], [Line(None, 8)]) == 5
    assert stamps.ancestor([fork, main], [Line(None, 3)]) == 3
    assert stamps.ancestor([fork, main], [Line("f2", 9), Line("f1", 6), main]) == 6
    assert stamps.ancestor([fork], [Line("f2", 9)]) is None
