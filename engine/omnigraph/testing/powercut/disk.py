"""A disk that knows what of it was synced. Pure: it is made of a folder once, changed by events, and asked for images."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from omnigraph.testing.powercut.record import Event, NotUnderstood

SYNCED, NAMES, TORN, MIXED = IMAGES = ("synced", "names", "torn", "mixed")
"""What a cut leaves of what was not synced: nothing; every name, of empty files; every name, of files cut in half; by
chance any of these, and whole files, each folder and file for itself."""

Image = Mapping[str, bytes | None]
"""Paths to bytes; None is a folder."""


@dataclass(eq=False)
class Node:
    """A file or folder. ``pending``: changes of names since the folder was synced, in their order. ``changes`` counts those
    of names or bytes, ``synced_changes`` those that a sync has covered."""

    is_folder: bool
    data: bytearray = field(default_factory=bytearray)
    synced_data: bytes = b""
    changes: int = 0
    synced_changes: int = 0
    names: dict[str, Node] = field(default_factory=dict)
    synced_names: dict[str, Node] = field(default_factory=dict)
    pending: list[dict[str, Node | None]] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return self.changes == self.synced_changes

    def change(self, names: dict[str, Node | None]) -> None:
        self.changes += 1
        self.pending.append(names)
        _apply(self.names, names)


def _apply(names: dict[str, Node], changes: Mapping[str, Node | None]) -> None:
    for name, node in changes.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class Disk:
    """Starts as what lies in a folder, all of it synced."""

    def __init__(self, folder: str) -> None:
        self._top = _synced_copy(folder)
        self._begun: dict[tuple[int, str], list[tuple[Node, bytes, int]]] = {}

    def apply(self, event: Event) -> None:
        match event.kind:
            case "create":
                folder, name = self._place(event.path)
                if name not in folder.names:
                    folder.change({name: Node(False)})
            case "write":
                self._write(event)
            case "copy":
                at = event.at or 0
                self._write(Event("write", event.to, data=bytes(self._node(event.path).data[at : at + event.size])))
            case "truncate":
                node, size = self._node(event.path), event.at or 0
                node.data = node.data[:size].ljust(size, b"\0")
                node.changes += 1
            case "rename" | "link":
                self._name(event)
            case "unlink" | "rmdir":
                folder, name = self._place(event.path)
                folder.change({name: None})
            case "mkdir":
                folder, name = self._place(event.path)
                folder.change({name: Node(True)})
            case "sync-begins":
                self._begun[(event.caller, event.path)] = [_seen(self._node(event.path))]
            case "sync-all-begins":
                self._begun[(event.caller, event.path)] = [_seen(node) for node in _all(self._top)]
            case "sync" | "sync-all":
                for seen in self._begun.pop((event.caller, event.path)):
                    _sync(*seen)
            case "mark":
                pass
            case kind:
                raise NotUnderstood(f"an event of an unknown kind: {kind}")

    def _write(self, event: Event) -> None:
        node = self._node(event.path)
        at = len(node.data) if event.at is None else event.at
        node.data[len(node.data) :] = bytes(max(0, at - len(node.data)))
        node.data[at : at + len(event.data)] = event.data
        node.changes += 1

    def _name(self, event: Event) -> None:
        folder, name = self._place(event.path)
        target, new = self._place(event.to)
        node = folder.names[name]
        if event.kind == "link":
            target.change({new: node})
        elif folder is target:
            folder.change({name: None, new: node})
        else:
            target.change({new: node})
            folder.change({name: None})

    def _node(self, path: str) -> Node:
        node = self._top
        for part in path.split("/") if path else ():
            if part not in node.names:
                raise NotUnderstood(f"a call on {path}, which is not there")
            node = node.names[part]
        return node

    def _place(self, path: str) -> tuple[Node, str]:
        folder, _, name = path.rpartition("/")
        return self._node(folder), name

    # --- what is left -------------------------------------------------------------------------------------------------

    def now(self) -> Image:
        """Everything as a process sees it."""
        return dict(_walk("", self._top, lambda node: node.names, lambda node: bytes(node.data)))

    def after_cut(self, image: str, rng: random.Random) -> Image:
        """What a power cut at this place leaves."""
        if image == SYNCED:
            return dict(_walk("", self._top, lambda node: node.synced_names, _synced_bytes))
        if image == NAMES:
            return dict(_walk("", self._top, lambda node: node.names, _synced_bytes))
        if image == TORN:
            return dict(_walk("", self._top, lambda node: node.names, _half))
        kinds = (_synced_bytes, _half, lambda node: bytes(node.data))
        return dict(_walk("", self._top, lambda node: _some_names(node, rng), lambda node: rng.choice(kinds)(node)))

    def never_synced(self) -> tuple[int, int]:
        """How many of the files that are there would lose bytes or their name, and how many there are."""
        whole, kept = self.now(), self.after_cut(SYNCED, random.Random(0))
        files = [path for path, data in whole.items() if data is not None]
        return sum(kept.get(path) != whole[path] for path in files), len(files)


def _seen(node: Node) -> tuple[Node, bytes, int]:
    """What a sync that begins now will have covered when it has ended."""
    return node, bytes(node.data), node.changes


def _sync(node: Node, data: bytes, changes: int) -> None:
    new = changes - node.synced_changes
    if new <= 0:
        return  # a later sync has ended first
    node.synced_changes = changes
    if node.is_folder:
        for names in node.pending[:new]:
            _apply(node.synced_names, names)
        del node.pending[:new]
    else:
        node.synced_data = data


def _synced_bytes(node: Node) -> bytes:
    return node.synced_data


def _half(node: Node) -> bytes:
    return node.synced_data if node.clean else bytes(node.data[: len(node.data) // 2])


def _some_names(node: Node, rng: random.Random) -> dict[str, Node]:
    names = dict(node.synced_names)
    for changes in node.pending[: rng.randint(0, len(node.pending))]:
        _apply(names, changes)
    return names


def _walk(path: str, folder: Node, names_of: object, bytes_of: object) -> Iterator[tuple[str, bytes | None]]:
    assert callable(names_of) and callable(bytes_of)
    for name, node in sorted(names_of(folder).items()):
        below = f"{path}/{name}" if path else name
        if node.is_folder:
            yield below, None
            yield from _walk(below, node, names_of, bytes_of)
        else:
            yield below, bytes_of(node)


def _all(node: Node) -> Iterator[Node]:
    yield node
    for below in node.names.values():
        yield from _all(below)


def _synced_copy(folder: str) -> Node:
    node = Node(True)
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            below = _synced_copy(entry.path)
        else:
            with open(entry.path, "rb") as file:
                data = file.read()
            below = Node(False, bytearray(data), data)
        node.names[entry.name] = node.synced_names[entry.name] = below
    return node


def write_image(image: Image, folder: str) -> None:
    """Make a folder that holds exactly this."""
    os.mkdir(folder)
    for path, data in image.items():
        if data is None:
            os.mkdir(os.path.join(folder, path))
        else:
            with open(os.path.join(folder, path), "wb") as file:
                file.write(data)


def read_folder(folder: str) -> Image:
    """What lies in a folder, as ``Disk.now`` says it."""
    return dict(_walk("", _synced_copy(folder), lambda node: node.names, lambda node: bytes(node.data)))
