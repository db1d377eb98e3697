"""Where everything lives below the root of a graph. Owns every path; reads and writes nothing.

    __manifest/                               what is visible on main (a Lance dataset)
    __manifest/tree/g-{ulid}/                 the same of a branch, by its identity
    __branches/{name key}/{8 digits}          what names of branches stand for
    __recovery/{ulid}.json                    intents of writes in flight
    __recovery/refused/{ulid}.json            why an offered write was refused
    __recovery/quarantine/{ulid}.json         intents that could not be read, moved aside on request
    __recovery/quarantine/versions/{ulid}/…   torn version files, moved aside
    __recoveries/{ulid}.json                  what recovery did about one write, until optimize collects it
    __staging/{ulid}.json                     records of bytes staged by others
    __boundary/{branch identity}/{20 digits}  up to which version cleanup has doomed; `all` for a deleted branch
    __checkpoints/{name}.json                 commits pinned against cleanup
    __checkpoints/{name}.kept                 that the checkpoint did not come too late for a cleanup
    __cleanup/{ulid}.json                     what each cleanup has deleted, and why
    __checksums/{ulid}/{ulid}.ndjson          checksums of files of one table or line, on a local disk
    __notes/{name}                            what a program that feeds the graph wants to find again
    __probe                                   shows that the store refuses a second create of one key
    nodes/{Type}-{ulid}.lance/                one node type
    edges/{Type}-{ulid}.lance/                one edge type
    _graph_commit_recoveries.lance/           what recovery did, collected

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
REFUSED: Final = "__recovery/refused/"
QUARANTINE: Final = "__recovery/quarantine/"
QUARANTINED_VERSIONS: Final = "__recovery/quarantine/versions/"
RECOVERIES: Final = "__recoveries/"
MANIFEST_LINES: Final = "__manifest/tree/"
BRANCHES: Final = "__branches/"
CHECKSUMS: Final = "__checksums/"
STAGING: Final = "__staging/"
BOUNDARIES: Final = "__boundary/"
CHECKPOINTS: Final = "__checkpoints/"
CLEANUPS: Final = "__cleanup/"
NOTES: Final = "__notes/"
NODES: Final = "nodes/"
EDGES: Final = "edges/"

_OURS: Final = (
    f"{MANIFEST}/",
    INTENTS,
    RECOVERIES,
    STAGING,
    BRANCHES,
    BOUNDARIES,
    CHECKPOINTS,
    CLEANUPS,
    CHECKSUMS,
    NOTES,
)

# Sorts after every mark of twenty digits: the boundary of a branch that is being deleted.
BOUNDARY_ALL: Final = "all"
_BOUNDARY_DIGITS: Final = 20
VERSION_MAX: Final = (1 << 64) - 1

_TYPE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_TABLE_PATH = re.compile(r"(?:nodes|edges)/([A-Za-z_][A-Za-z0-9_]{0,127})-([0-9A-HJKMNP-TV-Z]{26})\.lance")
_MARK = re.compile(r"[0-9]{20}")
_BRANCH_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_BRANCH_NAME_CHARS_MAX: Final = 128
_NAME_ENTRY = re.compile(r"([a-z0-9][a-z0-9._-]*(?:\+[a-z0-9][a-z0-9._-]*)*)/([0-9]{8})")
NAME_NUMBER_MAX: Final = 99_999_999
_CHECKPOINT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NOTE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}(?:/[A-Za-z0-9_][A-Za-z0-9._-]{0,127}){0,3}")


# --- control objects ----------------------------------------------------------------------------------------------------


def intent_key(ulid: str) -> str:
    return f"{INTENTS}{_checked_ulid(ulid)}.json"


def quarantine_key(ulid: str) -> str:
    return f"{QUARANTINE}{_checked_ulid(ulid)}.json"


def refused_key(ulid: str) -> str:
    return f"{REFUSED}{_checked_ulid(ulid)}.json"


def quarantined_versions_key(run: str) -> str:
    """The record of a run that moved torn version files aside."""
    return f"{QUARANTINED_VERSIONS}{_checked_ulid(run)}.json"


def quarantined_version_key(run: str, path: str) -> str:
    """Where a run puts a torn version file, by its path below the root."""
    return f"{QUARANTINED_VERSIONS}{_checked_ulid(run)}/{check_under_root(path)}"


def recovery_key(ulid: str) -> str:
    return f"{RECOVERIES}{_checked_ulid(ulid)}.json"


def recovery_op(key: str) -> str | None:
    """The operation that a record of recovery is about; ``None`` for any other key."""
    name = key.removeprefix(RECOVERIES).removesuffix(".json")
    return name if key == f"{RECOVERIES}{name}.json" and is_ulid(name) else None


def staging_key(ulid: str) -> str:
    return f"{STAGING}{_checked_ulid(ulid)}.json"


def refused_ulid(key: str) -> str | None:
    """The ULID of the operation whose offer was refused; ``None`` for any other key."""
    name = key.removeprefix(REFUSED)
    found = name != key and name.endswith(".json") and is_ulid(name.removesuffix(".json"))
    return name.removesuffix(".json") if found else None


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


def boundary_prefix(identity: str) -> str:
    """All boundary values of one branch, and nothing else."""
    if not is_ulid(identity):
        raise InvalidInput(f"not the identity of a branch: {identity[:80]!r}")
    return f"{BOUNDARIES}{identity}/"


def boundary_key(identity: str, version: int | None) -> str:
    """The key of the boundary ``version``; ``None`` is everything. Keys sort like the versions they stand for."""
    prefix = boundary_prefix(identity)
    if version is None:
        return prefix + BOUNDARY_ALL
    if not 0 <= version <= VERSION_MAX:
        raise InvalidInput(f"not a version: {version}")
    return f"{prefix}{version:0{_BOUNDARY_DIGITS}d}"


def boundary_version(key: str) -> int | None:
    """The version of a boundary key, ``None`` for everything. Any other key is ``Corruption``: it may hide one."""
    folder, _, name = key.rpartition("/")
    known = folder.startswith(BOUNDARIES) and is_ulid(folder.removeprefix(BOUNDARIES))
    if known and name == BOUNDARY_ALL:
        return None
    if not known or not _MARK.fullmatch(name) or int(name) > VERSION_MAX:
        raise Corruption(f"not a cleanup boundary: key={key[:200]!r}", key=key, object=key)
    return int(name)


# --- branches -----------------------------------------------------------------------------------------------------------


def branch_ref(identity: str) -> str:
    """The ref of a branch's line of the manifest."""
    return f"g-{_checked_ulid(identity)}"


