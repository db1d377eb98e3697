"""When a graph on a local disk syncs what it has written: the rules of ``manifest.durable``, carried out.

``advance`` calls it around every swap, and a caller that acknowledges a record of another process calls it before the
answer. On an object store every write is durable when it is answered, and nothing is done here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from omnigraph.core.errors import InvalidInput
from omnigraph.manifest.durable import Durability, DurabilityRules, Sync
from omnigraph.manifest.state import Change, State
from omnigraph.manifest.swap import Held, Merged
from omnigraph.store import Store
from omnigraph.store.durability import SyncFailed, sync_everything, sync_paths
from omnigraph.table.files import version_files

ENVIRONMENT: Final = "OMNIGRAPH_DURABILITY"


def durability_of(given: str | None, environment: Mapping[str, str] = os.environ) -> Durability:
    """What an acknowledgement promises: the argument, else the environment, else that it survives a power cut."""
    text = given if given is not None else environment.get(ENVIRONMENT) or Durability.COMMIT.value
    try:
        return Durability(text)
    except ValueError:
        raise InvalidInput(
            f"durability is 'commit' or 'relaxed', not {str(text)[:40]!r}",
            hint="'commit' survives a power cut; 'relaxed' survives the end of the process and is faster",
        ) from None


class Durable:
    """The syncs of one open graph. After one has failed, nothing more is written through this handle."""

    def __init__(self, store: Store, mode: Durability) -> None:
        self._store = store
        self._rules = DurabilityRules(mode, remote=store.is_remote)
        self._full = DurabilityRules(Durability.COMMIT, remote=store.is_remote)
        self._lock = threading.Lock()
        self._synced: dict[str | None, int] = {}  # by line: the newest version that is known to be on disk
        self.failed: SyncFailed | None = None

    @property
    def mode(self) -> Durability:
        return self._rules.mode

    @property
    def may_say_applied(self) -> bool:
        """Whether an intent of this handle may say that its plan is applied, once a swap of that plan was sent: the swap's
        sync has covered the plan's files."""
        return self._rules.may_write_applied(own_plan=True, synced=True)

    # --- around a swap --------------------------------------------------------------------------------------------------

    def stamp(self, state: State, change: Change | Merged) -> Change | Merged:
        """The change with what its head row has to say about versions that may not be on disk."""
        if isinstance(change, Merged):
            return change  # its swap is always synced
        head = change.head or state.head
        unsynced = self._rules.unsynced_since(state.head.unsynced_since, state.version + 1)
        return (
            change if head.unsynced_since == unsynced else replace(change, head=replace(head, unsynced_since=unsynced))
        )

    def before_swap(self, base: Held, change: Change | Merged) -> None:
        """Make durable what the new version rests on: the plan's files and the base version with its files."""
        rules = self._full if isinstance(change, Merged) else self._rules
        if rules.before_swap(base.state.head.unsynced_since) is not Sync.NOTHING:
            self.everything()

    def after_swap(self, after: Held, change: Change | Merged) -> None:
        """Make the version durable that the swap has made."""
        rules = self._full if isinstance(change, Merged) else self._rules
        if rules.after_swap() is Sync.VERSION:
            self._version(after)

    def stamped(self, state: State) -> State:
        """The first state of a graph, marked as possibly lost where nothing is synced."""
        return replace(state, head=replace(state.head, unsynced_since=self._rules.unsynced_since(None, state.version)))

    def before_genesis(self) -> None:
        """Make durable what the first version of a graph rests on: its data file and the tables that it names."""
        if self._rules.before_swap(None) is not Sync.NOTHING:
            self.everything()

    # --- acknowledging --------------------------------------------------------------------------------------------------

    def acknowledge(self, record: int, newest: Held) -> None:
        """Before an answer that rests on a record in version ``record``, whichever process has swapped it."""
        self._carry_out(
            self._rules.before_acknowledging(min(record, newest.version), newest.version, _since(newest)), newest
        )

    def root(self, version: int, newest: Held) -> None:
        """Before a branch, checkpoint, merge or undo rests on ``version``, in every mode."""
        self._carry_out(self._rules.before_root(min(version, newest.version), newest.version, _since(newest)), newest)

    def new_line(self) -> None:
        """Before a name is bound to a line that was just made, in every mode: the line says that nothing of it is unsynced."""
        if not self._store.is_remote:
            self.everything()

    def before_deleting(self) -> None:
        """Before a cleanup raises a boundary, in every mode."""
        if self._rules.before_deleting() is not Sync.NOTHING:
            self.everything()

    def before_rolling_forward(self, *, applied: bool) -> None:
        """Before the plan of another process is published, in every mode: only ``applied`` says that its files are synced."""
        if not applied and not self._store.is_remote:
            self.everything()

    # --- the calls ------------------------------------------------------------------------------------------------------

    def everything(self) -> None:
        try:
            sync_everything(self._store.uri)
        except SyncFailed as error:
            self.failed = error
            raise

    def _carry_out(self, sync: Sync, newest: Held) -> None:
        if sync is Sync.EVERYTHING:
            self.everything()
        elif sync is not Sync.NOTHING:
            self._version(newest)

    def _version(self, held: Held) -> None:
        """Sync version file, transaction and folders of a version of the line, once."""
        with self._lock:
            if self._synced.get(held.state.ref, 0) >= held.version:
                return
        folder = held.handle.uri
        try:
            sync_paths([os.path.join(folder, path) for path in version_files(held.handle)], self._store.uri)
        except SyncFailed as error:
            self.failed = error
            raise
        with self._lock:
            self._synced[held.state.ref] = max(held.version, self._synced.get(held.state.ref, 0))


def _since(held: Held) -> int | None:
    return held.state.head.unsynced_since
