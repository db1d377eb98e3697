"""Look-ups at a pin answer as a full scan would, whatever is cached, indexed, deleted or written meanwhile."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import write_fragments

from omnigraph.core.meter import Meter
from omnigraph.table.dataset import TableRef
from omnigraph.table.hits import index_in
from omnigraph.table.key_order import order_of
from omnigraph.table.keys import KeyCache
from omnigraph.table.pinned import PinnedTable
from omnigraph.table.predicate import Compare
from tests.steps import steps

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
        pa.field("src", pa.string(), nullable=False),
        pa.field("n", pa.int64()),
        pa.field("u", pa.uint64()),
        pa.field("at", pa.timestamp("us", "UTC")),
    ]
)
NOON = dt.datetime(2024, 5, 6, 12, tzinfo=dt.UTC)


def rows(ids: list[str], *, src: str | None = None, n: int = 0) -> pa.Table:
    return pa.table(
        {
            "id": ids,
            "src": [src or f"s{int(i[1:]) % 7}" if i[1:].isdigit() else src or "s" for i in ids],
            "n": [n + k for k in range(len(ids))],
            "u": [k % 3 for k in range(len(ids))],
            "at": [NOON + dt.timedelta(seconds=k % 5) if k % 4 else None for k in range(len(ids))],
        },
        schema=SCHEMA,
    )


def create(path: Path) -> LanceDataset:
    return LanceDataset.commit(str(path), LanceOperation.Overwrite(SCHEMA, []), enable_stable_row_ids=True)


def append(handle: LanceDataset, table: pa.Table) -> tuple[LanceDataset, Transaction]:
    transaction = write_fragments(table, handle, return_transaction=True)
    return LanceDataset.commit(handle, transaction, max_retries=0), transaction


class Opens:
    """An opener that counts."""

    def __init__(self, uri: str, version: int) -> None:
        self.uri, self.version, self.calls = uri, version, 0

    def __call__(self) -> LanceDataset:
        self.calls += 1
        return lance.dataset(self.uri, version=self.version)


def pinned(
    handle: LanceDataset, cache: KeyCache, opener: Callable[[], Any] | None = None, meter: Meter | None = None
) -> PinnedTable:
    uri, version = handle.uri, handle.version
    return PinnedTable(
        opener or (lambda: lance.dataset(uri, version=version)),
        TableRef(uri),
        version,
        handle.count_rows(),
        cache,
        meter,
    )


def oracle(handle: LanceDataset) -> pa.Table:
    return handle.to_table(with_row_address=True)


def assert_answers(table: PinnedTable, handle: LanceDataset, values: list[str]) -> None:
    truth = oracle(handle)
    ids = truth.column("id").to_pylist()
    present = set(ids)
    assert table.contains(pa.array(values)).to_pylist() == [value in present for value in values]
    asked = set(values)
    located = table.locate(pa.array(values))
    wanted = {row["id"]: row["_rowaddr"] for row in truth.select(["id", "_rowaddr"]).to_pylist() if row["id"] in asked}
    assert dict(zip(located["id"].to_pylist(), located["_rowaddr"].to_pylist(), strict=True)) == wanted
    sources = ["s1", "s5", "nobody"]
    got = table.fetch("src", pa.array(sources), ["id", "src", "_rowaddr"]).sort_by("_rowaddr")
    expected = truth.filter(pc.is_in(truth["src"], pa.array(sources))).select(["id", "src", "_rowaddr"])
    assert got.to_pylist() == expected.sort_by("_rowaddr").to_pylist()
    got = table.fetch("id", pa.array(values), ["id", "at", "n", "u"]).sort_by("id")
    expected = truth.filter(pc.is_in(truth["id"], pa.array(values))).select(["id", "at", "n", "u"]).sort_by("id")
    assert got.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("searched_max", [8, 0], ids=["searched", "ordered"])
@pytest.mark.parametrize("bytes_max", [1 << 28, 20_000, 1], ids=["roomy", "tight", "none"])
@pytest.mark.parametrize("seed", range(3))
def test_look_ups_agree_with_a_scan_through_any_history(
    tmp_path: Path, seed: int, bytes_max: int, searched_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.table.keys._SEARCHED_MAX", searched_max)
    rng = random.Random(seed)
    handle = create(tmp_path / "t.lance")
    cache = KeyCache(bytes_max)
    pins = [handle]
    next_id = 0
    for step in range(16):
        live = handle.to_table(columns=["id"])["id"].to_pylist()
        action = rng.choice(["one", "one", "few", "many", "delete", "upsert", "index", "fold", "compact", "restore"])
        if action in ("one", "few", "many"):
            count = {"one": 1, "few": rng.randint(2, 50), "many": 3000}[action]
            table = rows([f"k{next_id + k}" for k in range(count)], n=step)
            next_id += count
            base = handle
            handle, transaction = append(base, table)
            if rng.random() < 0.5:
                uri = base.uri
                cache.note_commit(uri, uri, base.version, handle, transaction.operation, table)
        elif action == "delete" and live:
            gone = rng.sample(live, min(len(live), rng.randint(1, 20)))
            handle = lance.dataset(handle.uri)
            handle.delete("id IN (" + ",".join(f"'{one}'" for one in gone) + ")")
        elif action == "upsert" and live:
            some = [*rng.sample(live, min(len(live), 5)), f"k{next_id}"]
            next_id += 1
            merge = handle.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            handle = LanceDataset.commit(handle, merge.execute_uncommitted(rows(some, n=900))[0])
        elif action == "index":
            handle = lance.dataset(handle.uri)
            handle.create_scalar_index("id", "BTREE", replace=True)
        elif action == "fold":
            handle = lance.dataset(handle.uri)
            handle.optimize.optimize_indices()
        elif action == "compact":
            handle = lance.dataset(handle.uri)
            handle.optimize.compact_files(target_rows_per_fragment=5000)
        elif action == "restore" and len(pins) > 3:
            old = rng.choice(pins)
            handle = LanceDataset.commit(handle, Transaction(handle.version, LanceOperation.Restore(old.version)))
        handle = lance.dataset(handle.uri, version=handle.version)
        pins.append(handle)
        values = [f"k{rng.randint(0, next_id + 3)}" for _ in range(rng.choice([1, 3, 40]))]
        for pin in {handle, rng.choice(pins)}:
            assert_answers(pinned(pin, cache), pin, values)
        assert cache.bytes_held <= max(bytes_max, 400_000)
    values = [f"k{k}" for k in range(next_id + 100)]
    assert_answers(pinned(handle, cache), handle, values)


def test_an_empty_table_is_never_opened(tmp_path: Path) -> None:
    handle = create(tmp_path / "t.lance")
    opener = Opens(handle.uri, handle.version)
    table = pinned(handle, KeyCache(), opener)
    assert table.contains(pa.array(["a", "b"])).to_pylist() == [False, False]
    assert table.locate(pa.array(["a"])).num_rows == 0
    assert table.count() == 0
    assert list(table.scan()) == []
    assert opener.calls == 0


def test_what_a_writer_wrote_it_looks_up_without_a_request(tmp_path: Path) -> None:
    handle = create(tmp_path / "t.lance")
    cache, meter = KeyCache(), Meter()
    for k in range(300):  # the first one on a version that nobody has looked at
        base, table = handle, rows([f"k{k}"])
        handle, transaction = append(base, table)
        cache.note_commit(base.uri, base.uri, base.version, handle, transaction.operation, table)
    opener = Opens(handle.uri, handle.version)
    table_at = pinned(handle, cache, opener, meter)
    assert table_at.contains(pa.array(["k0", "k299", "k300"])).to_pylist() == [True, True, False]
    assert table_at.fetch("src", pa.array(["s3"]), ["id", "src"]).num_rows == 43
    assert opener.calls == 0
    assert meter.snapshot().requests == 0


def test_a_warm_look_up_reads_nothing_and_a_cold_one_reads_each_small_file_once(tmp_path: Path) -> None:
    handle = create(tmp_path / "t.lance")
    for k in range(40):
        handle, _ = append(handle, rows([f"k{k}"]))
    cache, meter = KeyCache(), Meter()
    table = pinned(handle, cache, meter=meter)
    assert table.contains(pa.array(["k7"])).to_pylist() == [True]
    assert meter.snapshot().requests == 40
    assert table.contains(pa.array(["k8", "x"])).to_pylist() == [True, False]
    assert table.fetch("src", pa.array(["s3"]), ["id"]).num_rows == 6  # src came with id, in the same requests
    assert meter.snapshot().requests == 40
    handle, _ = append(handle, rows(["k99"]))
    later = pinned(handle, cache, meter=meter)
    assert later.contains(pa.array(["k99", "k3"])).to_pylist() == [True, True]
    assert meter.snapshot().requests == 41


@pytest.fixture
def large_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of some ten thousand rows count as large: smaller ones are read at once, indexed or not."""
    monkeypatch.setattr("omnigraph.table.lookup._READ_ROWS_MAX", 10_000)


