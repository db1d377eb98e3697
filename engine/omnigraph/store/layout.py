"""Where everything lives below the root of a graph. Owns every path; reads and writes nothing.

    __manifest/                               what is visible (a Lance dataset)
    __recovery/{ulid}.json                    intents of writes in flight
    __recovery/quarantine/{ulid}.json         intents that could not be read, moved aside on request
    __staging/{ulid}.json                     records of bytes staged by others
    __boundary/{ref identity}/{20 digits}     marks of what cleanup has doomed; `all` for a deleted branch
    __checkpoints/{name}.json                 commits pinned against cleanup
    __cleanup/{ulid}.json                     what each cleanup has deleted, and why
    __checksums/{table identity}/{op}.ndjson  what files consisted of when they were written; local disk only
    __notes/{name}                            what a program that feeds the graph wants to find again
    __probe                                   shows that the store refuses a second create of one key
    nodes/{Type}-{ulid}.lance/                one node type
    edges/{Type}-{ulid}.lance/                one edge type
    _graph_commit_recoveries.lance/           what recovery has done

Paths are minted from checked names and ULIDs, never from user text. Paths that were read from storage go through
``check_under_root`` before anything is opened, written or deleted by them.
"""

from __future__ import annotations

import re
from typing import Final

from omnigraph.core import meter
from omnigraph.core.errors import Corruption, InvalidInput
from omnigraph.core.ids import is_ulid
from omnigraph.store.keys import check_key

MANIFEST: Final = "__manifest"
AUDIT: Final = "_graph_commit_recoveries.lance"
PROBE: Final = "__probe"

INTENTS: Final = "__recovery/"
QUARANTINE: Final = "__recovery/quarantine/"
STAGING: Final = "__staging/"
BOUNDARIES: Final = "__boundary/"
CHECKPOINTS: Final = "__checkpoints/"
CLEANUPS: Final = "__cleanup/"
NOTES: Final = "__notes/"
CHECKSUMS: Final = "__checksums/"
NODES: Final = "nodes/"
EDGES: Final = "edges/"

_OURS: Final = (f"{MANIFEST}/", INTENTS, STAGING, BOUNDARIES, CHECKPOINTS, CLEANUPS, NOTES, CHECKSUMS)

# Sorts after every mark of twenty digits: the boundary of a branch that is being deleted.
BOUNDARY_ALL: Final = "all"
_BOUNDARY_DIGITS: Final = 20
VERSION_MAX: Final = (1 << 64) - 1

_TYPE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_REF_IDENTITY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_TABLE_PATH = re.compile(r"(?:nodes|edges)/([A-Za-z_][A-Za-z0-9_]{0,127})-([0-9A-HJKMNP-TV-Z]{26})\.lance")
_MARK = re.compile(r"[0-9]{20}")
_CHECKPOINT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NOTE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}(?:/[A-Za-z0-9_][A-Za-z0-9._-]{0,127}){0,3}")


# --- control objects ----------------------------------------------------------------------------------------------------


def intent_key(ulid: str) -> str:
    return f"{INTENTS}{_checked_ulid(ulid)}.json"


def quarantine_key(ulid: str) -> str:
    return f"{QUARANTINE}{_checked_ulid(ulid)}.json"


def staging_key(ulid: str) -> str:
    return f"{STAGING}{_checked_ulid(ulid)}.json"


def record_ulid(key: str) -> str | None:
    """The ULID of an intent or staging record; ``None`` for any other key, quarantined intents included."""
    for prefix in (INTENTS, STAGING):
        name = key.removeprefix(prefix)
        if name != key and name.endswith(".json") and is_ulid(name.removesuffix(".json")):
            return name.removesuffix(".json")
    return None


def _checked_ulid(ulid: str) -> str:
    if not is_ulid(ulid):
        raise InvalidInput(f"not a ULID: {ulid[:80]!r}")
    return ulid


# --- boundary -----------------------------------------------------------------------------------------------------------


def boundary_prefix(ref_identity: str) -> str:
    """All marks of one ref, and nothing else."""
    if not _REF_IDENTITY.fullmatch(ref_identity):
        raise InvalidInput(f"not the identity of a ref: {ref_identity[:80]!r}")
    return f"{BOUNDARIES}{ref_identity}/"


def boundary_key(ref_identity: str, version: int | None) -> str:
    """The mark for ``version``; ``None`` is the mark for everything. Marks sort like the versions they stand for."""
    prefix = boundary_prefix(ref_identity)
    if version is None:
        return prefix + BOUNDARY_ALL
    if not 0 <= version <= VERSION_MAX:
        raise InvalidInput(f"not a version: {version}")
    return f"{prefix}{version:0{_BOUNDARY_DIGITS}d}"


