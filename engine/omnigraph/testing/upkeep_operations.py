"""Upkeep and exclusive use as drivers of the crash matrix: what they change is not content.

Imported by ``all_operations``; the registry is in ``operations``.
"""

from __future__ import annotations

from omnigraph import graph as graphs
from omnigraph.testing.operations import Operation, append, create, displace, keys_of, opened, register

PARTS = 4  # small appends to each table: something for an optimisation to do
CLEANUP_LEAVES = ("__boundary/", "__checkpoints/", "__cleanup/")
HISTORY = 70  # commits beyond a first roll of the tail, in which the archive grows


def _in_parts(root: str, width: int) -> None:
    create(root, width)
    with opened(root) as engine:
        for number in range(PARTS):
            append(engine, keys_of(width), [f"part{number}", f"more{number}"], actor="seed")


def _with_strays(root: str, width: int) -> None:
    _in_parts(root, width)
    with opened(root) as engine:
        for key in keys_of(width):
            displace(engine, key)


def _long(root: str, width: int) -> None:
    create(root, width)
    with opened(root) as engine:
        for number in range(128 + HISTORY):
            append(engine, keys_of(width)[:1], [f"row{number}"], actor="seed")


def _optimize(root: str, width: int) -> str | None:
    with graphs.open(root, actor="keeper") as graph:
        graph.optimize()
    return None


def _distributed(root: str, width: int) -> str | None:
    with graphs.open(root, actor="keeper") as graph:
        graph.commit_compaction([task.run() for task in graph.plan_compaction().tasks])
    return None


def _index(root: str, width: int) -> str | None:
    with graphs.open(root, actor="keeper") as graph:
        graph.ensure_indices()
    return None


def _repair(root: str, width: int) -> str | None:
    with graphs.open(root, actor="keeper") as graph:
        graph.repair(confirm=True)
    return None


def _recover(root: str, width: int) -> str | None:
    with graphs.open(root, actor="keeper") as graph:
        graph.recover(grace_s=0)
    return None


def _compact_manifest(root: str, width: int) -> str | None:
    with graphs.open(root, actor="keeper") as graph:
        graph.compact_manifest(fragments_max=1)
    return None


def _cleanup(root: str, width: int) -> str | None:
    with graphs.open(root, actor="keeper") as graph:
        graph.cleanup(keep=1, min_age="0s", confirm=True)
    return None


def _checkpoint(root: str, width: int) -> str | None:
    with graphs.open(root, actor="keeper") as graph:
        graph.checkpoints.create("before")
        graph.checkpoints.delete("before")
    return None


def _note(root: str, width: int) -> str | None:
    with graphs.open(root, actor="keeper") as graph:
        graph.notes.put("feeder/seen", b"1")
        graph.notes.put("feeder/seen", b"2")
        graph.notes.delete("feeder/seen")
    return None


register(Operation("note", frozenset({"notes"}), _in_parts, _note, (1,), leaves=("__notes/",), keeps_content=True))
register(Operation("optimize", frozenset({"optimize"}), _in_parts, _optimize, widths=(1, 2), keeps_content=True))
register(
    Operation("ensure-indices", frozenset({"ensure_indices"}), _in_parts, _index, widths=(1, 2), keeps_content=True)
)
register(
    Operation(
        "commit-compaction",
        frozenset({"commit_compaction"}),
        _in_parts,
        _distributed,
        widths=(1, 2),
        keeps_content=True,
    )
)
register(Operation("repair", frozenset({"repair"}), _with_strays, _repair, widths=(1, 2), keeps_content=True))
register(Operation("recover", frozenset({"recover"}), _with_strays, _recover, widths=(1, 2), keeps_content=True))
register(
    Operation(
        "compact-manifest", frozenset({"compact_manifest"}), _long, _compact_manifest, widths=(1,), keeps_content=True
    )
)
register(
    Operation("cleanup", frozenset({"cleanup"}), _in_parts, _cleanup, (1,), leaves=CLEANUP_LEAVES, keeps_content=True)
)
register(
    Operation(
        "checkpoint",
        frozenset({"checkpoints"}),
        _in_parts,
        _checkpoint,
        (1,),
        leaves=CLEANUP_LEAVES,
        keeps_content=True,
    )
)