def line_identity(folder: str) -> str | None:
    """The branch whose line lies in a folder below ``__manifest/tree/``; ``None`` for any other folder."""
    return folder[2:] if folder.startswith("g-") and is_ulid(folder[2:]) else None


def branch_name_key(name: str) -> str:
    """The folder of a branch name: names that differ in case only share it, and no name lies inside another's."""
    if not _BRANCH_NAME.fullmatch(name) or len(name) > _BRANCH_NAME_CHARS_MAX:
        raise InvalidInput(
            f"not the name of a branch: {name[:80]!r}",
            hint="use letters, digits, dots, dashes, underscores, in parts with slashes between them that begin with a "
            "letter or digit, 128 characters at most",
        )
    if name.lower() == "main":
        raise InvalidInput("main is the branch that every graph has; no other has its name", hint="use another name")
    return name.lower().replace("/", "+")


def branch_names_prefix(name_key: str) -> str:
    return f"{BRANCHES}{name_key}/"


def name_entry_key(name_key: str, number: int) -> str:
    if not 0 <= number <= NAME_NUMBER_MAX:
        raise InvalidInput(f"not the number of an entry: {number}")
    return f"{BRANCHES}{name_key}/{number:08d}"


def name_entry(key: str) -> tuple[str, int]:
    """The folder and the number of an entry. Any other key below ``__branches/`` is ``Corruption``: it may hide one."""
    found = _NAME_ENTRY.fullmatch(key.removeprefix(BRANCHES)) if key.startswith(BRANCHES) else None
    if found is None or found[1] == "main" or len(found[1]) > _BRANCH_NAME_CHARS_MAX:
        raise Corruption(f"not an entry of a branch name: key={key[:200]!r}", key=key, object=key)
    return found[1], int(found[2])


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


def checkpoint_proof_key(name: str) -> str:
    """Under it lies a copy of a checkpoint that is known not to have come too late for a cleanup."""
    return f"{checkpoint_key(name).removesuffix('.json')}.kept"


def is_checkpoint_proof(key: str) -> bool:
    name = key.removeprefix(CHECKPOINTS).removesuffix(".kept")
    return key.startswith(CHECKPOINTS) and key.endswith(".kept") and _CHECKPOINT.fullmatch(name) is not None


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
    """Whether a key lies where this module puts things. Other files below the root belong to other programs."""
    first, _, rest = key.partition("/")
    return (
        first == AUDIT
        or f"{first}/" in _OURS
        or first.partition("#")[0] == PROBE
        or is_table_path(f"{first}/{rest.partition('/')[0]}")
    )


def line_of_file(key: str) -> tuple[str, str | None] | None:
    """The dataset and the ref on it to which a file of a table belongs; ``None`` for any other key."""
    folder, _, rest = key.partition("/")
    name, _, inside = rest.partition("/")
    location = f"{folder}/{name}"
    if not is_table_path(location) or not inside or ".." in key.split("/"):
        return None
    if not inside.startswith("tree/"):
        return (location, None)
    ref, _, file = inside.removeprefix("tree/").partition("/")
    return (location, ref) if file and ref[:2] in ("g-", "f-") and is_ulid(ref[2:]) else None


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
