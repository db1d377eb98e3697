"""Names of branches, and the lines of the manifest: what a name stands for, and which lines a graph has.

A name has a log, ``__branches/{name key}/{8 digits}``. Entries are created only if absent and never changed. **The highest entry
alone is what the name says.** An entry is written only at the number above the highest, and only where it is a step from it, so
writing one is a compare-and-swap. A number that is taken, and an answer that is unknown, are resolved by reading. The highest
entry is never deleted, so a number never comes back: a late repeat of a delete cannot meet a newer entry.

Owns the format, the rules (pure) and the requests. Making and deleting branches is the business of their callers, who also know
whether a line is closed and how long they have seen a name being made.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from typing import Final, Literal

from pydantic import Field

from omnigraph.core import documents, failpoints
from omnigraph.core.documents import Document, Ref, Ulid
from omnigraph.core.errors import Corruption, LimitExceeded, StoreUnavailable
from omnigraph.core.meter import Meter
from omnigraph.store import KeyExists, Store, layout

FORMAT: Final = 1
KNOWN_MAX: Final = 4096  # entries that are remembered, of some 300 bytes each
LOOKS_MAX: Final = 20  # an entry that was listed is gone only where a newer one exists; each repeat needs another one

NameState = Literal["making", "bound", "free"]


# --- values -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BranchSource:
    """The state that a branch was made from. ``commit``: the last of its version."""

    identity: str
    ref: str | None
    manifest_version: int
    commit: str


@dataclass(frozen=True)
class NameEntry:
    """One entry of a name's log. ``source`` stands in ``making`` only."""

    n: int
    state: NameState
    name: str
    identity: str
    source: BranchSource | None
    actor: str | None
    created_at_us: int

    @property
    def ref(self) -> str:
        return layout.branch_ref(self.identity)

    @property
    def key(self) -> str:
        return layout.name_entry_key(layout.branch_name_key(self.name), self.n)


@dataclass(frozen=True)
class Written:
    """The entry is in the log. Whether it is the highest, and so counts, only another look tells."""

    entry: NameEntry


@dataclass(frozen=True)
class Lost:
    """Another entry has the number. ``highest``: what the name says now; the caller decides again, from there."""

    highest: NameEntry | None


@dataclass(frozen=True)
class Lines:
    """The lines of the manifest of one graph besides main's.

    ``names``: the highest entry of every name that was ever used. ``identities``: the branches of which a line exists, named or
    not. ``unknown``: what else lies below ``__manifest/tree/``; nothing may be deleted while there is any."""

    names: tuple[NameEntry, ...]
    identities: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def bound(self) -> dict[str, NameEntry]:
        """The names that stand for a branch, by their spelling."""
        return {entry.name: entry for entry in self.names if entry.state == "bound"}

    def name_of(self, identity: str) -> str | None:
        return next((e.name for e in self.names if e.identity == identity and e.state != "free"), None)


# --- rules (pure) -------------------------------------------------------------------------------------------------------


def next_number(highest: NameEntry | None, state: NameState, identity: str) -> int | None:
    """The number at which an entry may be written after ``highest``; None where it is no step from it."""
    free = highest is None or highest.state == "free"
    if state == "making":
        allowed = free
    else:
        own = highest is not None and not free and highest.identity == identity
        allowed = own and (state == "free" or (highest is not None and highest.state == "making"))
    if not allowed:
        return None
    return 0 if highest is None else highest.n + 1


def reads_as_free(highest: NameEntry | None, *, line_closed: bool, beyond_grace: bool) -> bool:
    """Whether a reader takes the name for free. ``line_closed``: of the branch it is bound to; ``beyond_grace``: the reader
    has seen the very entry ``making`` for longer than a creation takes."""
    if highest is None or highest.state == "free":
        return True
    return line_closed if highest.state == "bound" else beyond_grace


def stands(entry: NameEntry, highest: NameEntry | None) -> bool:
    """Whether an entry that its author wrote is what the name says. An entry at a number that had been deleted means
    nothing; its author learns so here, before anything is reported."""
    return highest == entry


