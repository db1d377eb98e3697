"""What one open graph shares between its operations: store, tables, manifest, caches, locks, timing.

Owns lifetimes, no decisions. Everything here may be thrown away without losing a commit: durable state is the only truth.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import socket
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from omnigraph.commit.applied_plans import AppliedPlans
from omnigraph.commit.durable import Durable, durability_of
from omnigraph.commit.intent import Intents
from omnigraph.commit.locks import TableLocks
from omnigraph.commit.plan import BranchName, Owner
from omnigraph.commit.pressure import Bounds
from omnigraph.commit.queue.lease import QueueLeases
from omnigraph.commit.queue.timing import ContentionTiming
from omnigraph.core.clock import SYSTEM_CLOCK, Clock
from omnigraph.core.collector import collector_paused
from omnigraph.core.errors import Corruption, InvalidInput, NotFound, OmnigraphError, Refused
from omnigraph.core.ids import is_ulid
from omnigraph.core.limits import DEFAULT_LIMITS, Limits
from omnigraph.core.meter import Meter
from omnigraph.manifest.boundary import Boundary
from omnigraph.manifest.durable import Durability
from omnigraph.manifest.history import History
from omnigraph.manifest.refs import Names
from omnigraph.manifest.rows import SchemaRow
from omnigraph.manifest.swap import Held, Manifest
from omnigraph.schema import Catalog, catalog_from_canonical
from omnigraph.store import Store, layout
from omnigraph.table.dataset import Tables
from omnigraph.table.keys import KeyCache

T = TypeVar("T")

MAIN = "main"
Branch = str | BranchName  # by its name, which may come to mean another branch, or by its identity
FORK_POINTS_MAX = 64  # states that branches were made from: some 10 kB each, more with many tables
POOL_THREADS = 72  # a thread per table of a wide commit and some more; idle threads cost a stack each


class Engine:
    """The shared parts of one open graph."""

    def __init__(
        self,
        store: Store,
        *,
        limits: Limits = DEFAULT_LIMITS,
        clock: Clock = SYSTEM_CLOCK,
        read_only: bool = False,
        key_cache_bytes: int | None = None,
        durability: Durability | None = None,
        groups: bool = True,
        verify_reads: bool = False,
        combine: bool = True,
        offers: bool = True,
    ) -> None:
        self.store = store
        self.uri = store.uri
        self.limits = limits
        self.clock = clock
        self.read_only = read_only
        self.durable = Durable(store, durability or durability_of(None))
        self.tables = Tables(store, verify=verify_reads)
        self.manifest = Manifest(self.tables, store.uri)
        self.history = History()
        self.boundary = Boundary(store)
        self.names = Names(store)
        self.intents = Intents(store)
        self.keys = KeyCache() if key_cache_bytes is None else KeyCache(key_cache_bytes)
        self.timing = ContentionTiming(clock)
        self.leases = QueueLeases()
        self.bounds = Bounds()
        self.groups = groups  # whether requests of this handle may share a swap
        self.combine = combine  # whether plans of this handle may share a swap with those of other processes
        self.offers = (
            offers  # whether writes of this handle may be carried out by other processes, and carry out theirs
        )
        self.applied = AppliedPlans()
        self.owner = this_process()
        self.names_seen: dict[str, float] = {}  # entries ``making`` of others, and when this process first saw each
        self.exclusive_token: str | None = None  # what the head row says while this handle uses the graph exclusively
        self.locks = TableLocks(self.ref_of)
        self._pool = ThreadPoolExecutor(max_workers=POOL_THREADS, thread_name_prefix="omnigraph")
        self._known_lock = threading.Lock()
        self._known: dict[str | None, Held] = {}  # by the ref of the line: a name may come to mean another branch
        self._refs: dict[str, str] = {}  # of names that were resolved
        self._fork_points: dict[tuple[str | None, int], Held] = {}
        self._identity: str | None = None
        self._pid = os.getpid()
        self._door = _Door()
        self._running: list[Meter] = []
        self._overlaps = 0

    def may_share(self, wanted: bool | None) -> bool:
        """Whether a write may share its swap. ``wanted``: what its caller says; None: as the handle says."""
        return self.groups if wanted is None else wanted

    @property
    def forked(self) -> bool:
        """Whether this is a child, by fork, of the process that opened the graph."""
        return os.getpid() != self._pid

    def check_process(self) -> None:
        """Raise ``Refused`` in a forked process: threads, and what they hold, stayed in the parent."""
        if self.forked:
            raise Refused(
                "this graph was opened by the parent of this process, and its threads stayed there",
                hint="start the process with spawn, do not fork (multiprocessing.get_context('spawn')), and open the graph in it",
                reason="forked-process",
            )

    def check_open(self) -> None:
        """Raise ``InvalidInput`` once the graph is closed."""
        if self._door.closed:
            raise _closed()

    def close(self) -> None:
        """Wait for the writes that are under way in other threads. A forked process leaves the parent's alone."""
        if self.forked:
            return
        self._door.close()
        self.leases.release_idle()
        self._pool.shutdown(wait=True, cancel_futures=True)
        with self._known_lock:
            self._known.clear()
            self._refs.clear()

    # --- branches ---------------------------------------------------------------------------------------------------

    def ref_of(self, branch: Branch, meter: Meter | None = None) -> str | None:
        """The ref of a branch's line; None is main's. What a name was resolved to is remembered: whether that branch is still
        there, its line says, and never the name."""
        if isinstance(branch, BranchName):
            return None if branch.identity == self.graph_id else layout.branch_ref(branch.identity)
        if branch == MAIN:
            return None
        with self._known_lock:
            ref = self._refs.get(branch)
        if ref is None:
            ref = self._resolve(branch, meter)
            with self._known_lock:
                self._refs[branch] = ref
        return ref

    def line_of(self, branch: Branch, meter: Meter | None = None) -> Branch:
        """The branch by its identity, for work that must not move to a namesake that is made meanwhile. Main is always main."""
        if isinstance(branch, BranchName):
            return branch
        ref = self.ref_of(branch, meter)
        return branch if ref is None else BranchName(branch, ref[2:])

    def _resolve(self, branch: str, meter: Meter | None) -> str:
        try:
            entry = self.names.highest(branch, meter)
        except InvalidInput:
            entry = None  # what is no name of a branch names none
        if entry is not None and entry.state == "bound" and entry.name == branch:
            return entry.ref
        twin = entry is not None and entry.state == "bound"
        making = entry is not None and entry.state == "making" and entry.name == branch
        raise NotFound(
            f"no branch {branch[:80]!r}{'; it is being made' if making else ''}",
            hint=f"use {entry.name!r}: names of branches are exact in their case"
            if twin and entry is not None
            else "`omnigraph branch list` shows the branches of the graph",
            branch=branch[:80],
        )

    def gone(self, name: str, ref: str, meter: Meter | None = None) -> OmnigraphError:
        """Forget a branch that was deleted, and return the error to raise. The next call resolves the name anew."""
        self.unbind(name, ref)
        now: str | None = None
        with contextlib.suppress(OmnigraphError):
            entry = self.names.highest(name, meter)
            now = entry.identity if entry is not None and entry.state == "bound" and entry.name == name else None
        if now == ref[2:]:
            now = None  # its line says that it was deleted; freeing the name is still to be done
        again = "" if now is None else ", and another branch has its name now"
        return NotFound(
            f"branch {name[:80]!r} was deleted{again}",
            hint="`omnigraph branch list` shows the branches of the graph"
            if now is None
            else "call again to use the branch that has the name now",
            branch=name[:80],
            identity=ref[2:],
            bound_to=now,
        )

    @property
    def graph_id(self) -> str:
        """The graph's identity is that of its first branch."""
        if self._identity is None:
            self.latest(MAIN)
        assert self._identity is not None
        return self._identity

    # --- the newest state this process has seen -----------------------------------------------------------------------

    def known(self, branch: Branch) -> Held | None:
        ref = self.ref_of(branch)
        with self._known_lock:
            return self._known.get(ref)

    def remember(self, branch: Branch, held: Held) -> Held:
        """Keep the newer of what is known and what was just seen of this line."""
        ref = held.state.ref
        with self._known_lock:
            current = self._known.get(ref)
            if current is None or current.version < held.version or current.state.identity != held.state.identity:
                self._known[ref] = held
            if ref is None:
                self._identity = held.state.identity
            return held

    def bind(self, name: str, held: Held) -> None:
        """Note that a name stands for this branch, and its state."""
        if held.state.ref is not None:
            with self._known_lock:
                self._refs[name] = held.state.ref
            self.remember(name, held)

    def unbind(self, name: str, ref: str) -> None:
        """Forget that a name stood for this branch, and the branch."""
        with self._known_lock:
            self._known.pop(ref, None)
            if self._refs.get(name) == ref:
                del self._refs[name]

    def drop(self, branch: Branch) -> None:
        """Forget what is known: the next look goes by listing."""
        ref = self.ref_of(branch)
        with self._known_lock:
            self._known.pop(ref, None)
            if isinstance(branch, str):
                self._refs.pop(branch, None)

    def latest(self, branch: Branch, meter: Meter | None = None) -> Held:
        """The newest state, by listing. By name: of a branch that is there, else ``NotFound``. By identity: whatever its line
        says, that it was deleted included."""
        ref = self.ref_of(branch, meter)
        if ref is None or isinstance(branch, BranchName):
            return self.remember(branch, self._open_line(ref, meter))
        try:
            held = self._open_line(ref, meter)
        except NotFound as error:
            raise self.gone(branch, ref, meter) from error
        if held.state.head.closed is not None:
            raise self.gone(branch, ref, meter)
        return self.remember(branch, held)

    def latest_of(self, identity: str, meter: Meter | None = None) -> Held | None:
        """The newest state of the branch with this identity, whatever its name says now; None where it has no line."""
        main = self.known(MAIN) or self.latest(MAIN, meter)
        if identity == main.state.identity:
            return self.latest(MAIN, meter)
        if not is_ulid(identity):
            return None
        try:
            return self.latest(BranchName("", identity), meter)
        except NotFound:
            return None

    def fork_point(self, ref: str | None, version: int, meter: Meter | None = None) -> Held:
        """A state that a branch was made from. It never changes, so it is read once."""
        with self._known_lock:
            found = self._fork_points.get((ref, version))
        if found is None:
            found = self.manifest.open_at(ref, version, meter)
            with self._known_lock:
                self._fork_points[(ref, version)] = found
                while len(self._fork_points) > FORK_POINTS_MAX:
                    self._fork_points.pop(next(iter(self._fork_points)))
        return found

    def _open_line(self, ref: str | None, meter: Meter | None) -> Held:
        held = self.manifest.open_latest(ref, meter)
        if ref not in (None, layout.branch_ref(held.state.identity)):
            raise Corruption(
                f"the line {layout.MANIFEST_LINES}{ref} says that it is of branch {held.state.identity}",
                hint="nothing is written to it; run `omnigraph verify`",
                object=f"{layout.MANIFEST_LINES}{ref}",
                expected=ref,
                actual=held.state.identity,
            )
        return held

    def pending(self, meter: Meter | None = None) -> list[tuple[str, str]]:
        """Release this process's leases, then list pending intents as (operation id, change stamp)."""
        self.leases.release_idle()
        return self.intents.names(meter)

    def catalog(self, schema: SchemaRow) -> Catalog:
        return _catalog(schema.source, schema.canonical)

    # --- side by side -----------------------------------------------------------------------------------------------

    def spawn(self, call: Any, *args: Any) -> Future[Any]:
        """Call it beside us, as part of the operation that we are in."""
        self.check_process()
        try:
            return self._pool.submit(contextvars.copy_context().run, call, *args)
        except RuntimeError as error:
            if not self._door.closed:
                raise
            raise _closed() from error

    @contextlib.contextmanager
    def writing(self, meter: Meter) -> Iterator[None]:
        """One write, which closing waits for."""
        with self._door.inside(), self.counted(meter):
            yield

    @contextlib.contextmanager
    def counted(self, meter: Meter) -> Iterator[None]:
        """Marks the meter inexact if another operation of this process overlapped: handles share their counters."""
        with self._known_lock:
            alone = all(other is meter for other in self._running)  # reads side by side are one operation's
            self._running.append(meter)
            if not alone:
                self._overlaps += 1
            seen = self._overlaps
        try:
            yield
        finally:
            with self._known_lock:
                self._running.remove(meter)
                if not alone or self._overlaps != seen:
                    meter.inexact()


