"""The files of checkpoints: their format, and the list of them. What may be pinned, and when, is decided by ``upkeep``."""

from __future__ import annotations

from typing import Final

from omnigraph.core import documents
from omnigraph.core.documents import Document, Ref, Ulid
from omnigraph.core.errors import Conflict, Corruption
from omnigraph.core.meter import Meter
from omnigraph.store import Store, layout
from omnigraph.wire.cleanup import Checkpoint, CheckpointList

FORMAT: Final = 1
LOOKS_MAX: Final = 20  # each repeat needs another deletion


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
    """Every checkpoint. One that does not read is an error: nothing may be deleted that it could protect. Where one is deleted
    between the listing and the reading, list again: another one may have been made of it before."""
    for _ in range(LOOKS_MAX):
        found = _listed(store, meter)
        if None not in found:
            return CheckpointList(sorted((one for one in found if one is not None), key=lambda one: one.name))
    raise Conflict("checkpoints were deleted while they were read, every time", hint="call again")


def _listed(store: Store, meter: Meter | None) -> list[Checkpoint | None]:
    """None: it was listed, and is not there."""
    found: list[Checkpoint | None] = []
    for entry in store.list(layout.CHECKPOINTS, meter=meter):
        if layout.is_checkpoint_proof(entry.key):
            continue
        name = layout.checkpoint_name(entry.key)
        data = store.get(entry.key, meter=meter) if name is not None else None
        if name is None:
            raise Corruption(f"not a checkpoint: key={entry.key[:200]!r}", object=entry.key)
        found.append(None if data is None else _decode(entry.key, name, data))
    return found


def prove(store: Store, checkpoint: Checkpoint, meter: Meter | None = None) -> None:
    """Note that a checkpoint did not come too late for a cleanup. What is left of one that was deleted is written over."""
    store.replace(layout.checkpoint_proof_key(checkpoint.name), encode(checkpoint), meter=meter)


def proven_to_keep(
    store: Store,
    identity: str,
    manifest_version: int,
    commit_id: str,
    *,
    besides: str | None = None,
    meter: Meter | None = None,
) -> bool:
    """Whether a checkpoint has kept this state all along. One that is not proven may have come too late, and be taken back."""
    for one in list_checkpoints(store, meter):
        same = (one.identity, one.manifest_version, one.commit_id) == (identity, manifest_version, commit_id)
        if same and one.name != besides:
            if store.get(layout.checkpoint_proof_key(one.name), meter=meter) == encode(one):
                return True
    return False


def remove(store: Store, name: str, meter: Meter | None = None) -> None:
    """Delete a checkpoint, then what proves it."""
    store.delete(layout.checkpoint_key(name), meter=meter)
    store.delete(layout.checkpoint_proof_key(name), meter=meter)


def find_checkpoint(store: Store, name: str, meter: Meter | None = None) -> Checkpoint | None:
    """The checkpoint with this name, or None; one GET."""
    key = layout.checkpoint_key(name)
    data = store.get(key, meter=meter)
    return None if data is None else _decode(key, name, data)