def given_up(entries: Iterable[NameEntry], closed: Set[str], stuck: Set[str]) -> tuple[NameEntry, ...]:
    """The entries after which a cleanup writes ``free``: of branches that were deleted, and of those whose making has not moved for
    too long. ``closed``: identities of closed lines, as seen at any time before; ``stuck``: keys of entries that are old."""
    return tuple(
        entry
        for entry in entries
        if entry.state != "free"
        and reads_as_free(entry, line_closed=entry.identity in closed, beyond_grace=entry.key in stuck)
    )


def branches_deleted(highest: NameEntry) -> int:
    """How many branches of this name have been bound and deleted, at most: each took ``making``, ``bound`` and ``free``. Entries are
    trimmed, their numbers are not."""
    own = {"free": -1, "making": 0, "bound": 1}[highest.state]
    return (highest.n - own) // 3


def trimmable(numbers: Iterable[int]) -> tuple[int, ...]:
    """The numbers of entries that may be deleted: all but the highest, in any order, any number of times."""
    return tuple(sorted(numbers)[:-1])


# --- the byte format ----------------------------------------------------------------------------------------------------


class _Source(Document):
    identity: Ulid
    ref: Ref | None
    manifest_version: int
    commit: Ulid


class _File(Document):
    format: int
    n: int
    state: NameState
    name: str
    identity: Ulid
    ref: Ref
    from_: _Source | None = Field(alias="from")
    actor: str | None
    created_at_us: int


def encode(entry: NameEntry) -> bytes:
    facts = {**vars(entry)}
    source = facts.pop("source")
    body = {"format": FORMAT, **facts, "ref": entry.ref, "from": None if source is None else vars(source)}
    return documents.canonical(body)


def decode(key: str, data: bytes) -> NameEntry:
    """The entry under a key. Raises ``Corruption`` or ``UnsupportedStorage`` naming it."""
    name_key, number = layout.name_entry(key)
    with documents.refusals(key, "the entry of a branch name"):
        file = documents.read(_File, data, format=FORMAT, named={"n": number})
        if file.ref != layout.branch_ref(file.identity):
            raise ValueError(f"its ref is {file.ref}, which is not the line of branch {file.identity}")
        if layout.branch_name_key(file.name) != name_key:
            raise ValueError(f"its name is {file.name[:80]!r}, which does not lie here")
        if (file.from_ is not None) != (file.state == "making"):
            raise ValueError(f"from is {'set' if file.from_ else 'null'} in state {file.state}")
        source = None if file.from_ is None else _source(file.from_)
        return NameEntry(number, file.state, file.name, file.identity, source, file.actor, file.created_at_us)


def _source(source: _Source) -> BranchSource:
    if source.ref not in (None, layout.branch_ref(source.identity)):
        raise ValueError(f"from.ref is {source.ref}, which is not the line of branch {source.identity}")
    if source.manifest_version < 1:
        raise ValueError(f"from.manifest_version is {source.manifest_version}")
    return BranchSource(**source.model_dump())


# --- requests -----------------------------------------------------------------------------------------------------------


