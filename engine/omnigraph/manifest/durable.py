"""When what has to be on disk: the rules of durability of a manifest line on a local disk, as pure functions.

Owns no file and makes no call. *C* is the swap that makes a new version of a manifest line visible, whatever it is for;
*B* is the arming of an intent. A version is synced when its version file, its transaction file, the folders on the way
and every file that it names are. A head row says ``unsynced_since`` = the oldest version of its line that may not be.

The rules rest on one induction: a swap in mode ``commit`` syncs its base and its own files before C. So where
``unsynced_since`` is null in a version, at most that version itself is not synced.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum


class Durability(StrEnum):
    """What an acknowledgement promises on a local disk."""

    COMMIT = "commit"
    """The commit survives a power cut."""
    RELAXED = "relaxed"
    """The commit survives the end of the process."""


class Sync(Enum):
    """What the caller syncs before it goes on."""

    NOTHING = "nothing"
    PLAN = "plan"
    """The files of the plan's effects, the data files of the swap, and the version file and transaction of its base."""
    VERSION = "version"
    """The version file and transaction of one version of the manifest line."""
    EVERYTHING = "everything"
    """All that has been written below the root."""


class Stage(Enum):
    """How far a write had come when a sync failed."""

    BEFORE_ARMING = "before-arming"
    ARMED = "armed"
    SWAPPED = "swapped"
    ABORTING = "aborting"


class FailedSync(Enum):
    """How a write ends whose sync failed. The sync is not repeated."""

    FAIL = "fail"
    """Nothing durable exists: raise the error."""
    ABORT = "abort"
    """End the plan by an abort."""
    OUTCOME_UNKNOWN = "outcome-unknown"
    """Keep the intent, drop the handle, raise ``OutcomeUnknown`` with the commit id."""


def ending_of_failed_sync(stage: Stage) -> FailedSync:
    """How to end a write after a failed sync at ``stage``."""
    if stage is Stage.BEFORE_ARMING:
        return FailedSync.FAIL
    return FailedSync.ABORT if stage is Stage.ARMED else FailedSync.OUTCOME_UNKNOWN


@dataclass(frozen=True, slots=True)
class DurabilityRules:
    """The rules for one open graph. ``remote``: it lies on an object store, where a write is durable when answered."""

    mode: Durability
    remote: bool = False

    # --- the swap -----------------------------------------------------------------------------------------------------

    def before_swap(self, base_unsynced_since: int | None, *, rolls_forward_unapplied: bool = False) -> Sync:
        """What is synced before C. ``rolls_forward_unapplied``: the plan is another writer's, and its intent does not say
        ``applied``, so that nothing shows that its table versions were synced."""
        if self.remote:
            return Sync.NOTHING
        if rolls_forward_unapplied:
            return Sync.EVERYTHING
        if self.mode is Durability.RELAXED:
            return Sync.NOTHING
        return Sync.PLAN if base_unsynced_since is None else Sync.EVERYTHING

    def after_swap(self) -> Sync:
        """What is synced after C and before the acknowledgement, of the version that the swap made."""
        return Sync.NOTHING if self.remote or self.mode is Durability.RELAXED else Sync.VERSION

    def unsynced_since(self, base_unsynced_since: int | None, own_version: int) -> int | None:
        """What the head row of the new version says."""
        if self.remote or self.mode is Durability.COMMIT:
            return None
        return own_version if base_unsynced_since is None else base_unsynced_since

    # --- acknowledging -------------------------------------------------------------------------------------------------

    def before_acknowledging(self, record: int, newest: int, newest_unsynced_since: int | None) -> Sync:
        """What is synced before a record in version ``record`` is acknowledged, whichever process swapped it; ``newest`` is the
        newest version known. Holds for a helped owner, a replay by key, an outcome *landed*, a write that changed nothing
        and the report of an abort."""
        if self.remote or self.mode is Durability.RELAXED:
            return Sync.NOTHING
        return _until_durable(record, newest, newest_unsynced_since)

    def before_root(self, version: int, newest: int, newest_unsynced_since: int | None) -> Sync:
        """What is synced before a branch, checkpoint, merge or undo rests on ``version``, in every mode."""
        return Sync.NOTHING if self.remote else _until_durable(version, newest, newest_unsynced_since)

    def before_deleting(self) -> Sync:
        """What is synced before cleanup, repair or a hard drop raises the boundary, in every mode: otherwise a deleted
        predecessor outlives a successor that is not on disk."""
        return Sync.NOTHING if self.remote else Sync.EVERYTHING

    # --- helping -------------------------------------------------------------------------------------------------------

    def may_write_applied(self, *, own_plan: bool, synced: bool) -> bool:
        """Whether an intent may say ``applied``, which promises that its table versions are durable."""
        if self.remote:
            return True
        return own_plan and synced and self.mode is Durability.COMMIT

    def may_publish_for_others(self, *, applied: bool, durable: bool) -> bool:
        """Whether a helper may put another writer's plan into its swap without syncing everything."""
        return applied and durable


def _until_durable(record: int, newest: int, newest_unsynced_since: int | None) -> Sync:
    if record > newest:
        raise ValueError(f"a record in version {record} above the newest version {newest}")
    if newest_unsynced_since is not None:
        return Sync.EVERYTHING
    return Sync.VERSION if record == newest else Sync.NOTHING
