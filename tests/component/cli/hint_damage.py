"""Situations whose hint says what puts damage right, or what names it where nothing but a backup can."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import lance

import omnigraph as og
from omnigraph.commit import exclusive
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.store import layout
from tests.component.cli.hint_names import ADA, GRAPH, NOBODY, Situation, Words, after
from tests.component.cli.material import displace

V2_MAX = (1 << 64) - 1
_KEPT: dict[Path, bytes] = {}  # what a backup would have


def _versions(folder: str) -> list[Path]:
    """Version files below a folder, newest first."""
    return sorted(Path(GRAPH).glob(f"{folder}/_versions/*.manifest"))


def _keep(path: Path) -> Path:
    _KEPT[path] = path.read_bytes()
    return path


def _restore_from_backup() -> None:
    for path, data in _KEPT.items():
        path.write_bytes(data)
    _KEPT.clear()


def _torn(folder: str, *words: str) -> Callable[[], Words]:
    """The newest version of a line, cut in half as a power cut may leave it."""

    def make() -> Words:
        path = _keep(_versions(folder)[0])
        path.write_bytes(_KEPT[path][: len(_KEPT[path]) // 2])
        return words

    return make


def _flipped_version() -> Words:
    """A version file whose bytes are other ones and which still reads, or nearly."""
    path = _keep(_versions("__manifest")[0])
    path.write_bytes(_KEPT[path].replace(b"table_key", b"tabla_key"))
    return ("status", GRAPH)


def _cut_data_of_the_manifest() -> Words:
    newest = max(Path(GRAPH, "__manifest", "data").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    newest.write_bytes(_keep(newest).read_bytes()[:-1000])
    return ("status", GRAPH)


def _foreign_bytes(key: str, *words: str) -> Callable[[], Words]:
    def make() -> Words:
        path = Path(GRAPH, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{")
        return words

    return make


def _flipped_data_file() -> Words:
    [path] = Path(GRAPH).glob("nodes/*/data/*.lance")
    data = bytearray(_keep(path).read_bytes())
    data[len(data) // 10] ^= 4
    path.write_bytes(data)
    return ("export", GRAPH, "--verify-reads")


def _line_of_a_branch(*words: str) -> Callable[[], Words]:
    """A branch whose only version file is empty."""

    def make() -> Words:
        with og.open(GRAPH) as graph:
            graph.branches.create("review")
        [path] = Path(GRAPH).glob("__manifest/tree/*/_versions/*.manifest")
        _keep(path)
        path.write_bytes(b"")
        return words

    return make


def _copied_with_forks() -> Words:
    with og.open(GRAPH) as graph:
        graph.branches.create("review")
        graph.load(ADA, mode="merge", branch="review")
    shutil.copytree(GRAPH, "copy.omni")
    return ("export", "copy.omni", "--branch", "review")


def _copy_again() -> None:
    shutil.rmtree("copy.omni")
    shutil.copytree(GRAPH, "copy.omni")


def _dead_owner() -> Words:
    with og.open(GRAPH) as graph:
        dead = f"{graph._engine.owner.token.rpartition('/')[0]}/1#01ARZ3NDEKTSV4RRFFQ69G5FAV"
        exclusive._edit(graph._engine, lambda head: exclusive._claimed(head, dead), "not set", Meter())
    return ("load", GRAPH, "--data", "people.jsonl", "--mode", "merge")


def _unknown_branch() -> Words:
    lance.dataset(f"{GRAPH}/__manifest").create_branch("feature")
    return ("cleanup", GRAPH, "--keep", "1", "--min-age", "0s")


def _oldest_kept_is_torn() -> Words:
    with og.open(GRAPH) as graph:
        graph.load(ADA, mode="merge")
    path = _versions("__manifest")[1]
    path.write_bytes(_keep(path).read_bytes()[:40])
    return ("cleanup", GRAPH, "--keep", "2", "--min-age", "0s")


def _pinned_version_is_gone() -> Words:
    """The table has lost every version that the oldest commit to keep names."""
    with og.open(GRAPH, read_only=True) as graph:
        pin = graph.snapshot().tables["node:Person"]
    for path in Path(pin.uri, "_versions").glob("*.manifest"):
        if V2_MAX - int(path.stem) >= pin.version:
            path.unlink()
    return ("cleanup", GRAPH, "--keep", "1", "--min-age", "0s")


def _a_table_of_nobody() -> Words:
    """What a write that died may leave: a table that no state names."""
    source = next(Path(GRAPH).glob("nodes/*"))
    shutil.copytree(source, source.with_name(f"Person-{new_ulid()}.lance"))
    return ("verify", GRAPH)


def _only_version_is_torn() -> Words:
    with og.init("torn.omni", Path("social.pg")):
        pass
    [path] = Path("torn.omni/__manifest/_versions").glob("*.manifest")
    path.write_bytes(b"")
    return ("repair", "torn.omni", "--confirm")


def _parent_is_gone() -> Words:
    """The version of main that a branch was made from."""
    with og.open(GRAPH) as graph:
        graph.branches.create("review")
        graph.load(ADA, mode="merge")
        graph.load(ADA, mode="merge", branch="review")
    _keep(_versions("__manifest")[1]).unlink()
    return ("commit", "list", GRAPH, "--branch", "review")


def _without_checksums(damage: Callable[[], Words]) -> Callable[[], Words]:
    """As on an object store, where no file has a checksum."""

    def make() -> Words:
        words = damage()
        shutil.rmtree(Path(GRAPH, "__checksums"))
        return words

    return make


def _flipped_rows_of_the_manifest() -> Words:
    for path in Path(GRAPH, "__manifest", "data").iterdir():
        path.write_bytes(_keep(path).read_bytes().replace(b"maker", b"mbker"))
    return ("status", GRAPH)


CLEANUP = ("cleanup", GRAPH, "--keep", "1", "--min-age", "0s")
MERGE = ("load", GRAPH, "--data", "people.jsonl", "--mode", "merge")
INTENT = layout.intent_key(new_ulid())

DAMAGE = (
    Situation(
        "manifest/damage.py",
        "--confirm` moves what is torn aside",
        _torn("__manifest", "status", GRAPH),
        9,
        ("moved aside",),
    ),
    Situation(
        "manifest/damage.py",
        "shows which commits are lost without it",
        _flipped_version,
        9,
        by_hand=_restore_from_backup,
    ),
    Situation(
        "table/manifest_damage.py",
        "--confirm` moves what is torn aside",
        _cut_data_of_the_manifest,
        9,
        ("moved aside",),
    ),
    Situation(
        "commit/intent_reading.py",
        "then `omnigraph repair --confirm --force`",
        _foreign_bytes(INTENT, *MERGE),
        9,
        ("moved",),
    ),
    Situation(
        "commit/recovery/outcome.py",
        "run `omnigraph repair --confirm --force`, and ask again",
        _foreign_bytes(INTENT, "commit", "outcome", GRAPH, NOBODY),
        9,
        ("moved",),
    ),
    Situation(
        "upkeep/repair.py",
        "then run `omnigraph repair --confirm --force`",
        _foreign_bytes(INTENT, "repair", GRAPH, "--confirm"),
        4,
        ("moved",),
    ),
    Situation(
        "upkeep/cleanup_look.py",
        "keep a copy of it, then run `omnigraph repair --confirm --force`",
        _foreign_bytes(INTENT, *CLEANUP),
        4,
        ("moved",),
    ),
    Situation(
        "upkeep/cleanup_look.py",
        "`omnigraph verify` names what is wrong with it",
        _foreign_bytes(layout.checkpoint_key("broken"), *CLEANUP),
        4,
        ("broken",),
        by_hand=lambda: Path(GRAPH, layout.checkpoint_key("broken")).unlink(),
    ),
    Situation(
        "upkeep/cleanup_look.py",
        "run `omnigraph verify`, and find out what made it",
        _unknown_branch,
        4,
        ("feature",),
        ends=4,
    ),
    Situation(
        "upkeep/cleanup_look.py",
        "run `omnigraph verify --deep`, which names",
        _oldest_kept_is_torn,
        4,
        ("__manifest",),
        by_hand=_restore_from_backup,
    ),
    Situation(
        "upkeep/cleanup_look.py",
        "run `omnigraph verify --deep`: it names",
        _pinned_version_is_gone,
        4,
        ("node:Person",),
        ends=4,
    ),
    Situation(
        "commit/recovery/outcome.py",
        "run `omnigraph verify`, which names what cannot be read",
        _line_of_a_branch("commit", "outcome", GRAPH, NOBODY),
        9,
        ("review",),
        by_hand=_restore_from_backup,
    ),
    Situation(
        "read/at.py",
        "run `omnigraph verify`, which names what cannot be read",
        _line_of_a_branch("diff", GRAPH, NOBODY),
        9,
        ("review",),
        by_hand=_restore_from_backup,
        ends=3,
    ),
    Situation(
        "table/checksums.py",
        "`omnigraph verify --deep` names all that are damaged",
        _flipped_data_file,
        9,
        ("data/",),
        by_hand=_restore_from_backup,
    ),
    Situation(
        "table/torn.py",
        "`omnigraph repair {uri}` shows the",
        _torn("nodes/*", "export", GRAPH),
        9,
        by_hand=_restore_from_backup,
    ),
    Situation(
        "table/moved.py",
        "`omnigraph optimize {old} --settle --branch NAME`",
        _copied_with_forks,
        9,
        fills={"NAME": "review"},
        by_hand=_copy_again,
    ),
    Situation(
        "commit/parents.py",
        "run `omnigraph verify --deep`, which names what cannot be read",
        _parent_is_gone,
        9,
        ("__manifest/_versions",),
        by_hand=_restore_from_backup,
    ),
    Situation(
        "manifest/swap.py",
        "keep the files and run `omnigraph verify`",
        _without_checksums(_flipped_version),
        9,
        ("__manifest",),
        by_hand=_restore_from_backup,
    ),
    Situation(
        "manifest/reading.py",
        "look at the store, and run `omnigraph verify --deep`",
        _without_checksums(_flipped_rows_of_the_manifest),
        9,
        ("__manifest",),
        by_hand=_restore_from_backup,
    ),
    Situation(
        "cli/commands/verify.py",
        "(run `omnigraph {command} {result['uri']}{more}`)",
        lambda: (displace(GRAPH), ("verify", GRAPH))[1],
        0,
        ("healed",),
        confirms=True,
    ),
    Situation(
        "cli/commands/verify.py",
        "(run `omnigraph {command} {result['uri']}{more}`)",
        _a_table_of_nobody,
        0,
        fills={"--keep 10": "--keep 10 --min-age 0s"},  # a cleanup leaves what is young
        confirms=True,
    ),
    Situation(
        "wire/status.py",
        "run `omnigraph {finding.command} ",
        lambda: (_dead_owner(), ("status", GRAPH))[1],
        0,
    ),
    Situation(
        "upkeep/intents.py",
        "`omnigraph repair --confirm --force` moves it aside",
        _foreign_bytes(INTENT, "intent", "show", GRAPH, INTENT.rpartition("/")[2].partition(".")[0]),
        0,
        ("moved",),
        ends=3,
    ),
    Situation(
        "cli/commands/repair.py",
        "no version is left; `omnigraph init --schema FILE`",
        _only_version_is_torn,
        0,
        fills={"FILE": "social.pg --uri torn.omni"},
        then=after("status", "torn.omni"),
    ),
    Situation(
        "commit/conflicts.py",
        "`omnigraph recover` clears an owner whose process is gone",
        _dead_owner,
        4,
    ),
)
