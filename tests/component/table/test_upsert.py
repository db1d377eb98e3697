"""Changes staged by address do what Lance's own merge and delete do, row ids included, and conflict as they do."""

from __future__ import annotations

import random
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance import LanceDataset, LanceOperation
from lance.commit import CommitConflictError
from lance.fragment import write_fragments

from omnigraph.core.errors import OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.table.dataset import TableRef
from omnigraph.table.keys import KeyCache
from omnigraph.table.pinned import PinnedTable
from omnigraph.table.upsert import StagedChange, stage_delete, stage_update, stage_upsert

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
        pa.field("n", pa.int64()),
        pa.field("tags", pa.list_(pa.string())),
    ]
)


def rows(ids: list[str], n: int = 0) -> pa.Table:
    return pa.table({"id": ids, "n": [n] * len(ids), "tags": [[one, str(n)] for one in ids]}, schema=SCHEMA)


def create(path: Path) -> LanceDataset:
    return LanceDataset.commit(str(path), LanceOperation.Overwrite(SCHEMA, []), enable_stable_row_ids=True)


def append(handle: LanceDataset, table: pa.Table) -> LanceDataset:
    return LanceDataset.commit(handle, write_fragments(table, handle, return_transaction=True))


def pinned(handle: LanceDataset, cache: KeyCache | None = None) -> PinnedTable:
    return PinnedTable(lambda: handle, TableRef(handle.uri), handle.version, handle.count_rows(), cache or KeyCache())


def upsert_plain(handle: LanceDataset, table: pa.Table) -> LanceDataset:
    merge = handle.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return LanceDataset.commit(handle, merge.execute_uncommitted(table)[0])


def commit(handle: LanceDataset, change: StagedChange) -> LanceDataset:
    return LanceDataset.commit(handle, change.transaction, max_retries=0)


def content(handle: LanceDataset, **options: bool) -> dict[str, tuple[int, list[str]]]:
    table = handle.to_table(**options)
    return {row["id"]: tuple(value for name, value in row.items() if name != "id") for row in table.to_pylist()}


def row_ids(handle: LanceDataset) -> dict[str, int]:
    table = handle.to_table(columns=["id"], with_row_id=True)
    return dict(zip(table["id"].to_pylist(), table["_rowid"].to_pylist(), strict=True))


def versions(handle: LanceDataset) -> dict[str, tuple[int, int]]:
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    return {row.pop("id"): tuple(row.values()) for row in handle.to_table(columns=columns).to_pylist()}


def assert_sound(handle: LanceDataset, model: dict[str, int], rng: random.Random) -> None:
    handle.validate()
    table = handle.to_table(columns=["id", "n"])
    assert dict(zip(table["id"].to_pylist(), table["n"].to_pylist(), strict=True)) == model
    assert table.num_rows == len(model) == handle.count_rows()
    assert len(set(row_ids(handle).values())) == len(model)
    for one in [*rng.sample(sorted(model), min(5, len(model))), "absent"]:
        hit = handle.to_table(columns=["n"], filter=f"id = '{one}'")["n"].to_pylist()
        assert hit == ([model[one]] if one in model else [])


