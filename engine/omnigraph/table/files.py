"""Which files a version of a table consists of, and which of them a transaction has added. On a local disk only.

Read off an open handle and its folder, never from names that look right: the transaction file is the one that the
version's own manifest names. Paths are relative to the folder of the dataset (``handle.uri``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from lance import LanceOperation, Transaction
from lance.fragment import DataFile, FragmentMetadata

from omnigraph.core.errors import Corruption
from omnigraph.table.message import tagged, text_field
from omnigraph.table.names import V2_MANIFEST_MAX

if TYPE_CHECKING:
    from lance import LanceDataset

_TRANSACTION_FILE = 12  # number of the field in Lance's table format
_TRANSACTION_NAME = re.compile(rb"[0-9]+-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\.txn")
_DETACHED = 1 << 63


def data_file_name(file: DataFile) -> str:
    """The name of a data file. Lance's ``path`` makes a class at each access, which costs more than reading a small file."""
    return str(file._path)


class _Named(DataFile):
    """A data file that says its name as it is."""

    @property
    def path(self) -> str:
        return data_file_name(self)


def name_plainly(fragments: Iterable[FragmentMetadata]) -> None:
    """Lance asks each file of a commit for its ``path``; those of the archive are many, and are named in every swap."""
    for fragment in fragments:
        for file in fragment.files:
            file.__class__ = _Named


def version_file(handle: LanceDataset) -> str:
    """The version file of the handle's version."""
    version = handle.version
    name = f"d{version}" if version & _DETACHED else f"{V2_MANIFEST_MAX - version:020d}"
    return f"_versions/{name}.manifest"


def transaction_file(handle: LanceDataset, stored: bytes, uuid: str) -> str | None:
    """The transaction file of the handle's version. ``stored``: the bytes of its version file; ``uuid``: of the transaction that
    has made it. A manifest that names that transaction need not be taken apart: for a table of many small fragments this
    takes longer than anything else that is done with the file."""
    expected = f"{handle.version - 1}-{uuid}.txn"
    if tagged(_TRANSACTION_FILE, expected) in stored:
        return f"_transactions/{expected}"
    return _named_transaction(handle)


def _named_transaction(handle: LanceDataset) -> str | None:
    manifest = handle._ds.serialized_manifest()
    # In most the name is seen at a glance: there is one such text, and it stands in such a field.
    seen = set(_TRANSACTION_NAME.findall(manifest))
    if len(seen) == 1 and tagged(_TRANSACTION_FILE, name := seen.pop().decode()) in manifest:
        return f"_transactions/{name}"
    name = text_field(manifest, _TRANSACTION_FILE) or ""
    return f"_transactions/{name}" if name else None


def version_files(handle: LanceDataset) -> tuple[str, ...]:
    """The version file of the handle's version and its transaction file, if it has one."""
    version = handle.version
    transaction = _named_transaction(handle)
    found = [version_file(handle), *([] if transaction is None else [transaction])]
    for path in found:
        if not os.path.isfile(os.path.join(handle.uri, path)):
            raise Corruption(
                f"a file of version {version} is not there: file={path} table={handle.uri}",
                version=version,
                file=path,
            )
    return tuple(found)


def fragment_files(folder: str, fragments: Iterable[FragmentMetadata]) -> tuple[str, ...]:
    """Data, blob and deletion files of fragments, without those that lie in the folder of another line."""
    found: list[str] = []
    for fragment in fragments:
        for file in fragment.files:
            if file.base_id is None:
                name = data_file_name(file)
                found.append(f"data/{name}")
                found += _below(folder, f"data/{os.path.splitext(name)[0]}")  # blobs too large for a data file
        deletion = fragment.deletion_file
        if deletion is not None and deletion.base_id is None:
            found.append(deletion.path(fragment.id))
    return tuple(dict.fromkeys(found))


def files_of_fragments(handle: LanceDataset, fragment_ids: Iterable[int] | None = None) -> tuple[str, ...]:
    """The files of some fragments of the handle's version, or of all."""
    wanted = None if fragment_ids is None else frozenset(fragment_ids)
    chosen = [one.metadata for one in handle.get_fragments() if wanted is None or one.fragment_id in wanted]
    return fragment_files(handle.uri, chosen)


def inherited_files(handle: LanceDataset) -> tuple[str, ...]:
    """Data files that lie in the folder of another line, by their names: those of a fork lie in its table's own folder."""
    return tuple(
        f"data/{file.path}"
        for fragment in handle.get_fragments()
        for file in fragment.metadata.files
        if file.base_id is not None
    )


def index_files(handle: LanceDataset) -> tuple[str, ...]:
    """The files of every index of the handle's version."""
    return tuple(
        path
        for index in handle.describe_indices()
        for segment in index.segments
        if segment.base_id is None
        for path in _below(handle.uri, f"_indices/{segment.uuid}")
    )


def live_files(handle: LanceDataset) -> tuple[str, ...]:
    """Every file that the handle's version names, its version file and transaction included."""
    return (*version_files(handle), *files_of_fragments(handle), *index_files(handle))


def added_files(handle: LanceDataset, transaction: Transaction) -> tuple[str, ...] | None:
    """The files that a transaction staged on the handle adds: what it costs is what the transaction touches. None for an
    operation whose files can only be seen once it has landed; see ``added_between``."""
    operation: Any = transaction.operation
    folder = handle.uri
    if isinstance(operation, LanceOperation.Append | LanceOperation.Overwrite):
        return fragment_files(folder, operation.fragments)
    if isinstance(operation, LanceOperation.Update | LanceOperation.Delete):
        new = list(operation.new_fragments) if isinstance(operation, LanceOperation.Update) else []
        return (*fragment_files(folder, new), *_changed(handle, operation.updated_fragments))
    if isinstance(operation, LanceOperation.CreateIndex):
        return tuple(path for index in operation.new_indices for path in _below(folder, f"_indices/{index.uuid}"))
    if isinstance(operation, LanceOperation.Restore | LanceOperation.UpdateConfig):
        return ()
    return None


def added_between(base: LanceDataset, landed: LanceDataset) -> tuple[str, ...]:
    """The files that ``landed`` names and ``base``, a version below it, does not."""
    before = {*files_of_fragments(base), *index_files(base)}
    return tuple(path for path in (*files_of_fragments(landed), *index_files(landed)) if path not in before)


def _changed(handle: LanceDataset, updated: Iterable[FragmentMetadata]) -> Iterator[str]:
    """The new files of fragments that were there before."""
    for fragment in updated:
        old = handle.get_fragment(fragment.id)
        before = frozenset(fragment_files(handle.uri, [old.metadata])) if old is not None else frozenset()
        yield from (path for path in fragment_files(handle.uri, [fragment]) if path not in before)


def _below(folder: str, name: str) -> list[str]:
    """The files of one folder, which may not be there."""
    found: list[str] = []
    for path, _, names in os.walk(os.path.join(folder, name)):
        relative = os.path.relpath(path, folder)
        found += [f"{relative}/{one}" for one in names]
    return sorted(found)