def test_an_indexed_fragment_is_asked_through_its_index(tmp_path: Path, large_from_here: None) -> None:
    handle = create(tmp_path / "t.lance")
    handle, _ = append(handle, rows([f"k{k}" for k in range(50_000)]))
    handle.create_scalar_index("id", "BTREE")
    handle = lance.dataset(handle.uri)
    handle, _ = append(handle, rows(["new"], src="s1"))
    cache, meter = KeyCache(), Meter()
    table = pinned(handle, cache, meter=meter)
    assert table.contains(pa.array(["k777", "new", "no"])).to_pylist() == [True, True, False]
    assert meter.snapshot().by_class["index"] > 0
    assert cache.bytes_held < 10_000  # the key column of the large fragment was not read


def test_a_column_that_is_asked_for_often_is_held_in_the_end(tmp_path: Path, large_from_here: None) -> None:
    handle = create(tmp_path / "t.lance")
    handle, _ = append(handle, rows([f"k{k}" for k in range(20_000)]))
    handle.create_scalar_index("id", "BTREE")
    handle = lance.dataset(handle.uri)
    cache = KeyCache()
    table = pinned(handle, cache)
    for k in range(20):
        assert table.contains(pa.array([f"k{k}", "no"])).to_pylist() == [True, False]
    meter = Meter()
    assert pinned(handle, cache, meter=meter).contains(pa.array(["k19999", "no"])).to_pylist() == [True, False]
    assert meter.snapshot().requests == 0


