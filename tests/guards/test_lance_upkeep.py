"""Facts of Lance that cleanup, compaction, indexing and branches lean on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.optimize import Compaction

from tests.guards.substrate import (
    SCHEMA,
    append,
    commit,
    create,
    create_index,
    filled,
    head,
    ids,
    overwrite,
    restore,
    upsert,
)

TEN_DAYS_S = 10 * 24 * 3600


@pytest.fixture
def uri(any_root: str) -> str:
    return f"{any_root}/t.lance"


@pytest.fixture
def local_uri(local_root: str) -> str:
    return f"{local_root}/t.lance"


def versions_of(uri: str) -> list[int]:
    return [version["version"] for version in head(uri).versions()]


def age(folder: str) -> None:
    """As if nothing in there had been touched for ten days."""
    for file in Path(folder).rglob("*"):
        if file.is_file():
            then = file.stat().st_mtime - TEN_DAYS_S
            os.utime(file, (then, then))


# --- cleanup ------------------------------------------------------------------------------------------------------------


def test_cleanup_by_number_deletes_exactly_those_versions(uri: str) -> None:
    base = filled(uri, ["a"], ["b"], ["c"], ["d"])
    base.cleanup_old_versions(versions=[2, 4])
    assert versions_of(uri) == [1, 3, 5]
    for version in (1, 3, 5):
        assert lance.dataset(uri, version=version).count_rows() == version - 1


def test_a_reader_of_a_cleaned_version_fails_loudly(uri: str) -> None:
    reader = filled(uri, ["a"])
    after = commit(reader, overwrite(reader, ["b"]))
    after = commit(after, append(after, ["c"]))
    after.cleanup_old_versions(versions=[1, reader.version])
    with pytest.raises((OSError, ValueError), match="(?i)not found"):
        lance.dataset(uri, version=reader.version).to_table()


def test_cleanup_spares_staged_files_that_no_version_names_yet(uri: str) -> None:
    base = filled(uri, ["a"])
    staged = append(base, ["staged"])
    after = commit(base, append(base, ["b"]))
    after = commit(after, append(after, ["c"]))
    after.cleanup_old_versions(versions=[base.version + 1], delete_unverified=False)
    assert ids(commit(base, staged)) == ["a", "b", "c", "staged"]


def test_cleanup_takes_staged_files_older_than_a_week(local_uri: str) -> None:
    """Why a cleanup mark makes writers plan again, and why staging records protect files by name."""
    base = filled(local_uri, ["a"])
    staged = append(base, ["staged"])
    after = commit(base, append(base, ["b"]))
    after = commit(after, append(after, ["c"]))
    age(local_uri)
    after.cleanup_old_versions(versions=[base.version + 1], delete_unverified=False)
    landed = commit(base, staged)
    with pytest.raises((OSError, ValueError), match="(?i)not found"):
        landed.to_table()


def test_automatic_cleanup_is_off_by_default(uri: str) -> None:
    base = filled(uri, *[[str(n)] for n in range(6)])
    assert base.config() == {}
    assert len(versions_of(uri)) == 7


def test_a_late_restore_to_a_live_pin_is_possible_after_other_versions_were_cleaned(uri: str) -> None:
    base = filled(uri, ["a"])
    after = commit(base, append(base, ["rubbish"]))
    after = commit(after, append(after, ["more"]))
    after.cleanup_old_versions(versions=[base.version + 1])
    assert ids(commit(base, restore(base, base.version))) == ["a"]


# --- compaction and indexes ---------------------------------------------------------------------------------------------


def test_a_compaction_makes_two_versions_and_keeps_rows_and_row_ids(uri: str) -> None:
    base = filled(uri, ["a"], ["b"], ["c"])
    before = base.to_table(with_row_id=True).sort_by("id")
    tasks = [task.execute(base) for task in Compaction.plan(base, {"target_rows_per_fragment": 100}).tasks]
    at = base.version
    assert head(uri).version == at  # planning and rewriting move nothing
    Compaction.commit(base, tasks)
    after = head(uri)
    assert after.version == at + 2
    assert after.to_table(with_row_id=True).sort_by("id").equals(before)
    assert len(after.get_fragments()) == 1


def test_a_compaction_refuses_updates_staged_before_it(uri: str) -> None:
    base = filled(uri, ["a"], ["b"])
    stale = lance.dataset(uri, version=base.version)
    staged = upsert(stale, ["a"], 1)
    Compaction.commit(base, [task.execute(base) for task in Compaction.plan(base, {}).tasks])
    with pytest.raises(lance.commit.CommitConflictError):
        commit(stale, staged)


def test_a_compaction_lets_appends_staged_before_it_land(uri: str) -> None:
    base = filled(uri, ["a"], ["b"])
    stale = lance.dataset(uri, version=base.version)
    staged = append(stale, ["c"])
    Compaction.commit(base, [task.execute(base) for task in Compaction.plan(base, {}).tasks])
    assert ids(commit(stale, staged)) == ["a", "b", "c"]


def test_a_restore_refuses_a_compaction_that_was_rewritten_before_it(uri: str) -> None:
    base = filled(uri, ["a"], ["b"])
    stale = lance.dataset(uri, version=base.version)
    rewritten = [task.execute(base) for task in Compaction.plan(base, {}).tasks]
    commit(stale, restore(stale, stale.version))
    with pytest.raises(OSError):
        Compaction.commit(base, rewritten)


def test_an_index_tells_which_fragments_it_covers(uri: str) -> None:
    base = filled(uri, ["a"], ["b"])
    indexed = commit(base, create_index(base))
    after = commit(indexed, append(indexed, ["c"]))
    (index,) = after.describe_indices()
    covered = set().union(*(segment.fragment_ids for segment in index.segments))
    assert covered == {fragment.fragment_id for fragment in base.get_fragments()}


def test_rows_outside_an_index_are_found_all_the_same(uri: str) -> None:
    base = filled(uri, ["a"], ["b"])
    indexed = commit(base, create_index(base))
    after = commit(indexed, append(indexed, ["c"]))
    assert [after.to_table(filter=f"id = '{name}'").num_rows for name in "abcd"] == [1, 1, 1, 0]


def test_several_indexes_fit_into_one_commit(uri: str) -> None:
    base = filled(uri, ["a"])
    fragments = [fragment.fragment_id for fragment in base.get_fragments()]
    made = [
        base.create_index_uncommitted(column, "BTREE", name=f"by_{column}", fragment_ids=fragments)
        for column in ("id", "v")
    ]
    after = LanceDataset.commit(base, LanceOperation.CreateIndex(made, []), read_version=base.version)
    assert sorted(index.name for index in after.describe_indices()) == ["by_id", "by_v"]
    assert after.version == base.version + 1


# --- row ids and lineage ------------------------------------------------------------------------------------------------


def test_stable_row_ids_are_chosen_at_creation_and_kept_by_updates(uri: str) -> None:
    base = filled(uri, ["a", "b"])

    def row_ids(handle: LanceDataset) -> dict[str, int]:
        found = handle.to_table(with_row_id=True)
        return dict(zip(found["id"].to_pylist(), found["_rowid"].to_pylist(), strict=True))

    assert row_ids(commit(base, upsert(base, ["a"], 9))) == row_ids(base)


SPILL = {"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "1024"}


@pytest.fixture
def churned(local_root: str) -> Iterator[dict[bool, int]]:
    """Bytes of the newest manifest after updates all over a table, with lineage inline and spilled."""
    total, step = 200_000, 20
    sizes = {}
    for spill in (False, True):
        uri = f"{local_root}/spill-{spill}.lance"
        handle = create(uri)
        if spill:
            handle.update_config(SPILL)
        data = pa.table({"id": [f"{n:07d}" for n in range(total)], "v": list(range(total))}, schema=SCHEMA)
        handle = lance.write_dataset(data, handle, mode="append")
        handle = commit(handle, upsert(handle, [f"{n:07d}" for n in range(0, total, step)], -1))
        assert handle.count_rows() == total
        assert handle.count_rows(filter="v = -1") == total // step
        assert len(set(handle.to_table(columns=[], with_row_id=True)["_rowid"].to_pylist())) == total
        newest = min((Path(uri) / "_versions").glob("*.manifest"))
        sizes[spill] = newest.stat().st_size
    yield sizes


def test_row_lineage_grows_every_manifest_and_spilling_keeps_it_small(churned: dict[bool, int]) -> None:
    assert churned[False] > 50_000
    assert churned[True] < 10_000


# --- branches -----------------------------------------------------------------------------------------------------------


def test_a_fork_counts_on_from_its_base_and_leaves_the_main_line_alone(uri: str) -> None:
    base = filled(uri, ["a"])
    at = base.version
    fork = base.create_branch("f-01", at)
    landed = commit(fork, append(fork, ["b"]))
    assert (fork.version, landed.version) == (at, at + 1)
    assert (head(uri).version, ids(head(uri))) == (at, ["a"])
    assert ids(lance.dataset(f"{uri}/tree/f-01")) == ["a", "b"]


def test_a_restore_on_a_fork_stays_on_the_fork(uri: str) -> None:
    base = filled(uri, ["a"])
    at = base.version
    fork = base.create_branch("f-01", at)
    commit(fork, append(fork, ["rubbish"]))
    back = commit(fork, restore(fork, fork.version))
    assert (back.version, ids(back), head(uri).version) == (at + 2, ["a"], at)


def test_a_version_from_before_the_fork_is_not_on_the_fork(uri: str) -> None:
    base = filled(uri, ["a"], ["b"])
    fork = base.create_branch("f-01", base.version)
    moved = commit(fork, append(fork, ["c"]))
    with pytest.raises(OSError, match="(?i)not found"):
        commit(moved, restore(moved, base.version - 1))


def test_a_name_forks_once(uri: str) -> None:
    base = filled(uri, ["a"])
    base.create_branch("f-01", base.version)
    with pytest.raises((OSError, ValueError, RuntimeError)):
        base.create_branch("f-01", base.version)


def test_a_commit_through_a_held_handle_recreates_a_deleted_fork(local_uri: str) -> None:
    """Why the boundary of a deleted branch is kept outside its directory, and why no name is used twice."""
    base = filled(local_uri, ["a"])
    fork = base.create_branch("f-01", base.version)
    staged = append(fork, ["zombie"])
    base.branches.delete("f-01")
    assert not (Path(local_uri) / "tree" / "f-01").exists()
    commit(fork, staged)
    assert (Path(local_uri) / "tree" / "f-01").exists()
    assert ids(head(local_uri)) == ["a"]


def test_a_swap_of_a_deleted_branch_lands_on_its_namesake_and_bricks_it(uri: str) -> None:
    """Why the ref of a branch carries an identity."""
    base = filled(uri, ["a"])
    first_life = base.create_branch("br", base.version)
    swap = overwrite(first_life, ["first life"])
    base.branches.delete("br")
    base.create_branch("br", base.version)
    landed = commit(first_life, swap)
    second_life = lance.dataset(f"{uri}/tree/br")
    assert second_life.version == landed.version
    with pytest.raises((OSError, ValueError), match="(?i)not found"):
        second_life.to_table()  # the files went with the first life


def test_cleanup_of_the_main_line_respects_what_a_fork_needs(local_uri: str) -> None:
    base = filled(local_uri, ["a"])
    base.create_branch("f-01", base.version)
    after = commit(base, overwrite(base, ["b"]))
    after = commit(after, append(after, ["c"]))
    age(local_uri)
    after.cleanup_old_versions(versions=[1])
    assert ids(lance.dataset(f"{local_uri}/tree/f-01")) == ["a"]


# --- credentials --------------------------------------------------------------------------------------------------------


def test_a_pickled_handle_carries_its_credentials(s3_root: str) -> None:
    """Why no handle of Lance's ever crosses a process border."""
    import pickle

    uri = f"{s3_root}/t.lance"
    options = {"aws_secret_access_key": "canary-4711", "aws_access_key_id": "x"}
    filled(uri, ["a"])
    handle = lance.dataset(uri, storage_options=options)
    assert b"canary-4711" in pickle.dumps(handle)
    assert "canary-4711" not in repr(handle)