@pytest.mark.parametrize("spill", [False, True], ids=["inline", "spilled"])
@pytest.mark.parametrize("seed", range(4))
def test_staged_changes_equal_plain_merges_and_deletes_through_any_history(
    tmp_path: Path, seed: int, spill: bool
) -> None:
    """Twin tables, one changed by address and one by Lance itself, through index builds, folds and compactions."""
    rng = random.Random(seed)
    ours, theirs = create(tmp_path / "ours.lance"), create(tmp_path / "theirs.lance")
    if spill:
        for handle in (ours, theirs):
            handle.update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "8"})
        ours, theirs = lance.dataset(ours.uri), lance.dataset(theirs.uri)
    cache = KeyCache()
    model: dict[str, int] = {}
    first_ids: dict[str, int] = {}
    next_id = 0
    for step in range(30):
        action = rng.choice(["append", "upsert", "upsert", "upsert", "delete", "index", "fold", "compact"])
        table = pinned(ours, cache)
        line = table.ref.relative
        if action in ("append", "upsert"):
            fresh = [f"k{next_id + k}" for k in range(rng.randint(1, 60))]
            next_id += len(fresh)
            known = rng.sample(sorted(model), min(len(model), rng.choice([1, 5, 80]))) if action == "upsert" else []
            ids = [*fresh, *known]
            rng.shuffle(ids)
            change = stage_upsert(table, rows(ids, step))
            assert (change.inserted, change.updated) == (len(fresh), len(known))
            theirs = upsert_plain(theirs, rows(ids, step))
            model |= dict.fromkeys(ids, step)
        elif action == "delete":
            gone = rng.sample(sorted(model), min(len(model), rng.choice([1, 10, 100])))
            change = stage_delete(ours, table.locate(pa.array(gone, pa.string()))["_rowaddr"].combine_chunks())
            theirs.delete("id IN (" + ",".join(f"'{one}'" for one in [*gone, "none"]) + ")")
            for one in gone:
                del model[one]
                first_ids.pop(one, None)
        else:
            for handle in (ours, theirs):
                if action == "index":
                    handle.create_scalar_index("id", "BTREE", replace=True)
                elif action == "fold":
                    handle.optimize.optimize_indices()
                else:
                    handle.optimize.compact_files(target_rows_per_fragment=200)
            ours, theirs = lance.dataset(ours.uri), lance.dataset(theirs.uri)
            assert_sound(ours, model, rng)
            continue
        before = ours
        ours = commit(before, change)
        assert ours.version == before.version + 1
        cache.note_commit(line, line, before.version, ours, change.transaction.operation, change.rows, change.deleted)
        ours = lance.dataset(ours.uri)  # as a stranger sees it
        assert_sound(ours, model, rng)
        assert content(ours) == content(theirs)
        now = row_ids(ours)
        assert {one: now[one] for one in first_ids} == first_ids, "an updated row changed its row id"
        first_ids |= now
        asked = pa.array([f"k{rng.randint(0, next_id)}" for _ in range(20)])
        assert pinned(ours, cache).contains(asked).to_pylist() == [one in model for one in asked.to_pylist()]
    assert len(model) > 0


def test_an_updated_row_keeps_its_created_version_and_moves_its_updated_version(tmp_path: Path) -> None:
    ours, theirs = create(tmp_path / "ours.lance"), create(tmp_path / "theirs.lance")
    for part in (["a", "b"], ["c"]):
        ours, theirs = append(ours, rows(part)), append(theirs, rows(part))
    table = rows(["d", "a", "c"], 1)
    ours, theirs = commit(ours, stage_upsert(pinned(ours), table)), upsert_plain(theirs, table)
    assert versions(ours) == versions(theirs) == {"a": (2, 4), "b": (2, 2), "c": (3, 4), "d": (4, 4)}
    delta = ours.delta(begin_version=3, end_version=4)
    assert sorted(delta.get_inserted_rows().read_all()["id"].to_pylist()) == ["d"]
    assert sorted(delta.get_updated_rows().read_all()["id"].to_pylist()) == ["a", "c"]


def test_new_rows_spread_over_several_files_keep_their_row_ids(tmp_path: Path) -> None:
    handle = append(create(tmp_path / "t.lance"), rows([f"k{k}" for k in range(1000)]))
    before = row_ids(handle)
    ids = [f"k{k}" for k in range(500, 1500)]
    random.Random(1).shuffle(ids)
    change = stage_upsert(pinned(handle), rows(ids, 1), max_rows_per_file=150)
    assert len(change.transaction.operation.new_fragments) == 7
    after = row_ids(commit(handle, change))
    assert {one: after[one] for one in before} == before
    assert len(set(after.values())) == 1500


