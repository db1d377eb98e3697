"""Damage that is named with its file, and never taken for something else: a cleanup, an empty folder, the fault of the caller."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest

import omnigraph as og
from omnigraph.commit.recovery import outcome
from omnigraph.core.errors import Corruption, InvalidInput, OmnigraphError, StoreRefused, UnsupportedStorage
from omnigraph.manifest import damage as manifest_damage
from omnigraph.read import at, interop
from omnigraph.store import durability, local
from omnigraph.table import checksums, dataset
from omnigraph.table import damage as table_damage
from omnigraph.table.dataset import VersionTx
from omnigraph.upkeep import cleanup_look
from tests.component.planted.scenes import Defect, Engines, setting

SCHEMA = "node Person { name: String @key age: I32? }\nedge Knows: Person -> Person\n"
NOBODY = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def person(name: str) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, "age": 1}}


def beside(engines: Engines, commits: int = 4) -> og.Graph:
    """A graph of its own, one person a commit."""
    graph = og.init(engines().uri + "-beside", SCHEMA, durability="relaxed")
    for number in range(commits):
        graph.load([person(f"p{number}")], mode="append")
    return graph


def old_version(graph: og.Graph) -> tuple[str, Path]:
    """A commit that is neither the first nor the last, and the version file that it left."""
    commit = graph.commits()[2]
    name = f"{(1 << 64) - 1 - commit.manifest_version:020d}.manifest"
    return commit.id, Path(graph.uri, "__manifest", "_versions", name)


def raised(call: Callable[[], Any]) -> OmnigraphError | None:
    try:
        call()
    except OmnigraphError as error:
        return error
    return None


def an_old_version_rots(engines: Engines) -> list[str]:
    graph = beside(engines)
    commit_id, path = old_version(graph)
    path.write_bytes(path.read_bytes().replace(b"table_key", b"tabla_key"))
    problems = []
    for name, call in (
        ("snapshot", lambda: og.open(graph.uri).snapshot(at=commit_id)),
        ("revert", lambda: og.open(graph.uri).revert(commit_id)),
        ("diff", lambda: list(og.open(graph.uri).diff(commit_id))),
    ):
        error = raised(call)
        named = isinstance(error, Corruption) and str(error.facts.get("file", "")).endswith(path.name)
        if not named or "is missing" in str(error):
            problems.append(f"{name}: {error!r}")
    return problems


def a_deletion_file_is_cut(engines: Engines) -> list[str]:
    graph = beside(engines)
    graph.mutate('query q() { delete Person where name = "p0" }')
    graph.load([person("q0"), person("q1")], mode="append")
    graph.mutate('query q() { delete Person where name = "q1" }')
    path = next(Path(graph.uri).glob("nodes/*/_deletions/*"))
    os.truncate(path, 4)
    error = raised(lambda: og.open(graph.uri).snapshot().to_arrow("Person"))
    named = isinstance(error, Corruption) and error.facts.get("file") == f"_deletions/{path.name}"
    return [] if named else [f"{error!r} does not name {path.name}"]


def another_program_compacts(engines: Engines) -> list[str]:
    graph = beside(engines)
    lance.dataset(graph.snapshot().tables["node:Person"].uri).optimize.compact_files()
    graph.repair(confirm=True)
    found = graph.repair().tables
    return [f"{one.table_key} is {one.classification}" for one in found]


def a_file_is_where_the_intents_belong(engines: Engines) -> list[str]:
    graph = beside(engines)
    graph.close()
    place = Path(graph.uri, "__recovery")
    if place.exists():
        place.rmdir()
    place.write_text("not a folder")
    error = raised(lambda: og.open(graph.uri))
    return [] if isinstance(error, StoreRefused) else [f"the graph opens: {error!r}"]


def a_graph_with_forks_is_copied(engines: Engines) -> list[str]:
    graph = beside(engines)
    graph.branches.create("side")
    graph.load([person("x")], mode="append", branch="side")
    copied = f"{graph.uri}-copied"
    shutil.copytree(graph.uri, copied)
    error = raised(lambda: og.open(copied).snapshot("side").to_arrow("Person"))
    return [] if isinstance(error, UnsupportedStorage) else ["the copy reads the files of the original"]


def an_inherited_file_rots(engines: Engines) -> list[str]:
    graph = beside(engines, 1)
    graph.branches.create("side")
    graph.load([person("x")], mode="append", branch="side")
    path = next(Path(graph.uri).glob("nodes/*/data/*"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    report = og.open(graph.uri).optimize(types=["Person"], branches=["side"], settle=True, target_rows=1)
    return [] if all(table.skipped is not None for table in report.tables) else [f"{path.name} was copied"]


def a_line_cannot_be_read(engines: Engines) -> list[str]:
    graph = beside(engines)
    graph.branches.create("side")
    for path in Path(graph.uri).glob("__manifest/tree/*/_versions/*.manifest"):
        path.write_bytes(b"")
    with og.open(graph.uri) as again:
        error = raised(lambda: again.outcome(NOBODY))
    return [] if isinstance(error, Corruption) else ["a commit is said to be absent that may be on that line"]


def an_id_is_cut_by_one_character(engines: Engines) -> list[str]:
    graph = beside(engines)
    error = raised(lambda: graph.outcome(str(graph.snapshot().commit_id)[:-1]))
    return [] if isinstance(error, InvalidInput) else ["what is no id is absent"]


def a_query_of_a_stranger(engines: Engines) -> list[str]:
    graph = beside(engines)
    secret = Path(graph.uri, "secret.csv")
    secret.write_text("a\n42\n")
    try:
        found = graph.snapshot().duckdb().execute(f"select * from '{secret}'").fetchall()
    except Exception:
        return []
    return [f"it read {found}"]


def a_sync_fails_once(engines: Engines) -> list[str]:
    """Linux reports a failed write once: the second sync of the same file says nothing of the bytes that are gone."""
    folder = Path(engines().uri)
    path = folder / "bytes"
    path.write_bytes(b"x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", failing_once(os.fsync))
        raised(lambda: durability.sync_paths([str(path)], str(folder)))
        again = raised(lambda: durability.sync_paths([str(path)], str(folder)))
    durability.forget_failures(str(folder))
    return [] if again is not None else ["the second sync was believed"]


def failing_once(real: Callable[[int], None]) -> Callable[[int], None]:
    left = [OSError(5, "input/output error")]

    def fsync(descriptor: int) -> None:
        if left:
            raise left.pop()
        real(descriptor)

    return fsync


def a_version_between_is_lost(engines: Engines) -> list[str]:
    """A cleanup that keeps every commit must not take those below the lost one."""
    graph = beside(engines)
    first = graph.commits()[-1].id
    _, path = old_version(graph)
    path.unlink()
    raised(lambda: og.open(graph.uri).cleanup(keep=100, min_age="0s", confirm=True))
    error = raised(lambda: og.open(graph.uri).snapshot(at=first))
    return [] if error is None else [f"{error!r}"]


# --- defects ------------------------------------------------------------------------------------------------------------


def overlooking_files(patch: pytest.MonkeyPatch) -> None:
    real = local.read_folder

    def read_folder(path: str, *rest: Any) -> Any:
        return () if os.path.isfile(path) else real(path, *rest)

    patch.setattr(local, "read_folder", read_folder)


def knowing_our_own_alone(patch: pytest.MonkeyPatch) -> None:
    """A transaction without our properties is one that cannot be read."""
    real = dataset.Tables._read_transaction

    def read(*args: Any) -> VersionTx | None:
        found = real(*args)
        return found if found is None or found.properties else VersionTx(found.version, found.uuid, {}, "unreadable")

    patch.setattr(dataset.Tables, "_read_transaction", read)


def taking_lost_for_reclaimed(patch: pytest.MonkeyPatch) -> None:
    """A version that is not there ends the search for what is retained, whatever the boundary says."""
    patch.setattr(cleanup_look, "is_lost", lambda *_: False)


def with_files(patch: pytest.MonkeyPatch) -> None:
    real = interop.to_duckdb
    patch.setattr(interop, "to_duckdb", lambda readers, **_: real(readers, allow_files=True))


DEFECTS = {
    "a damaged old version is called cleaned up": Defect(
        an_old_version_rots, setting(at, "judge", lambda **_: at.Verdict.RECLAIMED)
    ),
    "damage of an old version loses its file": Defect(
        an_old_version_rots, setting(manifest_damage, "of_version", lambda store, ref, version, error: error)
    ),
    "what a damaged file makes a reader say is passed on": Defect(
        a_deletion_file_is_cut, setting(table_damage, "damaged_file", lambda _: None)
    ),
    "a foreign compaction cannot be read": Defect(another_program_compacts, knowing_our_own_alone),
    "a file in the place of a folder is an empty folder": Defect(a_file_is_where_the_intents_belong, overlooking_files),
    "a copied graph reads where it was": Defect(
        a_graph_with_forks_is_copied, setting(dataset, "check_place", lambda *_: None)
    ),
    "what is copied into a branch is not compared": Defect(
        an_inherited_file_rots, setting(checksums, "mismatch", lambda *_: None)
    ),
    "absent is said of what cannot be read": Defect(
        a_line_cannot_be_read, setting(outcome, "_refuse_to_guess", lambda *_: None)
    ),
    "any text is the id of a commit": Defect(
        an_id_is_cut_by_one_character, setting(outcome, "is_ulid", lambda _: True)
    ),
    "what stands below a lost version is taken for reclaimed": Defect(
        a_version_between_is_lost, taking_lost_for_reclaimed
    ),
    "SQL reaches files": Defect(a_query_of_a_stranger, with_files),
    "a failed sync is repeated": Defect(a_sync_fails_once, setting(durability, "_refuse_second_sync", lambda _: None)),
}
