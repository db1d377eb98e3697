"""Facts of Lance that branches lean on: lines of versions that begin with another line's, and what they share with it.

A fork here is a Clone to a path of its own, as ``omnigraph.table.lines`` makes it. Facts that are defects of Lance say
"still": when one fails, a guard of the engine may go, and no promise is at stake.
"""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import FragmentMetadata

from omnigraph.testing.faults import FaultProxy, Match, Rule, drop, fail
from tests.guards.substrate import append, commit, create_index, delete, filled, head, ids, overwrite, restore, upsert

UUID = "0b1ebcd8-16f9-4cf2-8d3d-6f0ae2a6d7a1"
MISSING = pytest.raises((OSError, ValueError), match="(?i)not found")


@pytest.fixture
def uri(any_root: str) -> str:
    return f"{any_root}/t.lance"


@pytest.fixture
def local_uri(local_root: str) -> str:
    return f"{local_root}/t.lance"


def clone(base: LanceDataset) -> Transaction:
    """As of the version of the handle."""
    made = Transaction(base.version, LanceOperation.Clone(True, None, base.version, base.uri, None))
    made.uuid = UUID
    made.transaction_properties = {"operation": "01ABC"}
    return made


def fork(base: LanceDataset, name: str) -> LanceDataset:
    """A line below the folder of the table, whatever line ``base`` is on."""
    table = base.uri.partition("/tree/")[0]
    return LanceDataset.commit(f"{table}/tree/{name}", clone(base), max_retries=0)


def indexed(uri: str) -> LanceDataset:
    """Two fragments with an index by id, and a deletion."""
    base = filled(uri, ["a", "b", "x"], ["c", "d"])
    base = commit(base, create_index(base))
    return commit(base, delete(base, ["x"]))


def found(handle: LanceDataset, id: str) -> int:
    """Rows with this id, looked up by the index where there is one."""
    return int(head(handle.uri).to_table(filter=f"id = '{id}'").num_rows)


def bases(handle: LanceDataset) -> set[int | None]:
    """Of the data files, deletion files and indices of a version: None is the line's own folder."""
    described = [json.loads(json.dumps(fragment.metadata.to_json())) for fragment in handle.get_fragments()]
    files = {file["base_id"] for one in described for file in one["files"]}
    deletions = {one["deletion_file"].get("base_id") for one in described if one["deletion_file"]}
    return files | deletions | {segment.base_id for index in handle.describe_indices() for segment in index.segments}


# --- a fork is one transaction, strict and ours -------------------------------------------------------------------------


def test_a_clone_lands_at_exactly_the_version_it_names_and_gives_our_uuid_back(uri: str) -> None:
    base = filled(uri, ["a"], ["b"])
    made = fork(base, "f-01")
    assert made.version == base.version
    assert ids(made) == ["a", "b"]
    assert made.has_stable_row_ids
    seen = head(made.uri).read_transaction(made.version)
    assert (seen.uuid, seen.transaction_properties) == (UUID, {"operation": "01ABC"})
    assert commit(made, append(made, ["c"])).version == base.version + 1
    assert ids(head(uri)) == ["a", "b"]


def test_a_second_clone_to_a_place_is_refused(uri: str) -> None:
    base = filled(uri, ["a"])
    fork(base, "f-01")
    with pytest.raises(OSError, match="Clone operation should not enter build_manifest|Dataset already exists"):
        fork(base, "f-01")
    with pytest.raises(OSError):  # of another version
        fork(commit(base, append(base, ["b"])), "f-01")
    assert ids(head(f"{uri}/tree/f-01")) == ["a"]
    assert head(f"{uri}/tree/f-01").version == base.version


