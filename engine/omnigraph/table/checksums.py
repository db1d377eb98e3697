"""Checksums of the files of tables on a local disk: taken when a file is published, compared when it is read again.

A line of ``__checksums/{table identity}/{op}.ndjson`` holds a file's path below the graph's root, its size and its
xxh3-128, and ``c``, the xxh3-64 of the line without that member. Nothing of the protocol rests on a line: a file without
one is *not known*, and nothing is said about it. On an object store there are none: the store has its own.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Final

from lance import Transaction

from omnigraph.core.errors import Corruption
from omnigraph.core.pace import Pace
from omnigraph.store import layout
from omnigraph.table import files
from omnigraph.table.names import V2_MANIFEST_MAX

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.fragment import FragmentMetadata

    from omnigraph.store import Store

OP_PROPERTY: Final = "omnigraph:op"
BUFFER_BYTES: Final = 1 << 20
_SUFFIX: Final = ".ndjson"
_CHECK_CHARS: Final = len(',"c":"0123456789abcdef"}')
_OP_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")
_LOG = logging.getLogger("omnigraph.checksums")


@dataclass(frozen=True, slots=True)
class Digest:
    """What a file is to consist of."""

    bytes: int
    xxh3: str


@dataclass(frozen=True, slots=True)
class Place:
    """A table on a local disk, or a line of the manifest: the folder of its graph, and where it lies below."""

    root: str
    location: str
    relative: str
    """The folder of the version line: ``location``, or a fork below it."""
    identity: str
    """The identity under which the lines are kept: the table's, or that of the branch."""

    @property
    def folder(self) -> str:
        return os.path.join(self.root, layout.checksums_prefix(self.identity))

    def path(self, file: str) -> str:
        """The path below the root of a file of the dataset."""
        return f"{self.relative}/{file}"


@dataclass(frozen=True)
class Lines:
    """All lines of one table. ``unreadable``: files of lines that hold a damaged one."""

    known: Mapping[str, Digest]
    contradicting: frozenset[str] = frozenset()
    again: Mapping[str, frozenset[Digest]] = field(default_factory=dict)  # of version files whose number was used again
    unreadable: tuple[str, ...] = ()


def place_of(uri: str) -> Place | None:
    """Where a table's dataset lies; None on an object store, and for a dataset that holds no type."""
    if "://" in uri:
        return None
    parts = uri.rstrip("/").split("/")
    for at in range(len(parts) - 1, 0, -1):
        location = "/".join(parts[at - 1 : at + 1])
        if layout.is_table_path(location):
            root = "/".join(parts[: at - 1]) or "/"
            return Place(root, location, "/".join(parts[at - 1 :]), layout.table_ulid(location))
    return None


def line_place(store: Store, relative: str, identity: str) -> Place | None:
    """The same for a line of the manifest; None on an object store."""
    return None if store.is_remote else Place(store.uri, layout.MANIFEST, relative, identity)


# --- one file -----------------------------------------------------------------------------------------------------------


def digest_of(path: str, pace: Pace | None = None) -> Digest:
    """Read a file, a megabyte at a time."""
    import xxhash

    hasher = xxhash.xxh3_128()
    size = 0
    with open(path, "rb", buffering=0) as file:
        block = min(BUFFER_BYTES, os.fstat(file.fileno()).st_size + 1)
        buffer = bytearray(block if pace is None else pace.block_bytes(block))
        view = memoryview(buffer)
        while count := file.readinto(buffer):
            hasher.update(view[:count])
            size += count
            if pace is not None:
                pace.took(count)
    return Digest(size, hasher.hexdigest())


def _held(data: bytes) -> Digest:
    """The checksum of a file whose bytes have been read."""
    import xxhash

    return Digest(len(data), xxhash.xxh3_128_hexdigest(data))


# --- lines --------------------------------------------------------------------------------------------------------------


def encode(path: str, digest: Digest) -> bytes:
    """One line, with its newline."""
    import xxhash

    # Written out: an encoder is made anew for each text that is not written with its defaults.
    text = f'{{"path":{encode_basestring_ascii(path)},"bytes":{digest.bytes:d},"xxh3":"{digest.xxh3}"}}'
    body = text.encode()
    return b'%s,"c":"%s"}\n' % (body[:-1], xxhash.xxh3_64_hexdigest(body).encode())


def decode(data: bytes) -> list[tuple[str, Digest] | None]:
    """The lines of a file, None for one that does not hold what was written. A last line without its newline was being
    written when a process ended, and is left out.

    In one function: a table has a line for each file that it ever had, and upkeep reads them all."""
    import xxhash

    found: list[tuple[str, Digest] | None] = []
    for line in data.split(b"\n")[:-1]:
        if not line:
            continue
        body, check = line[:-_CHECK_CHARS] + b"}", line[-_CHECK_CHARS:]
        if check != b',"c":"%s"}' % xxhash.xxh3_64_hexdigest(body).encode():
            found.append(None)
            continue
        try:
            value = json.loads(body)
            found.append((value["path"], Digest(value["bytes"], value["xxh3"])))
        except (ValueError, KeyError, TypeError):
            found.append(None)
    return found


