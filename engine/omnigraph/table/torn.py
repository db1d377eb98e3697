"""Version files that a power cut has torn: empty, or cut short. On a local disk only, where Lance syncs nothing that it writes.

Lance writes a version file under another name and then names it, so a living writer leaves none under its own name that is
not whole. It may be moved aside if no state that can be read names its version.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from omnigraph.core.errors import Corruption, OmnigraphError
from omnigraph.table.names import TableRef
from omnigraph.table.version_list import version_files, version_path

if TYPE_CHECKING:
    from omnigraph.store import Store

_FOOTER: Final = struct.Struct("<QHH4s")  # where the manifest begins, two numbers of the format, the mark of Lance
_MARK: Final = b"LANC"
_LENGTH: Final = struct.Struct("<I")


@dataclass(frozen=True)
class TornVersion:
    """A version file that is not whole. ``path``: below the graph's root."""

    path: str
    version: int
    bytes: int
    why: str


def why_torn(path: str) -> str | None:
    """What is missing of a version file; None where it is whole, or not there."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                return "it is empty"
            file.seek(max(0, size - _FOOTER.size))
            footer = file.read()
            if len(footer) < _FOOTER.size or footer[-len(_MARK) :] != _MARK:
                return f"its {size} bytes have no end"
            begin = _FOOTER.unpack(footer)[0]
            if begin + _LENGTH.size > size - _FOOTER.size:
                return f"its {size} bytes end before what they announce"
            file.seek(begin)
            (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
    except FileNotFoundError:
        return None
    if begin + _LENGTH.size + length > size - _FOOTER.size:
        return f"its {size} bytes end before what they announce"
    return None


def torn_version(store: Store, ref: TableRef, version: int) -> TornVersion | None:
    """This version, if its file is torn. None on an object store, where a file is whole or absent."""
    if store.is_remote:
        return None
    path = version_path(ref, version)
    whole = os.path.join(store.uri, path)
    why = why_torn(whole)
    return None if why is None else TornVersion(path, version, os.path.getsize(whole), why)


def torn_versions(store: Store, ref: TableRef, *, above: int = 0) -> tuple[TornVersion, ...]:
    """Every torn version of a line above one, oldest first."""
    if store.is_remote:
        return ()
    found = (torn_version(store, ref, one.version) for one in version_files(store, ref) if one.version > above)
    return tuple(one for one in found if one is not None)


def not_whole(store: Store, ref: TableRef, version: int, error: OmnigraphError) -> OmnigraphError:
    """The error of opening a version, or ``Corruption`` with its file where that is torn."""
    torn = torn_version(store, ref, version)
    if torn is None:
        return error
    return Corruption(
        f"version {version} of {ref.relative} is not whole: {torn.why}: file={torn.path}",
        hint=restore_hint(store.uri),
        object=ref.relative,
        table=ref.relative,
        version=version,
        file=torn.path,
        whole=False,
    )


def restore_hint(uri: str) -> str:
    """What to do about a file that a published version names. Only commits that were not synced are given up for it."""
    return (
        f"restore the file from a backup; where commits were made with durability=relaxed, `omnigraph repair {uri}` shows the "
        "newest commit that is whole"
    )