def test_of_four_clones_to_a_place_at_once_one_lands(uri: str) -> None:
    base = filled(uri, ["a"])

    def make(number: int) -> int | None:
        planned = clone(base)
        planned.uuid = f"0000000{number}-0000-4000-8000-000000000000"
        try:
            LanceDataset.commit(f"{uri}/tree/f-01", planned, max_retries=0)
        except OSError:
            return None
        return number

    with ThreadPoolExecutor(4) as pool:
        [winner] = [one for one in pool.map(make, range(4)) if one is not None]
    made = head(f"{uri}/tree/f-01")
    assert made.read_transaction(made.version).uuid.startswith(f"0000000{winner}-")


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_clone_costs_five_requests_at_any_depth(fault_proxy: FaultProxy, proxied_root: str, depth: int) -> None:
    line = filled(f"{proxied_root}/t.lance", ["a"])
    for at in range(1, depth):
        line = fork(line, f"f-{at}")
        line = commit(line, append(line, [f"b{at}"]))
    fault_proxy.reset()
    fork(line, f"f-{depth}")
    assert fault_proxy.operations() == {"versions get": 1, "versions head": 1, "versions list": 1, "versions put": 2}


@pytest.mark.parametrize("fault", [drop(after=True), fail(503)], ids=["answer lost", "refused once"])
def test_a_lost_answer_to_a_clone_is_recognised_as_our_own_success(
    fault_proxy: FaultProxy, proxied_root: str, fault: Any
) -> None:
    base = filled(f"{proxied_root}/t.lance", ["a"])
    armed = fault_proxy.rule(Rule(fault, Match(mutating=True, key=r"/tree/f-01/_versions/")))
    made = fork(base, "f-01")
    assert armed.fired == 1
    assert head(made.uri).read_transaction(base.version).uuid == UUID


def test_two_appends_staged_at_the_fork_point_are_rebased_as_on_any_line(uri: str) -> None:
    made = fork(filled(uri, ["a"]), "f-01")
    one, other = append(made, ["b"]), append(made, ["c"])
    assert [commit(made, staged).version - made.version for staged in (one, other)] == [1, 2]


def test_a_restore_on_a_clone_reaches_back_to_the_fork_point_and_no_further(uri: str) -> None:
    base = filled(uri, ["a"], ["b"])
    made = fork(base, "f-01")
    moved = commit(made, append(made, ["c"]))
    assert ids(commit(moved, restore(moved, base.version))) == ["a", "b"]
    with pytest.raises(OSError, match="(?i)not found"):
        commit(moved, restore(moved, base.version - 1))


def test_an_overwrite_on_a_clone_needs_no_base_any_more_and_counts_row_ids_on(uri: str) -> None:
    base = filled(uri, ["a", "b"])
    base = commit(base, create_index(base))
    made = fork(base, "f-01")
    assert bases(made) == {0}
    after = commit(made, overwrite(made, ["c", "d"]))
    assert after.version == base.version + 1
    assert bases(after) == {None}
    assert not after.describe_indices()
    assert sorted(after.to_table(with_row_id=True)["_rowid"].to_pylist()) == [2, 3]


def test_two_forks_of_one_version_give_the_same_row_id_to_different_rows(uri: str) -> None:
    """Why rows of two lines are told apart by their key, never by a row id."""
    base = filled(uri, ["a"])
    row_ids = []
    for name in ("f-01", "f-02"):
        made = fork(base, name)
        after = commit(made, append(made, [name]))
        row_ids += after.to_table(filter=f"id = '{name}'", with_row_id=True)["_rowid"].to_pylist()
    assert row_ids[0] == row_ids[1]


# --- what lies in another line's folder ---------------------------------------------------------------------------------


def test_a_transaction_staged_on_the_parent_still_lands_on_a_fork_and_cannot_be_read(uri: str) -> None:
    """Why a staged change carries its line, and committing it elsewhere is refused before Lance sees it."""
    base = filled(uri, ["a"])
    made = fork(base, "f-01")
    landed = commit(made, append(base, ["stranger"]))
    assert landed.version == base.version + 1
    with MISSING:
        landed.to_table()


def test_base_paths_are_absolute_and_a_copied_fork_reads_the_original(local_uri: str, tmp_path: Path) -> None:
    """Why an open compares the bases in use with the root, and why a graph is settled before it is moved."""
    base = filled(local_uri, ["a"])
    made = fork(base, "f-01")
    assert [one.path for one in made.base_paths().values()] == [local_uri]
    copied = str(tmp_path / "copy.lance")
    shutil.copytree(local_uri, copied)
    moved = head(f"{copied}/tree/f-01")
    assert [one.path for one in moved.base_paths().values()] == [local_uri]
    assert ids(moved) == ["a"]
    os.rename(local_uri, f"{local_uri}.gone")
    with MISSING:
        head(f"{copied}/tree/f-01").to_table()