def test_a_fragment_that_loses_its_last_row_is_dropped_without_a_file(tmp_path: Path) -> None:
    handle = create(tmp_path / "t.lance")
    for k in range(20):
        handle = append(handle, rows([f"k{k}"]))
    meter = Meter()
    addresses = pinned(handle).locate(pa.array(["k3", "k4"]))["_rowaddr"].combine_chunks()
    change = stage_update(handle, addresses, rows(["k3"], 1), replaces=addresses.slice(0, 1), meter=meter)
    assert change.transaction.operation.removed_fragment_ids == [3, 4]
    assert change.transaction.operation.updated_fragments == []
    assert meter.snapshot().requests == 1  # the data file
    assert sorted(content(commit(handle, change))) == sorted(f"k{k}" for k in range(20) if k != 4)


def test_an_upsert_costs_one_data_file_and_one_file_for_each_touched_fragment(tmp_path: Path) -> None:
    handle = create(tmp_path / "t.lance")
    for k in range(5):
        handle = append(handle, rows([f"k{k * 100 + j}" for j in range(100)]))
    table, meter = pinned(handle), Meter()
    located = table.locate(pa.array(["k5", "k205", "k207", "new"]))
    stage_upsert(table, rows(["k5", "k205", "k207", "new"], 1), located=located, meter=meter)
    assert meter.snapshot().requests == 1 + 2


def test_rows_may_leave_in_the_transaction_that_brings_others(tmp_path: Path) -> None:
    handle = append(create(tmp_path / "t.lance"), rows(["a", "b", "c"]))
    table = pinned(handle)
    gone = table.locate(pa.array(["c"]))["_rowaddr"].combine_chunks()
    change = stage_upsert(table, rows(["a", "d"], 1), also_deleted=gone)
    assert (change.inserted, change.updated) == (1, 1)
    landed = commit(handle, change)
    assert landed.version == handle.version + 1
    assert {one: value[0] for one, value in content(landed).items()} == {"a": 1, "b": 0, "d": 1}
    assert row_ids(landed)["a"] == row_ids(handle)["a"]


def test_nothing_to_do_stages_nothing(tmp_path: Path) -> None:
    handle = append(create(tmp_path / "t.lance"), rows(["a"]))
    assert stage_delete(handle, pa.array([], pa.uint64())).is_empty
    assert stage_update(handle, pa.array([], pa.uint64()), None).is_empty


def test_staging_moves_no_version(tmp_path: Path) -> None:
    handle = append(create(tmp_path / "t.lance"), rows(["a", "b"]))
    stage_upsert(pinned(handle), rows(["a", "c"], 1))
    assert lance.dataset(handle.uri).version == handle.version
    assert sorted(content(lance.dataset(handle.uri))) == ["a", "b"]


