"""The files of checkpoints: their format, and the list of them. What may be pinned, and when, is decided by ``upkeep``."""

from __future__ import annotations

from typing import Final

from omnigraph.core import documents
from omnigraph.core.documents import Document, Ref, Ulid
from omnigraph.core.errors import Corruption
from omnigraph.core.meter import Meter
from omnigraph.store import Store, layout
from omnigraph.wire.cleanup import Checkpoint, CheckpointList

FORMAT: Final = 1


class _File(Document):
    format: int
    name: str
    commit_id: Ulid
    branch: str
    identity: Ulid
    ref: Ref | None
    manifest_version: int
    actor: str | None
    created_at_us: int


def encode(checkpoint: Checkpoint) -> bytes:
    return documents.canonical({"format": FORMAT, **checkpoint.to_dict()})


def _decode(key: str, name: str, data: bytes) -> Checkpoint:
    hint = "copy it back from a backup, or delete the file to give up what it pins"
    with documents.refusals(key, "the checkpoint", hint=hint):
        file = documents.read(_File, data, format=FORMAT, named={"name": name})
        if file.ref not in (None, layout.branch_ref(file.identity)):
            raise ValueError(f"its ref is {file.ref}, which is not the line of branch {file.identity}")
        if file.manifest_version < 1:
            raise ValueError(f"its manifest version is {file.manifest_version}")
    return Checkpoint(**{field: value for field, value in file.model_dump().items() if field != "format"})


def list_checkpoints(store: Store, meter: Meter | None = None) -> CheckpointList:
    """Every checkpoint. One that does not read is an error: nothing may be deleted that it could protect."""
    found = []
    for entry in store.list(layout.CHECKPOINTS, meter=meter):
        name = layout.checkpoint_name(entry.key)
        data = store.get(entry.key, meter=meter) if name is not None else None
        if name is None:
            raise Corruption(f"not a checkpoint: key={entry.key[:200]!r}", object=entry.key)
        if data is not None:
            found.append(_decode(entry.key, name, data))
    return CheckpointList(sorted(found, key=lambda one: one.name))


def find_checkpoint(store: Store, name: str, meter: Meter | None = None) -> Checkpoint | None:
    """The checkpoint with this name, or None; one GET."""
    key = layout.checkpoint_key(name)
    data = store.get(key, meter=meter)
    return None if data is None else _decode(key, name, data)