def test_a_warm_look_up_compares_only_the_keys_that_it_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searching a held column from end to end would make a write into a large table cost what the table is long."""
    handle, _ = append(create(tmp_path / "t.lance"), rows([f"k{k}" for k in range(30_000)]))
    handle, _ = append(handle, rows([f"k{k}" for k in range(30_000, 60_000)]))
    table = pinned(handle, KeyCache())
    compared: list[int] = []

    def counting(keys: Any, needles: Any) -> Any:
        compared.append(len(keys))
        return index_in(keys, needles)

    monkeypatch.setattr("omnigraph.table.lookup.index_in", counting)
    for k in range(10):
        assert table.contains(pa.array([f"k{k}", f"k{k + 40_000}", "no"])).to_pylist() == [True, True, False]
    assert compared[0] == 60_000
    compared.clear()
    assert table.locate(pa.array(["k77", "k59999", "no"]))["_rowaddr"].to_pylist() == [77, (1 << 32) + 29_999]
    assert sum(compared) <= 4


def test_the_order_of_a_column_counts_against_the_bound(tmp_path: Path) -> None:
    handle, _ = append(create(tmp_path / "t.lance"), rows([f"k{k}" for k in range(40_000)]))
    cache = KeyCache()
    table = pinned(handle, cache)
    for k in range(8):
        table.contains(pa.array([f"k{k}"]))
    before = cache.bytes_held
    table.contains(pa.array(["k9"]))
    assert cache.bytes_held == before + 40_000 * 12
    small = KeyCache(1_500_000)  # the column fits, an order of a third of it on top is too much
    for k in range(20):
        assert pinned(handle, small).contains(pa.array([f"k{k}", "no"])).to_pylist() == [True, False]
    assert small.bytes_held < 40_000 * 12 + 200


@pytest.mark.parametrize("seed", range(4))
def test_an_order_finds_what_comparing_all_finds(seed: int) -> None:
    rng = random.Random(seed)
    texts = ["", "a", "a\0", "b" * 80, "b" * 79 + "c", *(f"k{n}" for n in range(40)), None]
    for keys, values in (
        (pa.array(rng.choices(texts, k=500)), pa.array(texts)),
        (pa.array(rng.choices([None, -1, 0, 1, 1 << 62, *range(9, 40)], k=500)), pa.array([None, -1, 7, 1 << 62])),
    ):
        order = order_of(keys)
        assert order is not None
        found = order.candidates(values)
        wanted = pc.is_in(keys, value_set=values.drop_null(), skip_nulls=True).to_numpy(zero_copy_only=False)
        assert set(np.flatnonzero(wanted).tolist()) == set(found.tolist())
    assert order_of(pa.array([1.5, None])) is None


def test_a_row_deleted_by_somebody_else_is_not_found_at_the_new_pin_and_still_at_the_old(tmp_path: Path) -> None:
    handle = create(tmp_path / "t.lance")
    handle, _ = append(handle, rows(["k1", "k2", "k3"]))
    cache = KeyCache()
    before = pinned(handle, cache)
    assert before.contains(pa.array(["k2"])).to_pylist() == [True]
    other = lance.dataset(handle.uri)
    other.delete("id = 'k2'")
    after = pinned(other, cache)
    assert after.contains(pa.array(["k1", "k2"])).to_pylist() == [True, False]
    assert before.contains(pa.array(["k2"])).to_pylist() == [True]


@pytest.mark.parametrize("deletes", ["n % 10 = 3", "n < 0"])
@pytest.mark.parametrize("count", [3, 1500, 30_000])
def test_take_returns_rows_in_the_order_asked(tmp_path: Path, count: int, deletes: str) -> None:
    handle = create(tmp_path / "t.lance")
    for part in range(3):
        handle, _ = append(handle, rows([f"k{part * 20_000 + k}" for k in range(20_000)]))
    other = lance.dataset(handle.uri)
    other.delete(deletes)
    truth = oracle(other)
    rng = random.Random(count)
    picks = rng.sample(range(truth.num_rows), count)
    wanted = truth.take(pa.array(picks))
    got = pinned(other, KeyCache()).take(wanted["_rowaddr"].combine_chunks(), ["id", "n", "_rowaddr"])
    assert got.to_pylist() == wanted.select(["id", "n", "_rowaddr"]).to_pylist()


def test_a_scan_filters_by_predicate_and_by_expression_alike(tmp_path: Path) -> None:
    handle = create(tmp_path / "t.lance")
    handle, _ = append(handle, rows([f"k{k}" for k in range(100)]))
    table = pinned(handle, KeyCache())
    wanted = [f"k{k}" for k in range(51, 100)]
    assert table.to_table(["id"], Compare("n", ">", pa.scalar(50)))["id"].to_pylist() == wanted
    assert table.to_table(["id"], pc.field("n") > 50)["id"].to_pylist() == wanted
    # Unsigned columns cannot be pushed down as expressions; the answer is the same.
    by_expression = table.to_table(["id"], pc.field("u") == pa.scalar(1, pa.uint64()))
    by_predicate = table.to_table(["id"], Compare("u", "==", pa.scalar(1, pa.uint64())))
    assert by_expression["id"].to_pylist() == by_predicate["id"].to_pylist()
    assert by_expression.num_rows == 33
    assert table.count(pc.field("n") > 50) == 49
    assert table.match(Compare("n", "==", pa.scalar(7)), ["id"]).to_pylist() == [{"id": "k7", "_rowaddr": 7}]


def test_a_look_up_over_times_compares_instants(tmp_path: Path) -> None:
    handle = create(tmp_path / "t.lance")
    handle, _ = append(handle, rows([f"k{k}" for k in range(20)]))
    table = pinned(handle, KeyCache())
    found = table.fetch("at", pa.array([NOON + dt.timedelta(seconds=1)], pa.timestamp("us", "UTC")), ["id", "at"])
    assert found["id"].to_pylist() == ["k1", "k6", "k11"]
    assert found["at"].to_pylist() == [NOON + dt.timedelta(seconds=1)] * 3


@pytest.mark.parametrize("count", [1, 5, 200])
def test_an_index_finds_every_row_of_a_value_that_many_rows_share(
    tmp_path: Path, count: int, large_from_here: None
) -> None:
    handle = create(tmp_path / "t.lance")
    handle, _ = append(handle, rows([f"k{k}" for k in range(30_000)]))
    handle.create_scalar_index("src", "BTREE")
    handle = lance.dataset(handle.uri)
    handle.delete("n % 3 = 0")
    cache = KeyCache()
    sources = [f"s{k}" for k in range(count)]
    got = pinned(handle, cache).fetch("src", pa.array(sources), ["id", "src"])
    assert sorted(got["id"].to_pylist()) == sorted(
        row["id"] for row in oracle(handle).to_pylist() if row["src"] in set(sources)
    )
    assert cache.bytes_held < 10_000


def test_a_note_about_a_commit_that_landed_off_its_place_is_not_believed(tmp_path: Path) -> None:
    handle = create(tmp_path / "t.lance")
    cache = KeyCache()
    base, mine = handle, rows(["mine"])
    assert pinned(base, cache).layout.version == 1
    transaction = write_fragments(mine, base, return_transaction=True)
    append(base, rows(["other"]))
    landed = LanceDataset.commit(base, transaction)
    cache.note_commit(base.uri, base.uri, base.version, landed, transaction.operation, mine)
    assert cache.layout(base.uri, landed.version) is None
    found = pinned(landed, cache).contains(pa.array(["mine", "other", "none"]))
    assert found.to_pylist() == [True, True, False]


def test_threads_that_push_out_each_others_columns_still_answer_right(tmp_path: Path) -> None:
    """Two tables and a cache with room for less than either: every search meets evictions under way."""
    handles = []
    for name in ("a", "b"):
        handle = create(tmp_path / f"{name}.lance")
        for part in range(6):
            handle, _ = append(handle, rows([f"{name}{part}x{k}" for k in range(2 + 2500 * (part % 2))], src="s1"))
        handles.append(handle)
    cache = KeyCache(150_000)

    def ask(seed: int) -> list[bool]:
        rng = random.Random(seed)
        name, handle = rng.choice(list(zip("ab", handles, strict=True)))
        found = pinned(handle, cache).contains(pa.array([f"{name}{rng.randrange(6)}x{rng.randrange(2)}", "no"]))
        return found.to_pylist()

    with ThreadPoolExecutor(max_workers=8) as pool:
        answers = list(pool.map(ask, range(300)))
    assert answers == [[True, False]] * 300


def test_a_look_up_over_thousands_of_small_fragments_costs_what_it_costs_over_few(tmp_path: Path) -> None:
    """Flat in history: on a warm handle the calls of a look-up do not grow with the number of fragments."""

    def cost(count: int) -> int:
        handle = create(tmp_path / f"{count}.lance")
        fragments = [one for k in range(count) for one in write_fragments(rows([f"k{k}"]), handle)]
        handle = LanceDataset.commit(handle, LanceOperation.Append(fragments), read_version=handle.version)
        table = pinned(handle, KeyCache())
        assert table.contains(pa.array(["k1"])).to_pylist() == [True]
        table.contains(pa.array(["k7", "absent"]))
        return steps(lambda: table.contains(pa.array(["k7", "absent"])))

    few, many = cost(10), cost(2000)
    assert many <= few + 10


def test_the_cache_keeps_to_its_bound_and_lets_go_of_what_it_pushes_out(tmp_path: Path) -> None:
    handles = []
    for k in range(6):
        handle, _ = append(create(tmp_path / f"{k}.lance"), rows([f"k{n}" for n in range(40_000)]))
        handles.append(handle)
    cache = KeyCache(1_000_000)
    column = 40_000 * 10
    before = pa.total_allocated_bytes()
    for _ in range(2):
        for handle in handles:
            found = pinned(handle, cache).contains(pa.array(["k39999", "k40000"]))
            assert found.to_pylist() == [True, False]
            assert cache.bytes_held <= 1_000_000
    assert pa.total_allocated_bytes() - before < 1_000_000 + 2 * column


class _Forgetful(KeyCache):
    """Loses everything between getting ready and searching, as another thread's load may make it do."""

    losses = 0

    def small_places(self, *arguments: Any) -> list[tuple[int, int]]:
        if self.losses > 0:
            self.losses -= 1
            for unit in list(self._units):
                self._evict(unit)
        return super().small_places(*arguments)


