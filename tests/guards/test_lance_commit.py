"""Facts of Lance's commit that landing rule, swap and compensation lean on.

One test a fact, named for it: when an upgrade changes one, its name says which part of the protocol to look at again.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError

from tests.guards.substrate import (
    SCHEMA,
    STAGED,
    append,
    commit,
    configure,
    create,
    create_index,
    delete,
    filled,
    head,
    ids,
    insert_only,
    overwrite,
    restore,
    rows,
    upsert,
    write,
)


@pytest.fixture
def uri(any_root: str) -> str:
    return f"{any_root}/t.lance"


# --- what is strict, and what is not ------------------------------------------------------------------------------------


def test_a_strict_overwrite_lands_at_exactly_the_next_version_or_not_at_all(uri: str) -> None:
    base = filled(uri, ["a"])
    late = overwrite(base, ["late"])
    assert commit(base, overwrite(base, ["first"])).version == base.version + 1
    with pytest.raises(CommitConflictError) as caught:
        commit(base, late)
    assert caught.value.retryable
    assert ids(head(uri)) == ["first"]


@pytest.mark.parametrize("between", sorted(STAGED))
def test_nothing_can_come_between_a_strict_overwrite_and_its_base(uri: str, between: str) -> None:
    base = filled(uri, ["a", "b"])
    swap = overwrite(base, ["swap"])
    commit(base, STAGED[between](base))
    with pytest.raises(CommitConflictError):
        commit(base, swap)


@pytest.mark.parametrize("kind", sorted(set(STAGED) - {"overwrite"}))
def test_everything_but_an_overwrite_is_rebased_in_spite_of_zero_retries(uri: str, kind: str) -> None:
    """Why the achieved version has to be compared by the caller."""
    base = filled(uri, ["a"], ["b"], ["c"])
    staged = STAGED[kind](base)
    commit(base, append(base, ["stranger"]))
    assert commit(base, staged).version == base.version + 2


def test_two_staged_inserts_of_one_key_both_land(uri: str) -> None:
    """Why "close enough" is not a landing: the declared key does not protect staged inserts."""
    base = filled(uri, ["a"])
    one, other = insert_only(base, ["k"]), insert_only(base, ["k"])
    commit(base, one)
    assert commit(base, other).version == base.version + 2
    assert ids(head(uri)) == ["a", "k", "k"]


def test_two_staged_updates_of_one_row_do_not_both_land(uri: str) -> None:
    base = filled(uri, ["a", "b"])
    one, other = upsert(base, ["a"], 1), upsert(base, ["a"], 2)
    commit(base, one)
    with pytest.raises(CommitConflictError) as caught:
        commit(base, other)
    assert caught.value.retryable


def test_commit_returns_the_landed_version_and_leaves_its_handle_where_it_was(uri: str) -> None:
    base = filled(uri, ["a"])
    at = base.version
    landed = commit(base, append(base, ["b"]))
    assert (base.version, landed.version) == (at, at + 1)
    assert commit(landed, append(landed, ["c"])).version == at + 2


def test_a_strict_create_has_one_winner(uri: str) -> None:
    def make(_: int) -> bool:
        try:
            creation = Transaction(0, LanceOperation.Overwrite(SCHEMA, []))
            LanceDataset.commit(uri, creation, enable_stable_row_ids=True, max_retries=0)
        except OSError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(make, range(4))) == 1
    assert head(uri).version == 1


# --- identity -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(set(STAGED) - {"create_index"}))
def test_uuid_and_properties_of_a_transaction_read_back(uri: str, kind: str) -> None:
    base = filled(uri, ["a"], ["b"])
    staged = STAGED[kind](base)
    staged.transaction_properties = {"operation": "01ABC", "counts": '{"inserted": 1}'}
    landed = commit(base, staged)
    seen = landed.read_transaction(landed.version)
    assert seen.uuid == staged.uuid
    assert seen.transaction_properties == {"operation": "01ABC", "counts": '{"inserted": 1}'}


@pytest.mark.parametrize("kind", ["append", "upsert", "overwrite", "restore"])
def test_a_uuid_may_be_minted_before_staging(uri: str, kind: str) -> None:
    base = filled(uri, ["a"])
    staged = STAGED[kind](base)
    staged.uuid = "0b1ebcd8-16f9-4cf2-8d3d-6f0ae2a6d7a1"
    landed = commit(base, staged)
    assert landed.read_transaction(landed.version).uuid == "0b1ebcd8-16f9-4cf2-8d3d-6f0ae2a6d7a1"


def test_a_restore_names_what_it_restored(uri: str) -> None:
    base = filled(uri, ["a"])
    moved = commit(base, append(base, ["b"]))
    landed = commit(base, restore(base, base.version))
    operation = landed.read_transaction(landed.version).operation
    assert isinstance(operation, LanceOperation.Restore)
    assert operation.version == base.version
    assert (moved.version, landed.version) == (base.version + 1, base.version + 2)


# --- repeating ----------------------------------------------------------------------------------------------------------


def test_repeating_a_strict_overwrite_returns_the_version_it_had(uri: str) -> None:
    base = filled(uri, ["a"])
    swap = overwrite(base, ["swap"])
    first = commit(base, swap)
    assert commit(base, swap).version == first.version
    later = commit(first, overwrite(first, ["later"]))
    assert head(uri).version == later.version


def test_repeating_an_append_lands_twice(uri: str) -> None:
    base = filled(uri, ["a"])
    staged = append(base, ["b"])
    commit(base, staged)
    commit(base, staged)
    assert ids(head(uri)) == ["a", "b", "b"]


def test_repeating_a_restore_lands_twice(uri: str) -> None:
    base = filled(uri, ["a"])
    again = restore(base, base.version)
    commit(base, again)
    assert commit(base, again).version == base.version + 2


def test_repeating_an_update_is_refused(uri: str) -> None:
    base = filled(uri, ["a", "b"])
    staged = upsert(base, ["a"], 1)
    commit(base, staged)
    with pytest.raises(CommitConflictError):
        commit(base, staged)


# --- restore ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["append", "upsert", "delete", "overwrite", "restore", "create_index"])
def test_a_restore_never_conflicts(uri: str, before: str) -> None:
    base = filled(uri, ["a", "b"])
    back = restore(base, base.version)
    commit(base, STAGED[before](base))
    assert commit(base, back).version == base.version + 2
    assert ids(head(uri)) == ["a", "b"]


@pytest.mark.parametrize("staged", ["append", "upsert", "insert_only", "delete", "overwrite", "create_index"])
def test_a_restore_refuses_what_was_staged_before_it(uri: str, staged: str) -> None:
    base = filled(uri, ["a", "b"])
    zombie = STAGED[staged](base)
    commit(base, restore(base, base.version))
    with pytest.raises(CommitConflictError):
        commit(base, zombie)
    assert ids(head(uri)) == ["a", "b"]


@pytest.mark.parametrize("staged", ["restore", "update_config"])
def test_a_restore_does_not_refuse_another_restore_nor_a_config_update(uri: str, staged: str) -> None:
    base = filled(uri, ["a"])
    zombie = STAGED[staged](base)
    commit(base, restore(base, base.version))
    assert commit(base, zombie).version == base.version + 2


def test_a_restore_of_the_current_version_makes_a_new_one(uri: str) -> None:
    base = filled(uri, ["a"])
    assert commit(base, restore(base, base.version)).version == base.version + 1


def test_a_restore_reverts_configuration(uri: str) -> None:
    base = filled(uri, ["a"])
    commit(base, configure(base, {"k": "v"}))
    assert commit(base, restore(base, base.version)).config() == base.config()


def test_the_fence_of_a_restore_ends_when_its_version_is_cleaned(uri: str) -> None:
    """Why the fence is help and the landing rule is the proof."""
    base = filled(uri, ["a"])
    zombie = append(base, ["zombie"])
    fence = commit(base, restore(base, base.version))
    after = commit(fence, append(fence, ["b"]))
    after = commit(after, append(after, ["c"]))
    after.cleanup_old_versions(versions=[fence.version])
    landed = commit(base, zombie)
    assert landed.version > base.version + 1
    assert "zombie" in ids(landed)


def test_conflict_detection_sees_only_versions_that_still_exist(uri: str) -> None:
    base = filled(uri, ["a", "b"])
    stale = upsert(base, ["a"], 1)
    conflicting = commit(base, upsert(base, ["a"], 2))
    after = commit(conflicting, append(conflicting, ["c"]))
    after.cleanup_old_versions(versions=[conflicting.version])
    landed = commit(base, stale)
    assert landed.version == after.version + 1
    assert ids(landed).count("a") == 2


def test_a_cleaned_version_cannot_be_restored(uri: str) -> None:
    """Why a pin is never deleted: compensation restores it."""
    base = filled(uri, ["a"])
    after = commit(base, append(base, ["b"]))
    after = commit(after, append(after, ["c"]))
    after.cleanup_old_versions(versions=[base.version])
    with pytest.raises(OSError, match="(?i)not found"):
        commit(after, restore(after, base.version))
    assert head(uri).version == after.version


def test_row_ids_are_never_used_again_after_a_restore(uri: str) -> None:
    base = filled(uri, ["a"])
    rubbish = commit(base, append(base, ["rubbish"]))
    back = commit(base, restore(base, base.version))
    after = commit(back, append(back, ["b"]))

    def row_ids(handle: LanceDataset) -> dict[str, int]:
        found = handle.to_table(with_row_id=True)
        return dict(zip(found["id"].to_pylist(), found["_rowid"].to_pylist(), strict=True))

    assert row_ids(after)["a"] == row_ids(base)["a"]
    assert row_ids(after)["b"] not in row_ids(rubbish).values()


def test_an_index_of_the_pin_comes_back_with_a_restore_and_hides_rubbish(uri: str) -> None:
    base = filled(uri, ["a", "b"])
    base = commit(base, create_index(base))
    commit(base, append(base, ["rubbish"]))
    back = commit(base, restore(base, base.version))
    assert [index.name for index in back.describe_indices()] == ["by_id"]
    assert back.to_table(filter="id = 'rubbish'").num_rows == 0
    assert back.to_table(filter="id = 'b'").num_rows == 1


def test_staged_files_may_be_used_again_under_a_fresh_transaction(uri: str) -> None:
    base = filled(uri, ["a"])
    staged = append(base, ["b"])
    back = commit(base, restore(base, base.version))
    with pytest.raises(CommitConflictError):
        commit(back, staged)
    landed = commit(back, Transaction(back.version, staged.operation))
    assert ids(landed) == ["a", "b"]


# --- overwrite as the manifest's swap -----------------------------------------------------------------------------------


def test_an_overwrite_keeps_the_order_of_its_fragments(uri: str) -> None:
    """Last fragment = current state."""
    base = filled(uri, ["archive-1"], ["archive-2"], ["current-1"])
    kept = [fragment.metadata for fragment in base.get_fragments()][:2]
    landed = commit(
        base,
        Transaction(base.version, LanceOperation.Overwrite(base.lance_schema, [*kept, *write(base, ["current-2"])])),
    )
    by_fragment = [fragment.to_table()["id"].to_pylist() for fragment in landed.get_fragments()]
    assert by_fragment == [["archive-1"], ["archive-2"], ["current-2"]]
    reopened = [fragment.to_table()["id"].to_pylist() for fragment in head(uri).get_fragments()]
    assert reopened == by_fragment


def test_kept_fragments_of_an_overwrite_keep_their_files(uri: str) -> None:
    base = filled(uri, ["archive"], ["current-1"])
    kept = [fragment.metadata for fragment in base.get_fragments()][:1]
    landed = commit(
        base,
        Transaction(base.version, LanceOperation.Overwrite(base.lance_schema, [*kept, *write(base, ["current-2"])])),
    )
    assert landed.get_fragments()[0].data_files()[0].path == base.get_fragments()[0].data_files()[0].path


def test_an_overwrite_may_leave_no_fragment(uri: str) -> None:
    base = filled(uri, ["a"])
    landed = commit(base, Transaction(base.version, LanceOperation.Overwrite(base.lance_schema, [])))
    assert (landed.count_rows(), len(landed.get_fragments())) == (0, 0)
    assert commit(landed, append(landed, ["b"])).count_rows() == 1


def test_schema_metadata_and_the_declared_key_survive_an_overwrite(uri: str) -> None:
    base = filled(uri, ["a"])
    landed = commit(base, overwrite(base, ["b"]))
    assert landed.schema.field("id").metadata[b"lance-schema:unenforced-primary-key"] == b"true"
    assert not landed.schema.field("id").nullable


def test_a_commit_does_not_look_for_its_files(local_root: str) -> None:
    """Why staged files are verified before arming, and why cleanup must not touch them."""
    uri = f"{local_root}/t.lance"
    base = filled(uri, ["a"])
    files = write(base, ["gone"])
    (Path(uri) / "data" / files[0].files[0].path).unlink()
    landed = commit(base, Transaction(base.version, LanceOperation.Append(files)))
    with pytest.raises((OSError, ValueError), match="(?i)not found"):
        landed.to_table()


# --- insert-only merge, the audit's exactly-once ------------------------------------------------------------------------


def test_an_insert_only_merge_on_a_key_without_index_has_one_winner(uri: str) -> None:
    create(uri)
    handles = [head(uri) for _ in range(4)]

    def insert(handle: LanceDataset) -> int:
        merge = handle.merge_insert("id").when_not_matched_insert_all().conflict_retries(0)
        try:
            return int(merge.execute(rows(["operation"]))["num_inserted_rows"])
        except OSError as error:
            assert "Too many concurrent writers" in str(error)
            return 0

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(insert, handles)) == 1
    assert ids(head(uri)) == ["operation"]


# --- what failures look like --------------------------------------------------------------------------------------------


def test_a_missing_version_is_told_by_type_and_text(uri: str) -> None:
    filled(uri, ["a"])
    with pytest.raises(ValueError, match="(?i)not found"):
        lance.dataset(uri, version=99)


def test_a_missing_dataset_is_told_by_type_and_text(uri: str) -> None:
    with pytest.raises(ValueError, match="(?i)not found"):
        lance.dataset(uri)


def test_a_nullable_key_is_rejected(uri: str) -> None:
    schema = pa.schema([pa.field("id", pa.string(), nullable=True, metadata=SCHEMA.field("id").metadata)])
    with pytest.raises(RuntimeError, match="must not be nullable"):
        LanceDataset.commit(uri, LanceOperation.Overwrite(schema, []))


def test_a_conflict_is_retryable_or_not_as_the_conflict_matrix_says(uri: str) -> None:
    base = filled(uri, ["a", "b"])
    gone, same_row = append(base, ["x"]), upsert(base, ["a"], 5)
    touched = commit(base, upsert(base, ["a"], 1))
    with pytest.raises(CommitConflictError) as caught:
        commit(base, same_row)
    assert caught.value.retryable
    commit(touched, overwrite(touched, ["all"]))
    with pytest.raises(CommitConflictError) as caught:
        commit(base, gone)
    assert not caught.value.retryable


def test_a_staged_delete_removes_exactly_its_rows(uri: str) -> None:
    base = filled(uri, ["a", "b"], ["c"])
    assert ids(commit(base, delete(base, ["a", "c"]))) == ["b"]