class TestBesideOthers:
    """A staged change beside one that landed first: as Lance's own staged merge, no better and no worse."""

    def stage(self, handle: LanceDataset, kind: str) -> StagedChange:
        table = pinned(handle)
        if kind == "upsert":
            return stage_upsert(table, rows(["k1", "fresh"], 7))
        return stage_delete(handle, table.locate(pa.array(["k1"]))["_rowaddr"].combine_chunks())

    def table(self, path: Path) -> LanceDataset:
        handle = create(path / "t.lance")
        for k in range(3):
            handle = append(handle, rows([f"k{k * 2}", f"k{k * 2 + 1}"]))
        return handle

    @pytest.mark.parametrize("kind", ["upsert", "delete"])
    def test_a_change_after_an_append_lands_off_its_place(self, tmp_path: Path, kind: str) -> None:
        handle = self.table(tmp_path)
        change = self.stage(handle, kind)
        append(handle, rows(["other"]))
        landed = commit(handle, change)
        assert landed.version == handle.version + 2  # which the landing rule of the protocol notices
        assert "other" in content(landed)
        assert len(set(row_ids(landed).values())) == landed.count_rows()

    @pytest.mark.parametrize("kind", ["upsert", "delete"])
    def test_a_change_after_one_of_another_fragment_keeps_both(self, tmp_path: Path, kind: str) -> None:
        handle = self.table(tmp_path)
        change = self.stage(handle, kind)
        commit(handle, stage_upsert(pinned(handle), rows(["k5"], 3)))
        landed = commit(handle, change)
        assert landed.version == handle.version + 2
        assert content(landed)["k5"][0] == 3
        assert content(landed).get("k1", (None,))[0] == (7 if kind == "upsert" else None)

    @pytest.mark.parametrize("rival", ["upsert", "delete", "compact"])
    @pytest.mark.parametrize("kind", ["upsert", "delete"])
    def test_a_change_after_one_of_the_same_fragment_is_refused(self, tmp_path: Path, kind: str, rival: str) -> None:
        handle = self.table(tmp_path)
        change = self.stage(handle, kind)
        other = lance.dataset(handle.uri)
        if rival == "compact":
            other.optimize.compact_files()
        elif rival == "delete":
            other.delete("id = 'k0'")
        else:
            commit(other, stage_upsert(pinned(other), rows(["k0"], 3)))
        with pytest.raises(CommitConflictError) as refused:
            commit(handle, change)
        assert refused.value.retryable

    @pytest.mark.parametrize("kind", ["upsert", "delete"])
    def test_a_change_after_an_overwrite_is_refused_for_good(self, tmp_path: Path, kind: str) -> None:
        handle = self.table(tmp_path)
        change = self.stage(handle, kind)
        LanceDataset.commit(handle, LanceOperation.Overwrite(handle.lance_schema, []), read_version=handle.version)
        with pytest.raises(CommitConflictError) as refused:
            commit(handle, change)
        assert not refused.value.retryable

    def test_the_same_change_never_lands_twice(self, tmp_path: Path) -> None:
        handle = self.table(tmp_path)
        change = self.stage(handle, "upsert")
        landed = commit(handle, change)
        with pytest.raises(CommitConflictError):
            LanceDataset.commit(landed, change.transaction)
        assert content(lance.dataset(handle.uri)) == content(landed)


def test_uuid_and_properties_of_a_staged_change_survive_its_commit(tmp_path: Path) -> None:
    handle = append(create(tmp_path / "t.lance"), rows(["a", "b"]))
    change = stage_upsert(pinned(handle), rows(["a"], 1))
    change.transaction.uuid = "0f0f0f0f-1111-4222-8333-444444444444"
    change.transaction.transaction_properties = {"operation": "x"}
    landed = commit(handle, change)
    read = landed.read_transaction(landed.version)
    assert (read.uuid, dict(read.transaction_properties)) == (change.transaction.uuid, {"operation": "x"})


def test_an_address_of_no_fragment_is_an_error_and_nothing_is_staged(tmp_path: Path) -> None:
    handle = append(create(tmp_path / "t.lance"), rows(["a"]))
    with pytest.raises(OmnigraphError):
        stage_delete(handle, pa.array([9 << 32], pa.uint64()))


def test_replaced_rows_are_looked_up_through_an_index_that_does_not_cover_them(tmp_path: Path) -> None:
    handle = append(create(tmp_path / "t.lance"), rows([f"k{k}" for k in range(100)]))
    handle.create_scalar_index("n", "BTREE")
    handle = lance.dataset(handle.uri)
    handle = commit(handle, stage_upsert(pinned(handle), rows(["k1", "k2"], 5)))
    assert sorted(handle.to_table(filter="n = 5")["id"].to_pylist()) == ["k1", "k2"]
    assert handle.count_rows("n = 0") == 98
    assert pc.sum(handle.to_table(columns=["n"])["n"]).as_py() == 10