def boundary_version(key: str) -> int | None:
    """The version of a mark, ``None`` for everything. A key that is no mark is ``Corruption``: it may hide one."""
    name = key.rpartition("/")[2]
    if name == BOUNDARY_ALL:
        return None
    if not _MARK.fullmatch(name):
        raise Corruption(f"not a boundary mark: key={key[:200]!r}", key=key)
    return int(name)


# --- upkeep -------------------------------------------------------------------------------------------------------------


def checkpoint_key(name: str) -> str:
    if not _CHECKPOINT.fullmatch(name):
        raise InvalidInput(
            f"not the name of a checkpoint: {name[:80]!r}",
            hint="use letters, digits, dots, dashes and underscores, a letter or digit first, 128 at most",
        )
    return f"{CHECKPOINTS}{name}.json"


def note_key(name: str) -> str:
    if not _NOTE.fullmatch(name):
        raise InvalidInput(
            f"not the name of a note: {name[:80]!r}",
            hint="use up to four parts with slashes between them: letters, digits, dots, dashes, underscores; no dot or dash first",
        )
    return f"{NOTES}{name}"


def checksums_prefix(identity: str) -> str:
    """All checksums of one table's files."""
    return f"{CHECKSUMS}{_checked_ulid(identity)}/"


def checkpoint_name(key: str) -> str | None:
    """The name of a checkpoint; ``None`` for any other key."""
    name = key.removeprefix(CHECKPOINTS).removesuffix(".json")
    is_one = key.startswith(CHECKPOINTS) and key.endswith(".json") and _CHECKPOINT.fullmatch(name)
    return name if is_one else None


def cleanup_key(ulid: str) -> str:
    return f"{CLEANUPS}{_checked_ulid(ulid)}.json"


# --- tables -------------------------------------------------------------------------------------------------------------


def node_table_path(type_name: str, ulid: str) -> str:
    return f"{NODES}{_checked_type(type_name)}-{_checked_ulid(ulid)}.lance"


def edge_table_path(type_name: str, ulid: str) -> str:
    return f"{EDGES}{_checked_type(type_name)}-{_checked_ulid(ulid)}.lance"


def table_path(table_key: str, ulid: str) -> str:
    """The path of a new table for a table key (``node:Person``, ``edge:Knows``)."""
    kind, _, name = table_key.partition(":")
    if kind == "node":
        return node_table_path(name, ulid)
    if kind == "edge":
        return edge_table_path(name, ulid)
    raise InvalidInput(f"not a table key: {table_key[:80]!r}")


def is_table_path(path: str) -> bool:
    """Whether ``path`` is one that this module makes for a table."""
    return _TABLE_PATH.fullmatch(path) is not None


def is_ours(key: str) -> bool:
    """Whether a key lies where this module puts things. What else lies below the root is somebody else's."""
    first, _, rest = key.partition("/")
    return (
        first == AUDIT
        or f"{first}/" in _OURS
        or first.partition("#")[0] == PROBE
        or is_table_path(f"{first}/{rest.partition('/')[0]}")
    )


def table_ulid(path: str) -> str:
    """The ULID that was minted with a table path."""
    found = _TABLE_PATH.fullmatch(path)
    if found is None:
        raise InvalidInput(f"not the path of a table: {path[:200]!r}")
    return found[2]


def _checked_type(name: str) -> str:
    if not _TYPE_NAME.fullmatch(name):
        raise InvalidInput(f"not a type name: {name[:80]!r}")
    return name


def check_under_root(path: str) -> str:
    """Return a path that was read from storage, if it stays below the root; else ``Corruption``.

    Refused are parent steps, absolute paths, backslashes, control characters and names of temporary files. Percent
    signs as well: some client further down may decode them, and none of our own paths has one.
    """
    try:
        check_key(path)
    except InvalidInput as error:
        raise Corruption(f"a stored path leaves the root: path={path[:200]!r}", path=path[:200]) from error
    if "%" in path or ":" in path:
        raise Corruption(f"a stored path leaves the root: path={path[:200]!r}", path=path[:200])
    return path


# --- accounting ---------------------------------------------------------------------------------------------------------

_BY_TABLE_FOLDER: Final = {
    "data": meter.DATA,
    "_deletions": meter.DATA,
    "_versions": meter.VERSIONS,
    "_transactions": meter.VERSIONS,
    "_refs": meter.VERSIONS,
    "_indices": meter.INDEX,
}


def request_class(key: str) -> str:
    """The class under which a request for ``key`` (or for a listing of it) is counted."""
    if key == MANIFEST or key.startswith(MANIFEST + "/"):
        return meter.MANIFEST
    if key.startswith(INTENTS):
        return meter.INTENT
    if key.startswith(BOUNDARIES):
        return meter.BOUNDARY
    if key.startswith((NODES, EDGES)):
        # nodes/X-ulid.lance/data/…, and below tree/{ref}/ for forks
        for folder in key.split("/")[2:]:
            if folder in _BY_TABLE_FOLDER:
                return _BY_TABLE_FOLDER[folder]
    return meter.OTHER
