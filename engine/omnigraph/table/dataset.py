"""One Lance dataset at a time: open at a pin, stage, commit one transaction, find it again, restore.

Owns every call that moves or reads a table's version line. It decides nothing: what a version means, whether it may be
published and who undoes it is the business of ``commit/``. Nothing here opens "the latest" on behalf of a reader.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction
from lance.file import LanceFileSession
from lance.fragment import FragmentMetadata

from omnigraph.core.errors import Corruption, OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.table import checksums
from omnigraph.table.blob import stored_schema
from omnigraph.table.errors import Fate, brief, classify, panics_raised, translate
from omnigraph.table.moved import check_place
from omnigraph.table.names import V2_MANIFEST_MAX as V2_MANIFEST_MAX
from omnigraph.table.names import TableRef as TableRef
from omnigraph.table.new_file_checks import write_files
from omnigraph.table.reading import metered as metered
from omnigraph.table.row_stream import drawing
from omnigraph.table.torn import not_whole, torn_version
from omnigraph.table.verified import VerifiedFiles
from omnigraph.table.version_list import version_path
from omnigraph.table.version_stamp import VersionStamp, stamp_in

if TYPE_CHECKING:
    from omnigraph.store import Store

DATA_STORAGE_VERSION = "2.2"
COMMIT_TIMEOUT = timedelta(
    seconds=60
)  # well below the grace that others give us at the front, times the retries inside
HANDLES_MAX = 4096  # open handles are small (a manifest each); 2,000 types on two branches fit
TORN = "torn"
VERSION_TX_MAX = 20_000  # a (version → transaction) note is ~300 B and never changes once read
RESTORE_RETRIES = 5  # a Restore rebases over anything; retries only cover a lost race for the version number
# What Lance reads of an unknown file at first. The state of a graph of several hundred tables, and the manifest of a table
# of a thousand small commits, then come in one request; Lance's own 64 KiB make that three, one after the other.
REMOTE_BLOCK_BYTES = 256 * 1024


class NotLanded(Exception):
    """Lance says for certain that a commit left nothing behind."""


class CommitUnknown(Exception):
    """No answer that says either. Only the table's versions can tell."""


@dataclass(frozen=True)
class VersionTx:
    """What made one version of a table. ``kind`` is "unreadable" where Lance cannot say, "torn" where a power cut has left a
    file that is not whole; such a version belongs to no plan."""

    version: int
    uuid: str | None
    properties: Mapping[str, str]
    kind: str
    restore_of: int | None = None


def _stamp_of(note: VersionTx) -> VersionStamp | None:
    return None if note.uuid is None else VersionStamp(note.uuid, note.properties)


def own_handle(handle: LanceDataset) -> LanceDataset:
    """The same version as an object of the caller's own, for calls that change the handle they are made on. Handles of
    ``Tables`` are shared by all threads, and while Lance changes one every other call on it raises."""
    return handle.checkout_version(handle.version)


def at_version(handle: LanceDataset, version: int) -> LanceDataset:
    """Another version on the line of a handle, not remembered."""
    return handle.checkout_version(version)


def same_files(one: LanceDataset, other: LanceDataset) -> bool:
    """Whether two versions of a table consist of the same fragments. No request."""
    first, second = ([fragment.metadata.to_json() for fragment in handle.get_fragments()] for handle in (one, other))
    return first == second