def test_lances_own_branches_name_their_base_by_its_absolute_path_as_well(local_uri: str) -> None:
    base = filled(local_uri, ["a"])
    made = base.create_branch("f-01", base.version)
    assert [one.path for one in made.base_paths().values()] == [local_uri]


def test_a_base_path_is_stored_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why forks are made by the canonical path of the root: this one breaks for all who come another way."""
    base = filled(str(tmp_path / "real" / "t.lance"), ["a"])
    (tmp_path / "link").symlink_to(tmp_path / "real")
    linked = str(tmp_path / "link" / "t.lance")
    monkeypatch.chdir(tmp_path / "real")
    for name, given in (("f-01", linked), ("f-02", "t.lance")):
        operation = LanceOperation.Clone(True, None, base.version, given, None)
        made = LanceDataset.commit(f"{base.uri}/tree/{name}", Transaction(base.version, operation), max_retries=0)
        assert [one.path for one in made.base_paths().values()] == [given]
    (tmp_path / "link").unlink()
    with MISSING:
        head(f"{base.uri}/tree/f-01").to_table()
    monkeypatch.chdir(tmp_path)
    with MISSING:
        head(f"{base.uri}/tree/f-02").to_table()


def test_a_delete_on_a_fork_writes_its_deletion_file_there(local_uri: str) -> None:
    base = indexed(local_uri)
    made = fork(base, "f-01")
    assert bases(made) == {0}
    after = commit(made, delete(made, ["c"]))
    assert (ids(after), ids(head(local_uri))) == (["a", "b", "d"], ["a", "b", "c", "d"])
    assert len(list(Path(made.uri, "_deletions").iterdir())) == 1


def test_the_bases_in_use_cost_nothing_after_an_open_and_one_get_after_a_commit(
    fault_proxy: FaultProxy, proxied_root: str
) -> None:
    base = indexed(f"{proxied_root}/t.lance")
    made = fork(base, "f-01")
    opened = head(made.uri)
    fault_proxy.reset()
    assert bases(opened) == {0}
    assert fault_proxy.operations() == {}
    bases(made)
    assert fault_proxy.counts()["total"] <= 1


# --- cleanup ------------------------------------------------------------------------------------------------------------


def rewritten(line: LanceDataset) -> LanceDataset:
    """Two versions on, with every file another one."""
    line = head(line.uri)
    line = commit(line, overwrite(line, ["new"]))
    return commit(line, append(line, ["newer"]))


def deleted_but(line: LanceDataset, kept: set[int]) -> int:
    """Delete all old versions by number but these; return how many Lance says have gone."""
    numbers = [one["version"] for one in line.versions() if one["version"] not in kept | {line.version}]
    return int(line.cleanup_old_versions(versions=numbers, delete_unverified=False).old_versions)


def test_the_fork_point_of_a_clone_is_still_not_protected(uri: str) -> None:
    """Why a cleanup keeps the fork points of all lines itself."""
    base = filled(uri, ["a"])
    made = fork(base, "f-01")
    assert ids(made) == ["a"]
    deleted_but(rewritten(base), set())
    with MISSING:
        head(made.uri).to_table()


def test_the_fork_point_of_lances_own_branch_is_kept_in_silence_and_one_version_less_is_told(uri: str) -> None:
    """Why a cleanup compares the number of versions that went with what it asked for."""
    base = filled(uri, ["a"])
    base.create_branch("f-01", base.version)
    after = rewritten(base)
    asked = [one["version"] for one in after.versions() if one["version"] < after.version]
    assert deleted_but(after, set()) == len(asked) - 1
    assert [one["version"] for one in head(uri).versions()] == [base.version, after.version]


def test_a_fork_of_a_fork_is_whole_while_its_chain_is_kept_and_breaks_with_it(uri: str) -> None:
    """Why who keeps a version keeps every base that it needs."""
    base = indexed(uri)
    middle = fork(base, "f-01")
    middle = commit(middle, delete(middle, ["a"]))
    middle = commit(middle, append(middle, ["m"]))
    middle.optimize.optimize_indices()
    middle = head(middle.uri)
    last = fork(middle, "f-02")
    last = commit(last, append(last, ["n"]))

    def whole() -> bool:
        looked_up = [found(last, one) for one in ("a", "b", "c", "m", "n")]
        return ids(head(last.uri)) == ["b", "c", "d", "m", "n"] and looked_up == [0, 1, 1, 1, 1]

    for line, point in ((base, base.version), (middle, middle.version)):
        deleted_but(rewritten(line), {point})
    assert whole()
    newest = head(middle.uri)
    deleted_but(newest, set())
    with MISSING:
        head(last.uri).to_table()


def test_a_cleanup_of_the_parent_leaves_files_below_its_forks_alone_however_old(local_uri: str) -> None:
    base = indexed(local_uri)
    made = fork(base, "f-01")
    made = commit(made, append(made, ["m"]))
    after = rewritten(base)
    for file in Path(local_uri).rglob("*"):
        if file.is_file():
            os.utime(file, (0, 0))
    after.cleanup_old_versions(versions=[1], delete_unverified=False)
    assert ids(head(made.uri)) == ["a", "b", "c", "d", "m"]


# --- inherited indexes --------------------------------------------------------------------------------------------------


def forked(uri: str, depth: int) -> LanceDataset:
    """A fork of forks that inherits an index and has a row of its own outside it."""
    line = indexed(uri)
    for at in range(depth):
        line = fork(line, f"f-{at}")
    return commit(line, append(line, ["m"]))


@pytest.mark.parametrize("depth", [1, 2])
def test_a_compaction_of_a_fork_still_breaks_an_inherited_index(uri: str, depth: int) -> None:
    """Why a turn of upkeep on a fork rebuilds such an index before it compacts. The compacted index is written into the fork's
    folder, and the version says that it lies in the parent's."""
    line = forked(uri, depth)
    assert [found(line, one) for one in ("b", "m")] == [1, 1]
    line.optimize.compact_files()
    with MISSING:
        found(line, "b")
    head(line.uri).create_scalar_index("id", "BTREE", name="by_id", replace=True)
    assert [found(line, one) for one in ("b", "m")] == [1, 1]


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("how", ["fold", "rebuild"])
def test_an_index_that_a_fork_has_folded_or_rebuilt_survives_a_compaction(uri: str, depth: int, how: str) -> None:
    line = forked(uri, depth)
    if how == "fold":
        line.optimize.optimize_indices()
    else:
        line.create_scalar_index("id", "BTREE", name="by_id", replace=True)
    line = head(line.uri)
    assert [segment.base_id for index in line.describe_indices() for segment in index.segments] == [None]
    line.optimize.compact_files()
    assert [found(line, one) for one in ("b", "m", "x")] == [1, 1, 0]
    assert bases(head(line.uri)) == {None}