@lru_cache(maxsize=64)
def _catalog(source: str, canonical: str) -> Catalog:
    with collector_paused():
        return catalog_from_canonical(source, canonical)


def gather(futures: Iterable[Future[T]]) -> list[T]:
    """Wait for all, then raise the first failure: nothing of ours still runs when a caller sees an error."""
    results: list[T] = []
    first: BaseException | None = None
    for future in list(futures):
        while True:
            try:
                results.append(future.result())
            except CancelledError as error:
                first = first or _closed()
                first.__cause__ = error
            except BaseException as error:  # noqa: BLE001 - raised below, once nothing of ours runs any more
                first = first or error
                if not future.done():  # we were interrupted, not it
                    continue
            break
    if first is not None:
        raise first
    return results


# --- closing ------------------------------------------------------------------------------------------------------------


class _Door:
    """Counts the writes in progress. Closing it admits no further one and waits for those of other threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: list[int] = []
        self.closed = False

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        me = threading.get_ident()
        with self._changed:
            if self.closed:
                raise _closed()
            self._inside.append(me)
        try:
            yield
        finally:
            with self._changed:
                self._inside.remove(me)
                self._changed.notify_all()

    def close(self) -> None:
        me = threading.get_ident()
        with self._changed:
            self.closed = True
            self._changed.wait_for(lambda: all(one == me for one in self._inside))


def _closed() -> InvalidInput:
    return InvalidInput("the graph is closed", hint="open it again with omnigraph.open(...)")


# --- who we are ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _boot_id() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def process_started(pid: int) -> int | None:
    """When a process of this host started, in its kernel's ticks; None where there is no such process, 0 if unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _alive_elsewhere(pid)
    except OSError:
        return 0
    return int(stat.rsplit(")", 1)[1].split()[19])


def _alive_elsewhere(pid: int) -> int | None:
    """Without /proc: only whether the pid is taken."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return 0
    return 0


def this_process() -> Owner:
    pid = os.getpid()
    return Owner(socket.gethostname(), _boot_id(), pid, process_started(pid) or 0)


def rebooted_since(owner: Owner) -> bool:
    """Whether this host has been started again since the owner's process was. Of another host nothing is said."""
    return owner.host == socket.gethostname() and bool(owner.boot_id) and owner.boot_id != _boot_id()


def known_dead(owner: Owner) -> bool:
    """True only where this host can tell that the owner's process is gone. False means "cannot say"."""
    if owner.host != socket.gethostname() or not owner.boot_id:
        return False
    if owner.boot_id != _boot_id():
        return True
    started = process_started(owner.pid)
    return started is None or (started != 0 and owner.started != 0 and started != owner.started)