class Tables:
    """Lance datasets of one graph, opened by version and remembered."""

    def __init__(self, store: Store, *, verify: bool = False) -> None:
        self._store = store
        self._verified = VerifiedFiles() if verify and not store.is_remote else None
        self._options = store.lance_options()
        self._session = lance.Session()  # type: ignore[attr-defined]  # public, but not in its __all__
        self._lock = threading.Lock()
        # What was used last is at the end. Plain dicts: an interrupt while the hash of a key is computed leaves an ``OrderedDict``
        # with an entry that it lists and does not have.
        self._handles: dict[tuple[TableRef, int], LanceDataset] = {}
        self._transactions: dict[tuple[TableRef, int], VersionTx] = {}
        self._files: dict[TableRef, LanceFileSession] = {}

    # --- opening ----------------------------------------------------------------------------------------------------

    def uri(self, ref: TableRef) -> str:
        return self._store.lance_uri(ref.relative)

    def store_uri(self, key: str) -> str:
        """Where Lance finds one file below the root."""
        return self._store.lance_uri(key)

    @property
    def store(self) -> Store:
        return self._store

    @property
    def options(self) -> dict[str, str] | None:
        return self._options

    def put_new(self, key: str, data: bytes, meter: Meter | None = None) -> None:
        """Write a file of a dataset that no version names yet, whole or not at all: one request."""
        self._store.create(key, data, meter=meter)

    def open(self, ref: TableRef, version: int, meter: Meter | None = None, cls: str = "versions") -> LanceDataset:
        """The dataset at exactly this version; a version that was opened before costs no request."""
        handle = self._at(ref, version, meter, cls)
        if self._verified is not None:
            self._verified.check(ref, handle)
        return handle

    def _at(self, ref: TableRef, version: int, meter: Meter | None, cls: str) -> LanceDataset:
        with self._lock:
            found = self._handles.pop((ref, version), None)
            if found is not None:
                self._handles[(ref, version)] = found
                return found
        try:
            with translated(f"open {ref.relative} at version {version}"):
                return self.remember(ref, self._open(ref, version, meter, cls))
        except OmnigraphError as error:
            meant = not_whole(self._store, ref, version, error)
            if meant is error:  # nothing is its own cause
                raise
            raise meant from error

    def open_latest(self, ref: TableRef, meter: Meter | None = None, cls: str = "versions") -> LanceDataset:
        with translated(f"open {ref.relative}"):
            return self.remember(ref, self._open(ref, None, meter, cls))

    def _open(self, ref: TableRef, version: int | None, meter: Meter | None, cls: str) -> LanceDataset:
        def call() -> LanceDataset:
            handle = lance.dataset(
                self.uri(ref),
                version=version,
                block_size=REMOTE_BLOCK_BYTES if self._store.is_remote else None,
                storage_options=self._options,
                session=self._session,
            )
            if ref.ref is not None:
                check_place(ref, handle, self.uri(TableRef(ref.location)).rstrip("/"))
            return handle

        if meter is None:
            return call()
        # Counted by the client that all handles share, so that any other one tells what came before.
        with self._lock:
            other = next(reversed(self._handles.values()), None)
        with meter.section(cls, None if other is None else other.io_stats_incremental) as section:
            handle = call()
            section.drain = handle.io_stats_incremental
            return handle

    def remember(self, ref: TableRef, handle: LanceDataset) -> LanceDataset:
        with self._lock:
            self._handles.pop((ref, handle.version), None)
            self._handles[(ref, handle.version)] = handle
            while len(self._handles) > HANDLES_MAX:
                del self._handles[next(iter(self._handles))]
        return handle

    def held(self, ref: TableRef, version: int) -> bool:
        with self._lock:
            return (ref, version) in self._handles

    def release(self, ref: TableRef, version: int) -> None:
        """Let one handle go. Only saves memory: who still holds it keeps it."""
        with self._lock:
            self._handles.pop((ref, version), None)

    def forget(self, ref: TableRef) -> None:
        with self._lock:
            for key in [key for key in self._handles if key[0] == ref]:
                del self._handles[key]

    def exists(self, ref: TableRef, version: int, meter: Meter | None = None, cls: str = "versions") -> bool:
        """Whether this version's manifest is there: one HEAD, whatever the history."""
        with self._lock:
            files = self._files.get(ref)
            if files is None:
                files = self._files[ref] = LanceFileSession(self.uri(ref), storage_options=self._options)
        with translated(f"look for version {version} of {ref.relative}"):
            found = bool(files.contains(f"_versions/{V2_MANIFEST_MAX - version:020d}.manifest"))
        if meter is not None:
            meter.count(cls)
        return found

    def head_version(self, handle: LanceDataset, meter: Meter | None = None) -> int:
        """The newest version on the handle's line: one LIST."""
        with translated("list versions"), metered(handle, meter, "versions"):
            return int(handle.latest_version)

    # --- staging ----------------------------------------------------------------------------------------------------

    def stage_append(self, handle: LanceDataset, data: Any, meter: Meter | None = None, **limits: Any) -> Transaction:
        """Write the rows as new files that no version names yet. ``data``: an Arrow table or reader."""
        with drawing(data) as rows, translated("write data files"), metered(handle, meter, "data"):
            fragments = write_files(rows, handle, **limits)
        return Transaction(handle.version, LanceOperation.Append(fragments))

    def stage_overwrite(
        self, handle: LanceDataset, data: Any, meter: Meter | None = None, **limits: Any
    ) -> Transaction:
        """Replace all rows. ``None`` or an empty table leaves no fragment."""
        fragments: list[FragmentMetadata] = []
        if data is not None and not (isinstance(data, pa.Table) and data.num_rows == 0):
            with drawing(data) as rows, translated("write data files"), metered(handle, meter, "data"):
                fragments = write_files(rows, handle, **limits)
        return Transaction(handle.version, LanceOperation.Overwrite(handle.lance_schema, fragments))

    # --- committing -------------------------------------------------------------------------------------------------

    def create_empty(
        self, ref: TableRef, schema: pa.Schema, *, meter: Meter | None = None, uuid: str | None = None
    ) -> LanceDataset:
        """A table without rows, at a path that must not be a dataset yet."""
        transaction = Transaction(0, LanceOperation.Overwrite(stored_schema(schema), []))
        if uuid is not None:
            transaction.uuid = uuid
        with translated(f"create {ref.relative}"):
            handle = LanceDataset.commit(
                self.uri(ref),
                transaction,
                max_retries=0,
                storage_options=self._options,
                enable_stable_row_ids=True,
                enable_v2_manifest_paths=True,
                commit_timeout=COMMIT_TIMEOUT,
            )
        if meter is not None:
            meter.count("versions", 4)
        checksums.note_version(transaction.uuid, handle)
        return handle

    def commit(
        self, ref: TableRef, handle: LanceDataset, transaction: Transaction, meter: Meter | None = None
    ) -> LanceDataset:
        """Commit on the handle, or raise ``NotLanded`` or ``CommitUnknown``.

        No retry inside, and no promise about the number: everything but an Overwrite may be rebased, so the caller
        compares the version of what comes back.
        """
        retries = RESTORE_RETRIES if isinstance(transaction.operation, LanceOperation.Restore) else 0
        with metered(handle, meter, "versions"):
            try:
                with panics_raised():
                    landed = LanceDataset.commit(
                        handle, transaction, max_retries=retries, commit_timeout=COMMIT_TIMEOUT
                    )
            except Exception as error:
                kind = NotLanded if classify(error).surely_not_landed else CommitUnknown
                raise kind(brief(error)) from error
        checksums.note_commit(handle, transaction, landed)
        return self.remember(ref, landed)

    def check_line(self, ref: TableRef, handle: LanceDataset) -> None:
        """A transaction belongs to the line that it was staged on. Lance commits it on any handle, also on that of a fork,
        whose folder then lacks the files it names."""
        if handle.uri.rstrip("/").rpartition("://")[2].lstrip("/") != self.uri(ref).rstrip("/").rpartition("://")[
            2
        ].lstrip("/"):
            raise Corruption(
                f"a change staged on {handle.uri.rsplit('/', 1)[-1]} was to be committed to {ref.relative}",
                hint="nothing was committed; repeat the write",
                object=ref.relative,
            )

    def restore_transaction(self, handle: LanceDataset, *, uuid: str, properties: Mapping[str, str]) -> Transaction:
        """A transaction that puts the handle's own version back on top. Always a fresh one: a Restore is not idempotent."""
        transaction = Transaction(handle.version, LanceOperation.Restore(handle.version))
        transaction.uuid = uuid
        transaction.transaction_properties = dict(properties)
        return transaction

    def check_restored(self, handle: LanceDataset, landed: LanceDataset) -> None:
        """A Restore has the very files of the version that it puts back. Lance reads that version again and writes what it
        read: a bit that flipped on the way would be a name that no file has."""
        if not same_files(handle, landed):
            raise Corruption(
                f"version {landed.version} was to put version {handle.version} back, and names other files",
                hint="repeat: nothing of it was published. If it stays so, keep the files and run `omnigraph verify`",
                expected=handle.version,
                actual=landed.version,
            )

    def drop_detached(self, ref: TableRef, version: int) -> None:
        """Delete the manifest of a version that is in no line. Its data files are not touched."""
        self._store.delete(f"{ref.relative}/_versions/d{version}.manifest")

    # --- looking back -----------------------------------------------------------------------------------------------

    def transaction_at(
        self, ref: TableRef, handle: LanceDataset, version: int, meter: Meter | None = None
    ) -> VersionTx | None:
        """What made ``version``; None where that version does not exist. Remembered: a version never changes."""
        with self._lock:
            known = self._transactions.get((ref, version))
        if known is not None:
            return known
        if torn_version(self._store, ref, version) is not None:
            return VersionTx(version, None, {}, TORN)  # not remembered: recovery moves it aside
        note = self._read_transaction(handle, version, meter)
        if note is not None:
            with self._lock:
                self._transactions[(ref, version)] = note
                while len(self._transactions) > VERSION_TX_MAX:
                    del self._transactions[next(iter(self._transactions))]
        return note

    def stamp(self, ref: TableRef, version: int, meter: Meter | None = None) -> VersionStamp | None:
        """What has made ``version``, without a handle: one request. None where that version does not exist."""
        with self._lock:
            known = self._transactions.get((ref, version))
        if known is not None:
            return _stamp_of(known)
        stored = self._store.get(version_path(ref, version), meter=meter)
        if stored is None:
            return None
        found = stamp_in(stored)
        if found is not None:
            return found
        held = self.held(ref, version)
        note = self.transaction_at(ref, self.open(ref, version, meter), version, meter)
        if not held:
            self.release(ref, version)
        return None if note is None else _stamp_of(note)

    def _read_transaction(self, handle: LanceDataset, version: int, meter: Meter | None) -> VersionTx | None:
        try:
            with metered(handle, meter, "versions"), panics_raised():
                transaction = own_handle(handle).read_transaction(version)  # Lance borrows the handle for it
        except TypeError:
            # Lance cannot rebuild a Rewrite that touched an index. A plan's own transaction is always readable.
            return VersionTx(version, None, {}, "rewrite")
        except Exception as error:
            if classify(error) is Fate.MISSING_VERSION:
                return None
            raise translate(error, f"read the transaction of version {version}") from error
        if transaction is None:
            return VersionTx(version, None, {}, "unreadable")
        operation = transaction.operation
        kind = type(operation).__name__.lower()
        if kind == "baseoperation":
            kind = "other"  # one that Python has no class for, as the ReserveFragments of a compaction
        restore_of = operation.version if isinstance(operation, LanceOperation.Restore) else None
        return VersionTx(version, transaction.uuid, dict(transaction.transaction_properties or {}), kind, restore_of)

    def versions_between(self, ref: TableRef, low: int, high: int) -> list[int]:
        """Version numbers in (low, high] that still exist, by listing names only."""
        prefix = f"{ref.relative}/_versions/"
        found = []
        for entry in self._store.list(prefix):
            name = entry.key.rsplit("/", 1)[-1]
            if name.endswith(".manifest") and name[:-9].isdigit():
                number = V2_MANIFEST_MAX - int(name[:-9])
                if low < number <= high:
                    found.append(number)
        return sorted(found)


def append_of(handle: LanceDataset, fragments: Sequence[FragmentMetadata]) -> Transaction:
    """A fresh append of files that were staged before, based on the handle."""
    return Transaction(handle.version, LanceOperation.Append(list(fragments)))


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    try:
        with panics_raised():
            yield
    except Exception as error:
        found = translate(error, what)
        if found is error:  # nothing is its own cause
            raise
        raise found from error


def bases_in_use(handle: LanceDataset) -> bool:
    """Whether a data file, a deletion file or an index of this version lies on another line than its own. No request where the
    fragments tell; else one, on a handle that was just committed on."""
    for fragment in handle.get_fragments():
        meta = fragment.metadata
        if any(file.base_id is not None for file in meta.files):
            return True
        deletion = meta.deletion_file
        if deletion is not None and getattr(deletion, "base_id", None) is not None:
            return True
    with translated("list indexes"):
        return any(segment.base_id is not None for index in handle.describe_indices() for segment in index.segments)
