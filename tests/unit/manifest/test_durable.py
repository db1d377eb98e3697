"""The rules of durability: each cell as a table, and every short history of swaps, deaths and acknowledgements."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from omnigraph.manifest.durable import (
    Durability,
    DurabilityRules,
    FailedSync,
    Stage,
    Sync,
    ending_of_failed_sync,
)

COMMIT, RELAXED = Durability.COMMIT, Durability.RELAXED
MODES = (COMMIT, RELAXED)
STEPS = 5


# --- tables -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "base", "unapplied", "expected"),
    [
        (COMMIT, None, False, Sync.PLAN),
        (COMMIT, 3, False, Sync.EVERYTHING),
        (COMMIT, None, True, Sync.EVERYTHING),
        (COMMIT, 3, True, Sync.EVERYTHING),
        (RELAXED, None, False, Sync.NOTHING),
        (RELAXED, 3, False, Sync.NOTHING),
        (RELAXED, None, True, Sync.EVERYTHING),
        (RELAXED, 3, True, Sync.EVERYTHING),
    ],
)
def test_what_is_synced_before_a_swap(mode: Durability, base: int | None, unapplied: bool, expected: Sync) -> None:
    assert DurabilityRules(mode).before_swap(base, rolls_forward_unapplied=unapplied) is expected


@pytest.mark.parametrize(
    ("mode", "base", "expected"), [(COMMIT, None, None), (COMMIT, 3, None), (RELAXED, None, 7), (RELAXED, 3, 3)]
)
def test_a_relaxed_swap_says_since_when_the_line_may_be_lost(
    mode: Durability, base: int | None, expected: int | None
) -> None:
    assert DurabilityRules(mode).unsynced_since(base, 7) == expected


@pytest.mark.parametrize(
    ("record", "newest", "unsynced", "expected"),
    [
        (7, 7, None, Sync.VERSION),
        (6, 7, None, Sync.NOTHING),
        (7, 7, 7, Sync.EVERYTHING),
        (7, 7, 3, Sync.EVERYTHING),
        (2, 7, 7, Sync.EVERYTHING),
    ],
)
def test_who_acknowledges_syncs_what_may_be_lost(
    record: int, newest: int, unsynced: int | None, expected: Sync
) -> None:
    assert DurabilityRules(COMMIT).before_acknowledging(record, newest, unsynced) is expected
    assert DurabilityRules(RELAXED).before_acknowledging(record, newest, unsynced) is Sync.NOTHING
    for mode in MODES:  # a root rests on what is durable, in every mode
        assert DurabilityRules(mode).before_root(record, newest, unsynced) is expected
        assert DurabilityRules(mode).before_deleting() is Sync.EVERYTHING


def test_a_record_above_the_newest_version_is_refused() -> None:
    with pytest.raises(ValueError, match="above the newest"):
        DurabilityRules(COMMIT).before_acknowledging(8, 7, None)


@pytest.mark.parametrize(("own", "synced", "mode"), list(itertools.product((False, True), (False, True), MODES)))
def test_only_an_owner_who_has_synced_says_applied(own: bool, synced: bool, mode: Durability) -> None:
    allowed = DurabilityRules(mode).may_write_applied(own_plan=own, synced=synced)
    assert allowed == (own and synced and mode is COMMIT)
    assert DurabilityRules(mode, remote=True).may_write_applied(own_plan=own, synced=synced)


@pytest.mark.parametrize(("applied", "durable"), list(itertools.product((False, True), (False, True))))
def test_a_helper_takes_durable_plans_only(applied: bool, durable: bool) -> None:
    allowed = DurabilityRules(COMMIT).may_publish_for_others(applied=applied, durable=durable)
    assert allowed == (applied and durable)


def test_an_object_store_has_nothing_to_sync() -> None:
    for mode, unsynced in itertools.product(MODES, (None, 3)):
        rules = DurabilityRules(mode, remote=True)
        assert rules.before_swap(unsynced, rolls_forward_unapplied=True) is Sync.NOTHING
        assert rules.after_swap() is rules.before_deleting() is Sync.NOTHING
        assert rules.before_acknowledging(7, 7, unsynced) is rules.before_root(7, 7, unsynced) is Sync.NOTHING
        assert rules.unsynced_since(unsynced, 7) is None


def test_a_failed_sync_ends_a_write_by_how_far_it_has_come() -> None:
    assert {stage: ending_of_failed_sync(stage) for stage in Stage} == {
        Stage.BEFORE_ARMING: FailedSync.FAIL,
        Stage.ARMED: FailedSync.ABORT,
        Stage.SWAPPED: FailedSync.OUTCOME_UNKNOWN,
        Stage.ABORTING: FailedSync.OUTCOME_UNKNOWN,
    }


# --- histories ----------------------------------------------------------------------------------------------------------


@dataclass
class Disk:
    """One manifest line: for each version its ``unsynced_since``, and which versions and plans are on disk."""

    versions: list[int | None] = field(default_factory=lambda: [None])
    synced: set[int] = field(default_factory=lambda: {0})
    plans_synced: set[int] = field(default_factory=lambda: {0})

    @property
    def newest(self) -> int:
        return len(self.versions) - 1

    def everything(self) -> None:
        self.synced = set(range(len(self.versions)))
        self.plans_synced |= self.synced

    def survives(self, version: int) -> bool:
        """Whether a power cut leaves this version, every one before it, and what they name."""
        wanted = set(range(version + 1))
        return wanted <= self.synced and wanted <= self.plans_synced


RulesOf = Callable[[Durability], DurabilityRules]


def swap(disk: Disk, rules: DurabilityRules) -> int:
    own = disk.newest + 1
    before = rules.before_swap(disk.versions[-1])
    if before is Sync.EVERYTHING:
        disk.everything()
        disk.plans_synced.add(own)
    elif before is Sync.PLAN:
        disk.synced.add(disk.newest)
        disk.plans_synced.add(own)
    disk.versions.append(rules.unsynced_since(disk.versions[-1], own))
    return own


def carry_out(disk: Disk, what: Sync, version: int) -> None:
    if what is Sync.EVERYTHING:
        disk.everything()
    elif what is Sync.VERSION:
        disk.synced.add(version)


def broken_promises(rules_of: RulesOf) -> Iterator[str]:
    """Every history of a few swaps, each acknowledged at once, never, or after later swaps, by either mode."""
    steps = [(mode, acknowledges) for mode in MODES for acknowledges in ("at-once", "dies")]
    for history in itertools.product(steps, repeat=STEPS):
        disk = Disk()
        for mode, acknowledges in history:
            rules = rules_of(mode)
            own = swap(disk, rules)
            if acknowledges == "at-once":
                carry_out(disk, rules.after_swap(), own)
                if mode is COMMIT and not disk.survives(own):
                    yield f"{history}: version {own} was acknowledged by its writer and is lost"
        for record in range(1, disk.newest + 1):
            later = Disk(list(disk.versions), set(disk.synced), set(disk.plans_synced))
            what = rules_of(COMMIT).before_acknowledging(record, later.newest, later.versions[-1])
            carry_out(later, what, record)
            if not later.survives(record):
                yield f"{history}: version {record} was acknowledged by another process and is lost"
            root = Disk(list(disk.versions), set(disk.synced), set(disk.plans_synced))
            carry_out(root, rules_of(RELAXED).before_root(record, root.newest, root.versions[-1]), record)
            if not root.survives(record):
                yield f"{history}: a root rests on version {record}, which is lost"


def test_what_was_acknowledged_survives_in_every_short_history() -> None:
    assert list(itertools.islice(broken_promises(DurabilityRules), 3)) == []


class ForgetsBase(DurabilityRules):
    """Before the swap it syncs nothing, and trusts that the base was synced by the one who made it."""

    def before_swap(self, base_unsynced_since: int | None, *, rolls_forward_unapplied: bool = False) -> Sync:
        return Sync.NOTHING


class IgnoresRelaxed(DurabilityRules):
    """It treats a line with relaxed swaps as one without."""

    def before_swap(self, base_unsynced_since: int | None, *, rolls_forward_unapplied: bool = False) -> Sync:
        return super().before_swap(None)


class SaysNothing(DurabilityRules):
    """Relaxed swaps do not say that they were."""

    def unsynced_since(self, base_unsynced_since: int | None, own_version: int) -> int | None:
        return None


class ForgetsOwnVersion(DurabilityRules):
    """It acknowledges without syncing what its swap made."""

    def after_swap(self) -> Sync:
        return Sync.NOTHING


class AcknowledgesAnything(DurabilityRules):
    """It takes every record that it finds for durable."""

    def before_acknowledging(self, record: int, newest: int, newest_unsynced_since: int | None) -> Sync:
        return Sync.NOTHING


class SyncsOnlyTheRecord(DurabilityRules):
    """Above relaxed versions it syncs the version of the record alone."""

    def before_acknowledging(self, record: int, newest: int, newest_unsynced_since: int | None) -> Sync:
        return Sync.VERSION


class RootsOnAnything(DurabilityRules):
    def before_root(self, version: int, newest: int, newest_unsynced_since: int | None) -> Sync:
        return self.before_acknowledging(version, newest, newest_unsynced_since)


@pytest.mark.parametrize(
    "defect",
    [
        ForgetsBase,
        IgnoresRelaxed,
        SaysNothing,
        ForgetsOwnVersion,
        AcknowledgesAnything,
        SyncsOnlyTheRecord,
        RootsOnAnything,
    ],
)
def test_every_rule_is_needed(defect: type[DurabilityRules]) -> None:
    assert next(broken_promises(defect), None) is not None
