"""What to say where a line of the manifest does not open: absent, torn by a power cut, or damaged; and what puts it right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from omnigraph.core.errors import Corruption, NotFound, OmnigraphError, StoreRefused
from omnigraph.store import layout
from omnigraph.table import checksums
from omnigraph.table.dataset import TableRef
from omnigraph.table.errors import Fate, brief
from omnigraph.table.torn import torn_version
from omnigraph.table.version_list import version_files, version_path

if TYPE_CHECKING:
    from omnigraph.store import Store

LATER_VERSION: Final = 2  # of a table: version 1 is what `init` makes, also where it came to nothing


def repair_hint(uri: str) -> str:
    return f"`omnigraph repair {uri}` shows what can be put right; `omnigraph repair {uri} --confirm` moves what is torn aside"


def explained(store: Store, ref: TableRef, error: OmnigraphError) -> OmnigraphError:
    """The error of opening the newest version of a line, as what it means."""
    if isinstance(error, NotFound):
        return _absent(store, ref, error)
    if store.is_remote or isinstance(error, StoreRefused):
        return error
    listed = version_files(store, ref)
    return _bad_version(store, ref, listed[-1].version) or error if listed else error


def unreadable(store: Store, ref: TableRef, error: Exception) -> OmnigraphError:
    """The error of reading a version that opens. What Lance makes of a damaged version file may raise anything."""
    listed = () if store.is_remote else version_files(store, ref)  # a file of zeros says that it is of version 0
    found = _bad_version(store, ref, listed[-1].version) if listed else None
    if found is not None:
        return _as_whole_as(error, found)
    if isinstance(error, OmnigraphError):
        return error
    return Corruption(
        f"the newest version of __manifest does not read: {brief(error)}",
        hint=repair_hint(store.uri),
        object="__manifest",
    )


def of_version(store: Store, ref: TableRef, version: int, error: Exception) -> OmnigraphError:
    """The error of reading one version of a line. The error as it is where the version is not there, or has a file named. A version
    file is asked first: where it is damaged, so is what it says of the others."""
    if isinstance(error, OmnigraphError) and is_absent(error):
        return error
    found = None if store.is_remote else _bad_version(store, ref, version)
    if found is not None:
        return _as_whole_as(error, found)
    if isinstance(error, OmnigraphError) and (not isinstance(error, Corruption) or "file" in error.facts):
        return error
    said = error.message if isinstance(error, OmnigraphError) else brief(error)
    path = version_path(ref, version)
    return Corruption(
        f"version {version} of __manifest does not read: {said}: file={path}",
        hint=repair_hint(store.uri),
        object="__manifest",
        version=version,
        file=path,
    )


def _as_whole_as(error: Exception, found: Corruption) -> Corruption:
    """What was found of a version's own files, with what the reader says of the data: a power cut takes both."""
    if isinstance(error, OmnigraphError) and error.facts.get("whole") is False:
        found.facts["whole"] = False
    return found


def is_absent(error: OmnigraphError) -> bool:
    """Whether the version itself is not there, which a cleanup may have done."""
    return error.facts.get("fate") == Fate.MISSING_VERSION.value


def facts_of(error: OmnigraphError) -> dict[str, Any]:
    """What a refusal repeats of the damage that is its reason."""
    return {name: error.facts[name] for name in ("object", "table_key", "version", "file") if name in error.facts}


def _bad_version(store: Store, ref: TableRef, version: int) -> Corruption | None:
    """A version file that is torn, or one of its files that differs from its checksum."""
    torn = torn_version(store, ref, version)
    if torn is not None:
        return Corruption(
            f"version {torn.version} of __manifest was not written whole: {torn.why}: file={torn.path}",
            hint=repair_hint(store.uri),
            object="__manifest",
            version=torn.version,
            file=torn.path,
        )
    found = checksums.damaged_version_file(store, ref.relative, version)
    if found is None:
        return None
    path, problem = found
    return Corruption(
        f"a file of __manifest is damaged: {problem}: version={version} file={path}",
        hint=f"restore the file from a backup; `omnigraph repair {store.uri}` shows which commits are lost without it",
        object="__manifest",
        version=version,
        file=path,
    )


def _absent(store: Store, ref: TableRef, error: NotFound) -> OmnigraphError:
    held = None if store.is_remote or ref.ref is not None else _data_without_manifest(store)
    if held is None:
        return NotFound(
            f"no graph at {store.uri}",
            hint=f"create one with `omnigraph init {store.uri} --schema FILE`",
            **error.facts,
        )
    return Corruption(
        f"{store.uri} holds data ({held}), but no version of __manifest, which says what counts",
        hint="restore the folder __manifest from a backup, or choose another place for a new graph; nothing is deleted",
        object="__manifest",
        holds=held,
    )


def _data_without_manifest(store: Store) -> str | None:
    """A table that was written to after ``init``: a graph was here."""
    for prefix in (layout.NODES, layout.EDGES):
        for folder in store.folders(prefix):
            location = f"{prefix}{folder}"
            if not layout.is_table_path(location):
                continue
            if any(one.version >= LATER_VERSION for one in version_files(store, TableRef(location))):
                return location
    return None