# --- differences --------------------------------------------------------------------------------------------------------


def test_lances_delta_still_finds_no_update_across_a_restore(uri: str) -> None:
    """Why differences are computed from fragments and stamps. Truth is one updated row, both ways."""
    base = filled(uri, ["a", "b"])
    after = commit(base, upsert(base, ["a"], 9))
    back = commit(after, restore(after, base.version))
    again = commit(back, restore(back, after.version))
    for earlier, later in ((after, back), (back, again)):
        assert earlier.to_table().sort_by("id") != later.to_table().sort_by("id")
        delta = head(uri).delta(begin_version=earlier.version, end_version=later.version)
        assert pa.table(delta.get_updated_rows()).num_rows == 0


def test_the_stamps_of_rows_cost_no_request(fault_proxy: FaultProxy, proxied_root: str) -> None:
    """A difference compares them for whole tables."""
    base = filled(f"{proxied_root}/t.lance", ["a", "b"], ["c"])
    base = commit(base, upsert(base, ["a"], 9))
    base.optimize.compact_files()
    handle = head(base.uri)
    fault_proxy.reset()
    stamps = handle.to_table(columns=["_row_last_updated_at_version"], with_row_id=True)
    assert fault_proxy.operations() == {}
    assert sorted(stamps["_row_last_updated_at_version"].to_pylist()) == [2, 3, 4]
    assert sorted(stamps["_rowid"].to_pylist()) == [0, 1, 2]