class Names:
    """The names of branches of one graph."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: OrderedDict[str, NameEntry] = (
            OrderedDict()
        )  # an entry never changes, and its number never comes back

    def highest(self, name: str, meter: Meter | None = None) -> NameEntry | None:
        """What a name says: one LIST, and one GET where it was ever used. None: it never was."""
        return self._highest(layout.branch_name_key(name), meter)

    def _highest(self, name_key: str, meter: Meter | None) -> NameEntry | None:
        prefix = layout.branch_names_prefix(name_key)
        for _ in range(LOOKS_MAX):
            numbers = [layout.name_entry(entry.key)[1] for entry in self._store.list(prefix, meter=meter)]
            if not numbers:
                return None
            found = self._read(name_key, max(numbers), meter)
            if found is not None:
                return found
        raise Corruption(
            "the highest entry of a branch name was listed and is not there, every time",
            hint="read again; if it stays so, look at the store",
            object=prefix,
        )

    def _read(self, name_key: str, number: int, meter: Meter | None, *, afresh: bool = False) -> NameEntry | None:
        key = layout.name_entry_key(name_key, number)
        with self._lock:
            if key in self._known and not afresh:
                return self._known[key]
        data = self._store.get(key, meter=meter)
        return None if data is None else self._remember(decode(key, data))

    def _remember(self, entry: NameEntry) -> NameEntry:
        with self._lock:
            self._known[entry.key] = entry
            while len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        return entry

    def all(self, meter: Meter | None = None) -> tuple[NameEntry, ...]:
        """What every name says that was ever used: one LIST, and one GET a name. Every entry is read again: what judges
        what may be deleted has to notice one that does not read any more."""
        found = (
            self._read(name_key, number, meter, afresh=True) or self._highest(name_key, meter)
            for name_key, number in self.listed(meter)
        )
        return tuple(entry for entry in found if entry is not None)

    def listed(self, meter: Meter | None = None) -> tuple[tuple[str, int], ...]:
        """The highest number of every name that was ever used, by the key of the name: one LIST."""
        numbers: dict[str, int] = {}
        for entry in self._store.list(layout.BRANCHES, meter=meter):
            name_key, number = layout.name_entry(entry.key)
            numbers[name_key] = max(number, numbers.get(name_key, 0))
        return tuple(sorted(numbers.items()))

    def of(self, name_key: str, number: int, meter: Meter | None = None) -> NameEntry | None:
        """The entry that was listed as the highest of a name. Where it is gone by now, the newer one: it exists."""
        return self._read(name_key, number, meter) or self._highest(name_key, meter)

    def age_s(self, entry: NameEntry, now_us: int, meter: Meter | None = None) -> float:
        """For how long an entry has been in the log, by the time that the store gives its files; 0 where it is gone. One LIST."""
        prefix = layout.branch_names_prefix(layout.branch_name_key(entry.name))
        stored = (one.modified_us for one in self._store.list(prefix, meter=meter) if one.key == entry.key)
        return max(0, now_us - next(stored, now_us)) / 1_000_000

    def write(self, after: NameEntry | None, entry: NameEntry, meter: Meter | None = None) -> Written | Lost:
        """Write the entry after the highest, ``after``, at the number that follows it.

        ``Lost`` is no answer to whether the step may still be made: look at what the name says and decide again.
        """
        number = next_number(after, entry.state, entry.identity)
        same = after is None or layout.branch_name_key(after.name) == layout.branch_name_key(entry.name)
        if number is None or not same:
            raise ValueError(f"{entry.state} is no step from {'nothing' if after is None else after.state}")
        if number > layout.NAME_NUMBER_MAX:
            raise LimitExceeded(
                f"the name {entry.name!r} was used {number} times; there are no numbers left for it",
                hint="use another name for the branch",
                limit="branch_name_entries",
                bound=layout.NAME_NUMBER_MAX,
                actual=number,
            )
        entry = replace(entry, n=number)
        failpoints.hit("names.before_write", branch=entry.name, state=entry.state, n=number)
        try:
            self._store.create(entry.key, encode(entry), meter=meter)
        except KeyExists:
            return Lost(self.highest(entry.name, meter))
        except StoreUnavailable:
            written = self._read(layout.branch_name_key(entry.name), number, meter)
            if written is None:
                raise
            if written != entry:
                return Lost(self.highest(entry.name, meter))
        failpoints.hit("names.after_write", branch=entry.name, state=entry.state, n=number)
        return Written(self._remember(entry))

    def trim(self, meter: Meter | None = None) -> int:
        """Delete the entries below the highest of each name. For cleanup only. Return how many went."""
        numbers: dict[str, list[int]] = {}
        for entry in self._store.list(layout.BRANCHES, meter=meter):
            name_key, number = layout.name_entry(entry.key)
            numbers.setdefault(name_key, []).append(number)
        keys = [layout.name_entry_key(name_key, n) for name_key, ns in numbers.items() for n in trimmable(ns)]
        return len(keys) - len(self._store.delete_many(keys, meter=meter))


def list_lines(store: Store, meter: Meter | None = None) -> Lines:
    """Every line of the manifest besides main's. Lines before names: a line is made after its name was claimed, so one that
    no name claims in a later listing is claimed by none."""
    folders = store.folders(layout.MANIFEST_LINES, meter=meter)
    identities = tuple(found for folder in folders if (found := layout.line_identity(folder)) is not None)
    unknown = tuple(folder for folder in folders if layout.line_identity(folder) is None)
    return Lines(Names(store).all(meter), identities, unknown)