def read_lines(place: Place) -> Lines:
    """Every line that was written for a table."""
    known: dict[str, Digest] = {}
    contradicting: set[str] = set()
    again: dict[str, set[Digest]] = {}
    unreadable = []
    for name in _line_files(place.folder):
        try:
            with open(os.path.join(place.folder, name), "rb") as file:
                decoded = decode(file.read())
        except FileNotFoundError:
            continue  # folded since it was listed
        if None in decoded:
            unreadable.append(name)
        for line in decoded:
            if line is not None and known.setdefault(line[0], line[1]) != line[1]:
                if "/_versions/" in line[0]:
                    again.setdefault(line[0], {known[line[0]]}).add(line[1])
                else:
                    contradicting.add(line[0])
    same = {path: frozenset(digests) for path, digests in again.items()}
    return Lines(known, frozenset(contradicting), same, tuple(unreadable))


def _line_files(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(_SUFFIX))
    except FileNotFoundError:
        return []


def append_lines(place: Place, op: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Take the checksums of files (below the root) and add their lines to those of an operation. Returns what was
    written, for the syncs before the swap: this itself syncs nothing."""
    return _append(place, op, _lines(place, paths))


def _lines(place: Place, paths: Iterable[str]) -> bytes:
    return b"".join([encode(path, digest_of(os.path.join(place.root, path))) for path in dict.fromkeys(paths)])


def _append(place: Place, op: str, lines: bytes) -> tuple[str, ...]:
    if not lines:
        return ()
    path = os.path.join(place.folder, f"{_checked(op)}{_SUFFIX}")
    with os.fdopen(_open_to_append(path), "ab", buffering=0) as file:
        # What was there may end in the middle of a line.
        rest = memoryview(b"\n" + lines if file.tell() else lines)
        while rest:
            rest = rest[file.write(rest) :]
    return (path,)


def _open_to_append(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags, 0o644)
    except FileNotFoundError:  # the first lines of the table
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags, 0o644)


def _checked(op: str) -> str:
    if not _OP_NAME.fullmatch(op):
        raise ValueError(f"not the name of an operation: {op[:80]!r}")
    return op


# --- writers ------------------------------------------------------------------------------------------------------------


def note_commit(base: LanceDataset, transaction: Transaction, landed: LanceDataset) -> None:
    """Write the lines of what a table commit has added: the transaction's files, its version file and itself."""
    with _unless_impossible(landed.uri):
        place = place_of(landed.uri)
        if place is None:
            return
        added = files.added_files(base, transaction)
        if added is None:
            added = files.added_between(base, landed)
        op = (transaction.transaction_properties or {}).get(OP_PROPERTY) or transaction.uuid
        _append(place, op, _lines(place, map(place.path, added)) + _version_lines(place, landed, transaction.uuid))


def note_rewrite(op: str, fragments: Iterable[FragmentMetadata], versions: Iterable[LanceDataset]) -> None:
    """Write the lines of a rewrite: its new data files, and the version files of what it committed."""
    versions = list(versions)
    with _unless_impossible(versions[-1].uri):
        place = place_of(versions[-1].uri)
        if place is None:
            return
        named = [path for handle in versions for path in files.version_files(handle)]
        append_lines(place, op, map(place.path, (*files.fragment_files(versions[-1].uri, fragments), *named)))


def note_version(op: str, landed: LanceDataset) -> None:
    """Write the lines of a version file and its transaction."""
    note_rewrite(op, (), [landed])


def note_line(place: Place, op: str, landed: LanceDataset, uuid: str) -> None:
    """Write the lines of a new version of a manifest line and its transaction: after the swap, and not synced."""
    with _unless_impossible(landed.uri):
        _append(place, op, _version_lines(place, landed, uuid))


def _version_lines(place: Place, landed: LanceDataset, uuid: str) -> bytes:
    """The lines of a version file and of the transaction that has made it. The version file is read once: it also says which
    transaction that is."""
    path = place.path(files.version_file(landed))
    with open(os.path.join(place.root, path), "rb", buffering=0) as file:
        stored = file.read()
    transaction = files.transaction_file(landed, stored, uuid)
    return encode(path, _held(stored)) + _lines(place, () if transaction is None else (place.path(transaction),))


@contextlib.contextmanager
def _unless_impossible(uri: str) -> Iterator[None]:
    """A line that cannot be written is *not known*, and no reason for a commit that has landed to fail."""
    try:
        yield
    except (OSError, Corruption) as error:
        _LOG.warning("no checksums were written for %s: %s", uri, error)


# --- readers ------------------------------------------------------------------------------------------------------------


def mismatch(place: Place, lines: Lines, path: str, pace: Pace | None = None) -> str | None:
    """What is wrong with a file (path below the root) by its line; None where nothing is, or nothing is known."""
    if path in lines.contradicting:
        return "two checksums of it contradict each other"
    wanted = lines.known.get(path)
    if wanted is None:
        return None
    try:
        found = digest_of(os.path.join(place.root, path), pace)
    except FileNotFoundError:
        return "it is not there"
    except OSError as error:
        return f"it does not read: {error.strerror or error}"
    if found in lines.again.get(path, ()):
        return None
    if found.bytes != wanted.bytes:
        return f"it has {found.bytes} bytes, and had {wanted.bytes}"
    return None if found == wanted else "its bytes are not those that were written"


class CheckedFiles:
    """Files of one version, each compared with its line once, before anything is made of them."""

    def __init__(self, handle: LanceDataset) -> None:
        self._handle = handle
        self._place = place_of(handle.uri)
        self._lines: Lines | None = None
        self._checked: set[str] = set()

    def check_fragments(self, fragment_ids: Collection[int] | None = None) -> None:
        """Raise ``Corruption`` if a file of one of these fragments is not what was written."""
        if self._place is None:
            return
        if self._lines is None:
            self._lines = read_lines(self._place)
        for file in files.files_of_fragments(self._handle, fragment_ids):
            path = self._place.path(file)
            if path in self._checked:
                continue
            problem = mismatch(self._place, self._lines, path)
            if problem is not None:
                raise damaged(self._place.location, self._handle.version, path, problem)
            self._checked.add(path)


def damaged(location: str, version: int, path: str, problem: str) -> Corruption:
    return Corruption(
        f"a file is damaged: {problem}: table={location} version={version} file={path}",
        hint="keep the files and restore this one from a backup; `omnigraph verify --deep` names all that are damaged",
        table=location,
        version=version,
        file=path,
    )


def damaged_version_file(store: Store, relative: str, version: int) -> tuple[str, str] | None:
    """The version or transaction file of a version of the manifest that is not what was written, and what is wrong with it.
    Asked where the line does not open, so that its identity is not known: every line of checksums is read."""
    folder = os.path.join(store.uri, relative, "_transactions")
    transactions = os.listdir(folder) if os.path.isdir(folder) else []
    wanted = [f"{relative}/_transactions/{name}" for name in transactions if name.startswith(f"{version - 1}-")]
    wanted.append(f"{relative}/_versions/{V2_MANIFEST_MAX - version:020d}.manifest")
    for identity in store.folders(layout.CHECKSUMS):
        place = Place(store.uri, layout.MANIFEST, relative, identity)
        lines = read_lines(place)
        for path in wanted:
            problem = mismatch(place, lines, path)
            if problem is not None:
                return path, problem
    return None


# --- folding ------------------------------------------------------------------------------------------------------------


def fold(store: Store, identity: str, run: str, pending: Callable[[], Collection[str]]) -> int:
    """Put the lines of a table into one file and leave out those whose file is gone. Lines of operations that have not
    ended stay where they are. Returns how many files of lines went."""
    if store.is_remote:
        return 0
    prefix, root = layout.checksums_prefix(identity), store.uri
    names = _line_files(os.path.join(root, prefix))
    if len(names) < 2:
        return 0
    busy = pending()  # after the names: an operation that has a file here and is not among these adds nothing to it
    names = [name for name in names if name.removesuffix(_SUFFIX) not in busy]
    kept: dict[bytes, None] = {}
    for name in names:
        for line in decode(store.get(prefix + name) or b""):
            if line is not None and os.path.exists(os.path.join(root, line[0])):
                kept[encode(*line)] = None
    if kept:
        store.create(f"{prefix}{_checked(run)}{_SUFFIX}", b"".join(kept))
    failures = store.delete_many(prefix + name for name in names)
    if failures:
        raise failures[0].error
    return len(names)


def forget(store: Store, paths: Collection[str]) -> None:
    """Leave out the lines of files that were moved aside: their names will be used again."""
    for identity in store.folders(layout.CHECKSUMS):
        prefix = f"{layout.CHECKSUMS}{identity}/"
        for name in _line_files(os.path.join(store.uri, prefix)):
            lines = decode(store.get(prefix + name) or b"")
            kept = [line for line in lines if line is None or line[0] not in paths]
            if len(kept) != len(lines):
                store.replace(prefix + name, b"".join(encode(*line) for line in kept if line is not None))