# --- files copied into a line's own folder ------------------------------------------------------------------------------


def copied(line: LanceDataset) -> list[FragmentMetadata]:
    """The fragments of a fork with every inherited file copied beside its own, under the same numbers."""
    places = {number: base.path for number, base in line.base_paths().items()}
    made = []
    for fragment in line.get_fragments():
        described = json.loads(json.dumps(fragment.metadata.to_json()))
        names = [(file, f"data/{file['path']}") for file in described["files"]]
        if fragment.metadata.deletion_file is not None:
            names.append((described["deletion_file"], fragment.metadata.deletion_file.path(fragment.fragment_id)))
        for file, name in names:
            if file["base_id"] is not None:
                Path(line.uri, name).parent.mkdir(exist_ok=True)
                shutil.copy(Path(places[file["base_id"]], name), Path(line.uri, name))
                file["base_id"] = None
        made.append(FragmentMetadata.from_json(json.dumps(described)))
    return made


def stamped(handle: LanceDataset) -> pa.Table:
    columns = ["id", "v", "_row_last_updated_at_version"]
    return handle.to_table(columns=columns, with_row_id=True).sort_by("id")


def test_an_update_that_names_copies_settles_a_fork_and_keeps_rows_row_ids_and_stamps(local_uri: str) -> None:
    line = fork(indexed(local_uri), "f-01")
    line = commit(line, upsert(line, ["a"], 9))
    fields = sorted(field.id() for field in line.lance_schema.fields())
    update = LanceOperation.Update([], copied(line), [], [], fields, "rewrite_rows")
    settled = commit(line, Transaction(line.version, update))
    assert settled.version == line.version + 1
    assert stamped(settled).equals(stamped(line))
    settled.create_scalar_index("id", "BTREE", name="by_id", replace=True)
    settled = head(line.uri)
    assert bases(settled) == {None}
    moved = Path(local_uri).with_name("moved.lance")
    os.rename(local_uri, moved)
    shutil.rmtree(moved / "data")
    there = head(f"{moved}/tree/f-01")
    assert ids(there) == ["a", "b", "c", "d"]
    there = commit(there, append(there, ["m"]))
    there.optimize.optimize_indices()
    head(there.uri).optimize.compact_files()
    assert [found(there, one) for one in ("a", "x", "m")] == [1, 0, 1]


def test_a_delete_that_names_copies_still_lands_and_leaves_the_data_files_where_they_were(local_uri: str) -> None:
    """It takes the deletion file alone. Why a settle is an Update."""
    line = fork(indexed(local_uri), "f-01")
    landed = commit(line, Transaction(line.version, LanceOperation.Delete(copied(line), [], "false")))
    assert landed.version == line.version + 1
    assert {file.base_id for one in landed.get_fragments() for file in one.metadata.files} == {0}


@pytest.mark.parametrize("carried", [True, False], ids=["with row ids", "without"])
def test_fragments_copied_between_lines_still_double_row_ids_unless_these_are_left_out(
    local_uri: str, carried: bool
) -> None:
    base = filled(local_uri, ["a", "b"])
    base = commit(base, create_index(base))
    line = fork(base, "f-01")
    line = commit(line, append(line, ["m", "n"]))
    base = commit(base, append(base, ["o"]))
    [own] = [one.metadata for one in line.get_fragments() if one.metadata.files[0].base_id is None]
    described = json.loads(json.dumps(own.to_json()))
    shutil.copy(Path(line.uri, "data", described["files"][0]["path"]), Path(local_uri, "data"))
    described |= {"id": 0, "last_updated_at_version_meta": None, "created_at_version_meta": None}
    if not carried:
        described["row_id_meta"] = None
    fragment = FragmentMetadata.from_json(json.dumps(described))
    fields = sorted(field.id() for field in base.lance_schema.fields())
    update = LanceOperation.Update([], [], [fragment], [], fields, "rewrite_rows")
    landed = commit(base, Transaction(base.version, update))
    assert ids(landed) == ["a", "b", "m", "n", "o"]
    row_ids = landed.to_table(with_row_id=True)["_rowid"].to_pylist()
    assert len(set(row_ids)) == (4 if carried else 5)