@pytest.mark.parametrize("losses", [1, 2, 50])
def test_what_is_pushed_out_during_a_search_is_searched_again(tmp_path: Path, losses: int) -> None:
    handle, _ = append(create(tmp_path / "t.lance"), rows(["k1", "k2"]))
    handle, _ = append(handle, rows([f"k{k}" for k in range(10, 4000)]))
    cache = _Forgetful()
    cache.losses = losses
    table = pinned(handle, cache)
    assert table.contains(pa.array(["k2", "k3999", "k5000"])).to_pylist() == [True, True, False]
    assert table.locate(pa.array(["k1", "k77"]))["id"].to_pylist() == ["k1", "k77"]


def test_only_layouts_in_use_are_kept(tmp_path: Path) -> None:
    handle = create(tmp_path / "t.lance")
    cache = KeyCache()
    held = pinned(handle, cache)
    assert held.layout.version == 1
    for k in range(30):
        handle, _ = append(handle, rows([f"k{k}"]))
        assert pinned(handle, cache).contains(pa.array([f"k{k}"])).to_pylist() == [True]
    assert [cache.layout(handle.uri, version) is not None for version in range(1, 32)].count(True) <= 4
    assert held.layout.version == 1


def test_many_rows_of_a_table_that_lost_some_are_not_taken_through_the_ids_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_row_id: list[int] = []
    take_rows = LanceDataset._take_rows

    def noted(self: LanceDataset, ids: Any, *args: Any, **named: Any) -> Any:
        by_row_id.append(len(ids))
        return take_rows(self, ids, *args, **named)

    monkeypatch.setattr(LanceDataset, "_take_rows", noted)
    handle, _ = append(create(tmp_path / "t"), rows([f"a{i}" for i in range(40_000)]))
    ids = [f"a{i}" for i in range(0, 40_000, 50)]
    for wanted in ([800], []):
        by_row_id.clear()
        table = pinned(handle, KeyCache())
        found = table.take(table.locate(pa.array(ids)).column("_rowaddr").combine_chunks(), ["id", "n"])
        assert sorted(found.column("id").to_pylist()) == sorted(ids)
        assert by_row_id == wanted
        handle.delete("id = 'a7'")
        handle = lance.dataset(str(tmp_path / "t"))
