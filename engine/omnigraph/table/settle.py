"""Settle: copy what a version reads from other lines into the folder of its own line, and name the copies.

The fragments keep their numbers, their rows, and the row ids and stamps of these. Afterwards the version reads without the
other lines, so that they may be deleted and the graph may be moved.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lance import LanceOperation, Transaction
from lance.fragment import FragmentMetadata

from omnigraph.core.errors import Corruption
from omnigraph.core.meter import Meter
from omnigraph.store import Store
from omnigraph.table import checksums
from omnigraph.table.blob import blob_columns
from omnigraph.table.dataset import TableRef

if TYPE_CHECKING:
    from lance import LanceDataset


@dataclass(frozen=True)
class Settled:
    """Copies that no version names yet. ``before`` and ``after``: the fragments that had inherited files, as JSON values."""

    before: tuple[Any, ...]
    after: tuple[Any, ...]
    files: int = 0
    bytes: int = 0


def inherited_bytes(handle: LanceDataset) -> int:
    """Bytes of data files that lie in the folder of another line. No request."""
    return sum(
        file.file_size_bytes or 0
        for fragment in handle.get_fragments()
        for file in fragment.metadata.files
        if file.base_id is not None
    )


def own_fragments(handle: LanceDataset) -> int:
    """How many fragments have all of their files in the line's own folder. No request."""
    return sum(all(file.base_id is None for file in fragment.metadata.files) for fragment in handle.get_fragments())


def copy_inherited(store: Store, ref: TableRef, handle: LanceDataset, meter: Meter | None = None) -> Settled:
    """Copy every inherited data and deletion file, each checked against its checksum where it has one."""
    copier = _Copier(store, ref, handle, meter)
    before, after = [], []
    for fragment in handle.get_fragments():
        described = fragment.metadata.to_json()
        settled = copier.settled(fragment.metadata, json.loads(json.dumps(described)))
        if settled is not None:
            before.append(described)
            after.append(settled)
    return Settled(tuple(before), tuple(after), copier.files, copier.bytes)


def still_there(settled: Settled, now: LanceDataset) -> bool:
    """Whether the fragments that were copied are unchanged in ``now``, and no other one has inherited files."""
    current = {fragment.fragment_id: fragment.metadata.to_json() for fragment in now.get_fragments()}
    inherited = {number for number, described in current.items() if _is_inherited(described)}
    return {one["id"]: one for one in settled.before} == {number: current[number] for number in inherited}


def transaction(handle: LanceDataset, settled: Settled, *, uuid: str, properties: Mapping[str, str]) -> Transaction:
    """The change that names the copies. Lance ignores it in the form of a Delete."""
    fragments = [FragmentMetadata.from_json(json.dumps(one)) for one in settled.after]
    fields = sorted(field.id() for field in handle.lance_schema.fields())
    made = Transaction(handle.version, LanceOperation.Update([], fragments, [], [], fields, "rewrite_rows"))
    made.uuid = uuid
    made.transaction_properties = dict(properties)
    return made


def _is_inherited(described: Mapping[str, Any]) -> bool:
    deletion = described.get("deletion_file") or {}
    return deletion.get("base_id") is not None or any(file["base_id"] is not None for file in described["files"])


class _Copier:
    def __init__(self, store: Store, ref: TableRef, handle: LanceDataset, meter: Meter | None) -> None:
        self._store = store
        self._ref = ref
        self._meter = meter
        self._version = handle.version
        self._has_blobs = bool(blob_columns(handle.schema))
        self._bases = {number: _key_of(ref, base.path) for number, base in handle.base_paths().items()}
        self._place = None if store.is_remote else checksums.place_of(handle.uri)
        self._lines = None if self._place is None else checksums.read_lines(self._place)
        self.files = 0
        self.bytes = 0

    def settled(self, metadata: FragmentMetadata, described: dict[str, Any]) -> dict[str, Any] | None:
        """The fragment as it will be; None where nothing of it is inherited."""
        if not _is_inherited(described):
            return None
        for file in described["files"]:
            if file["base_id"] is not None:
                base = self._bases[file["base_id"]]
                self._copy(base, f"data/{file['path']}")
                for blob in self._blobs(base, file["path"]):
                    self._copy(base, blob)
                file["base_id"] = None
        deletion = described.get("deletion_file")
        if deletion is not None and deletion.get("base_id") is not None:
            assert metadata.deletion_file is not None
            self._copy(self._bases[deletion["base_id"]], metadata.deletion_file.path(metadata.id))
            deletion["base_id"] = None
        return described

    def _blobs(self, base: str, name: str) -> Iterator[str]:
        """Values that were too large for a data file lie in a folder of its name."""
        if not self._has_blobs:
            return
        folder = f"{base}/data/{os.path.splitext(name)[0]}/"
        for entry in self._store.list(folder, meter=self._meter):
            yield entry.key.removeprefix(f"{base}/")

    def _copy(self, base: str, name: str) -> None:
        source, target = f"{base}/{name}", f"{self._ref.relative}/{name}"
        if self._place is not None and self._lines is not None:
            problem = checksums.mismatch(self._place, self._lines, source)
            if problem is not None:
                raise checksums.damaged(self._ref.location, self._version, source, problem)
        self._store.copy(source, target, meter=self._meter)
        self.files += 1
        if self._place is not None:
            here, there = (checksums.digest_of(f"{self._place.root}/{key}") for key in (source, target))
            if here != there:
                raise checksums.damaged(self._ref.location, self._version, target, "it is not what was copied")
            self.bytes += there.bytes
        else:
            self.bytes += self._store.size(target, meter=self._meter) or 0


def _key_of(ref: TableRef, path: str) -> str:
    """The folder of a line below the root of the graph, from the place that is written in a version file."""
    at = path.rstrip("/").rfind(f"/{ref.location}")
    if at < 0:
        raise Corruption(
            f"a version of {ref.relative} names files of another table: {path}",
            hint="keep the files and run `omnigraph verify --deep`",
            object=ref.relative,
        )
    return path.rstrip("/")[at + 1 :]
