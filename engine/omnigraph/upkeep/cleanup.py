"""Cleanup: delete versions that are not needed any more, by number, after saying which and why.

In this order, each step durable before the next: recover what was left behind; a new cleanup mark on every branch, so that
writers whose staged files may be gone plan again; look; raise the boundary; look again and spare what became a root; delete
what both looks doomed. Every run leaves a record, written before the first deletion and completed after the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from omnigraph.commit.engine import Engine
from omnigraph.commit.lines import GraphLines, ManifestLine, owned_keys, while_there
from omnigraph.commit.plan import BranchName
from omnigraph.commit.queue.refusals import delete_refusal
from omnigraph.commit.recovery import audit
from omnigraph.commit.recovery.drift import TableDrift, find_drift, heal
from omnigraph.commit.recovery.evidence import owner_gone
from omnigraph.commit.recovery.recover import recover_one
from omnigraph.core import failpoints, progress
from omnigraph.core.errors import (
    Corruption,
    InvalidInput,
    NotFound,
    OmnigraphError,
    Refused,
    UnsupportedStorage,
)
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest.refs import given_up
from omnigraph.store import Entry, layout
from omnigraph.table.collect import Deleted, delete_versions, loose_files
from omnigraph.table.dataset import TableRef
from omnigraph.upkeep.cleanup_boundary import change_head, give_up_lines, raise_boundaries
from omnigraph.upkeep.cleanup_look import Look, is_ours_to_delete, look, look_at_lines, read_intents
from omnigraph.upkeep.cleanup_plan import LinePlan, doom, doomed_versions, make_policy, ranges_text, spare
from omnigraph.upkeep.cleanup_record import CleanupRecord, read_record, write_record
from omnigraph.upkeep.fold_checksums import fold_checksums
from omnigraph.wire.cleanup import CleanupPlan, CleanupReport, DeletedFiles, Orphan, Policy, TableCleanup, Unfinished

CHUNK = 1000  # versions deleted by one call: a few MB of memory, and the next call sees what is left
MAKING_S = 3600  # a branch is made in seconds
UNFINISHED_S = 7 * 24 * 3600  # as long as Lance keeps files that no version names


# --- planning -----------------------------------------------------------------------------------------------------------


def plan_cleanup(
    engine: Engine,
    *,
    keep: object = None,
    older_than: object = None,
    min_age: object = "1h",
    branches: Sequence[str] | None = None,
    meter: Meter | None = None,
) -> CleanupPlan:
    """Say what a cleanup would delete. Writes nothing. Raises ``Refused`` where it could not be sure. ``branches``: those to act
    upon; None for all that are there and are not deleted meanwhile."""
    policy = make_policy(keep, older_than, min_age)
    with progress.phase("looking", unit="tables"):
        plan, seen = _plan(engine, policy, branches, meter or Meter())
        left = engine.store.unfinished("", seen.now_us - UNFINISHED_S * 1_000_000)
        files = tuple(entry for entry in left if layout.is_ours(entry.key))
        return replace(plan, unfinished_files=files, named=branches is not None)


def _plan(
    engine: Engine,
    policy: Policy,
    branches: Sequence[str] | None,
    meter: Meter,
    ahead_us: int = 0,
    *,
    named: bool = True,
) -> tuple[CleanupPlan, Look]:
    """``ahead_us``: how far the store's clock is ahead of ours, where that was measured; ages are by the store's. ``named``: as in
    ``look``."""
    seen = look(engine, policy, branches, engine.clock.now_us() + ahead_us, meter, named=named)
    lines = tuple(doom(line, policy, seen.now_us) for line in seen.lines)
    owners = seen.owners()
    progress.advance(len(lines))
    doomed = any(line.doomed for line in lines)
    plan = CleanupPlan(
        uri=engine.uri,
        policy=policy,
        branches=tuple(view.branch for view in seen.branches),
        oldest={view.branch: view.oldest.commit_id for view in seen.branches},
        # Whatever is older than the oldest retained commit is given up, also where its own version is still too young to go.
        boundaries={view.branch: view.oldest.manifest_version - 1 for view in seen.branches} if doomed else {},
        tables=tuple(doomed_versions(line, owners.get((line.location, line.ref))) for line in lines),
        lines=lines,
        orphans=seen.orphans,
        checkpoints=tuple(one.name for one in seen.checkpoints),
        drifting=_drifting(seen),
        expired_staging=tuple(one.id for one in seen.staging if one.expired),
        retained=seen.retained,
    )
    return plan, seen


def _drifting(seen: Look) -> tuple[str, ...]:
    """Tables with versions above every pin that no intent explains. Of a line that one branch commits to and others have
    inherited, the highest pin counts."""
    pins: dict[tuple[str, str | None], int] = {}
    for view in (*seen.branches, *seen.others):
        for pin in view.held.state.tables.values():
            place = (pin.location, pin.ref)
            pins[place] = max(pin.version, pins.get(place, 0))
    return tuple(
        sorted(
            line.key
            for line in seen.lines
            if line.place in pins
            and line.exempt is None
            and line.versions
            and line.versions[-1].version > pins[line.place]
        )
    )


# --- running ------------------------------------------------------------------------------------------------------------


def run_cleanup(
    engine: Engine, plan: CleanupPlan, *, actor: str | None = None, meter: Meter | None = None
) -> CleanupReport:
    """Delete what the plan says and what is still doomed when it is looked at again, twice."""
    meter = meter or Meter()
    if plan.uri != engine.uri:
        raise InvalidInput(f"the plan was made for {plan.uri}, not for {engine.uri}", hint="plan it on this graph")
    lines = look_at_lines(engine, read_intents(engine, meter), meter)  # refuses before anything is written or ended
    there = plan.branches if plan.named else lines.left_of(plan.branches)
    scope = [lines.named(branch) for branch in there]
    failpoints.hit("cleanup.looked")
    errors = [*_expire_recoveries(engine, plan.policy), *_tend_names(engine, lines, actor, meter)]
    if plan.empty:
        return CleanupReport(engine.uri, None, plan.policy, {}, (), (), 0, tuple(errors), retained=plan.retained)
    run = new_ulid(engine.clock)
    record = CleanupRecord(engine, run, actor, plan.policy, meter)
    _recover_first(engine, scope, meter, named=plan.named)
    wanted = {line.place: line for line in plan.lines}
    given_up = _given_up(engine, errors, meter) if frozenset(plan.branches) >= frozenset(lines.names) else ()
    if plan.versions or plan.expired_staging or plan.orphans:
        for line in scope:

            def mark(branch: BranchName) -> None:
                change_head(engine, branch, lambda head: replace(head, mark=run), meter)

            while_there(engine, line.branch, mark, meter, named=plan.named)
        failpoints.hit("cleanup.marked")
    first, seen = _plan(engine, plan.policy, plan.branches, meter, record.ahead_us, named=plan.named)
    _refuse_drift(engine, first, scope, meter, named=plan.named)
    doomed = spare(wanted, first.lines)
    failpoints.hit("cleanup.judged")
    engine.durable.before_deleting()
    boundaries = raise_boundaries(engine, plan, seen, doomed, run, actor, meter)
    give_up_lines(engine, plan, seen, run, actor, meter)
    failpoints.hit("cleanup.bounded")
    second, _ = _plan(engine, plan.policy, plan.branches, meter, record.ahead_us, named=plan.named)
    doomed = spare(doomed, second.lines)
    orphans = _still(plan.orphans, first.orphans, second.orphans)
    expired = [one for one in seen.staging if one.expired and one.id in plan.expired_staging]
    files = [file for one in expired for file in one.files]
    record.planned(doomed, [orphan.prefix for orphan in orphans], boundaries, plan.oldest, files)
    failpoints.hit("cleanup.recorded")
    with progress.phase("deleting", unit="versions", total=sum(len(line.doomed) for line in doomed.values())):
        tables, failed = _delete(engine, doomed, seen.owners(), meter)
    errors += failed
    gone = _delete_orphans(engine, orphans, errors, seen.now_us - plan.policy.min_age_s * 1_000_000, meter)
    errors += fold_checksums(engine)
    left = engine.store.delete_unfinished(plan.unfinished_files)
    errors += [f"{failure.key}: {failure.error.message}" for failure in left]
    if plan.versions or plan.expired_staging:
        _give_up_batches(engine, given_up, [one.id for one in expired], errors, meter)
    report = CleanupReport(
        uri=engine.uri,
        run=run,
        policy=plan.policy,
        boundaries=boundaries,
        tables=tables,
        orphans=gone,
        spared=plan.versions - sum(len(line.doomed) for line in doomed.values()),
        errors=tuple(errors),
        unfinished=_unfinished(plan.unfinished_files, {failure.key for failure in left}),
        retained=second.retained,
    )
    record.done(report.versions, report.bytes, report.errors)
    return report


def _expire_recoveries(engine: Engine, policy: Policy) -> list[str]:
    """Delete old records of recoveries, which are no roots. A failure to delete them stops nothing."""
    kept_us = max(policy.older_than_s * 1_000_000, audit.RETENTION_US)
    try:
        audit.expire(engine, engine.clock.now_us() - kept_us)
    except OmnigraphError as error:
        return [f"{layout.AUDIT}: {error.message}"]
    return []


def _tend_names(engine: Engine, lines: GraphLines, actor: str | None, meter: Meter) -> list[str]:
    """Free names whose branch was deleted, and those that an interrupted creation holds; entries below the highest of a name
    mean nothing any more. A creator that was only slow finds that its name is gone, and gives up. ``lines`` was read before."""
    now_us = engine.clock.now_us()
    try:
        written_us = {entry.key: entry.modified_us for entry in engine.store.list(layout.BRANCHES, meter=meter)}
        stuck = {key for key, at_us in written_us.items() if now_us - at_us > MAKING_S * 1_000_000}
        for entry in given_up(engine.names.all(meter), lines.closed, stuck):
            freed = replace(entry, state="free", source=None, actor=actor, created_at_us=now_us)
            engine.names.write(entry, freed, meter)
        engine.names.trim(meter)
    except OmnigraphError as error:
        return [f"{layout.BRANCHES}: {error.message}"]
    return []


def _recover_first(engine: Engine, scope: Sequence[ManifestLine], meter: Meter, *, named: bool) -> None:
    """End what was left behind for longer than the grace, by the store's clock, and heal drift that no operation claims."""
    grace_us = engine.timing.grace_s * 1_000_000
    now_us = engine.clock.now_us()
    try:
        listed = engine.store.list(layout.INTENTS, meter=meter)
        there = {layout.record_ulid(entry.key) for entry in listed}
        for entry in listed:
            refused = layout.refused_ulid(entry.key)
            if refused is not None and refused not in there:
                delete_refusal(engine.store, refused, meter)
            op = layout.record_ulid(entry.key)
            intent = engine.intents.read(op, meter) if op is not None else None
            if intent is not None:
                ours = intent.owner == engine.owner and not owner_gone(engine, intent)
                gone = owner_gone(engine, intent) or (not ours and now_us - entry.modified_us > grace_us)
                recover_one(engine, intent, gone=gone, meter=meter)
        for line in scope:

            def healed(branch: BranchName) -> None:
                heal(engine, branch, owned_keys(engine.latest(branch, meter).state), meter=meter)

            while_there(engine, line.branch, healed, meter, named=named)
    except Corruption as error:
        raise Refused(
            f"an interrupted write cannot be ended, so nothing is deleted: {error.message}",
            hint="keep a copy of the intent, then run `omnigraph repair --confirm --force`, which moves it aside",
            reason="recovery",
        ) from error


def _refuse_drift(
    engine: Engine, plan: CleanupPlan, scope: Sequence[ManifestLine], meter: Meter, *, named: bool
) -> None:
    """Drift that even a look at what is going on now does not explain."""

    def drift_of(branch: BranchName) -> dict[str, TableDrift]:
        held = engine.latest(branch, meter)
        if held.state.head.closed is not None:
            raise engine.gone(branch.name, layout.branch_ref(branch.identity), meter)
        own = set(plan.drifting) & set(owned_keys(held.state))
        return find_drift(engine, branch, own, meter=meter)[1] if own else {}

    for line in scope if plan.drifting else ():
        drifting = while_there(engine, line.branch, drift_of, meter, named=named) or {}
        unexplained = [key for key, drift in drifting.items() if drift.state.value != "busy"]
        if unexplained:
            raise Refused(
                f"{unexplained[0]} has versions above the published one that no operation claims; nothing was deleted",
                hint="`omnigraph repair` shows what made them, `omnigraph repair --confirm` puts the table back",
                reason="drift",
                table_key=unexplained[0],
            )


def _still(*looks: Sequence[Orphan]) -> tuple[Orphan, ...]:
    """Orphans that were orphans every time."""
    common = set.intersection(*({(one.path, one.ref) for one in orphans} for orphans in looks))
    return tuple(one for one in looks[-1] if (one.path, one.ref) in common)


# --- deleting -----------------------------------------------------------------------------------------------------------


def _delete(
    engine: Engine,
    doomed: Mapping[tuple[str, str | None], LinePlan],
    owners: Mapping[tuple[str, str | None], str],
    meter: Meter,
) -> tuple[tuple[TableCleanup, ...], list[str]]:
    """The manifest's versions first: a state that still opens has all its tables. One line's failure stops no other."""
    done: list[TableCleanup] = []
    errors: list[str] = []
    lines = sorted(doomed.values(), key=lambda line: (line.location != layout.MANIFEST, line.key, line.ref or ""))
    for line in lines:
        if not line.doomed:
            continue
        total, error = Deleted(), None
        try:
            for start in range(0, len(line.doomed), CHUNK):
                failpoints.hit("cleanup.before_delete", table_key=line.key)
                chunk = line.doomed[start : start + CHUNK]
                deleted = delete_versions(engine.tables, TableRef(line.location, line.ref), chunk, meter)
                total = total.plus(deleted)
                progress.advance(len(chunk), bytes=deleted.bytes, subject=line.key)
        except OmnigraphError as failure:
            error = failure.message
            errors.append(f"{line.key}: {failure.message}")
        if total.failed:
            error = error or f"{total.failed} files could not be deleted"
        branch = owners.get((line.location, line.ref))
        ranges = ranges_text(line.doomed)
        done.append(TableCleanup(line.key, branch, line.location, line.ref, ranges, _deleted(total), error))
    return tuple(done), errors


def _unfinished(entries: Sequence[Entry], left: Set[str]) -> Unfinished:
    """What was deleted of the files of interrupted writes."""
    gone = [entry for entry in entries if entry.key not in left]
    return Unfinished(len(gone), sum(entry.size for entry in gone))


def _deleted(total: Deleted) -> DeletedFiles:
    return DeletedFiles(total.versions, total.files, total.bytes, total.failed)


def _delete_orphans(
    engine: Engine, orphans: Sequence[Orphan], errors: list[str], before_us: int, meter: Meter
) -> tuple[Orphan, ...]:
    gone = []
    for orphan in orphans:
        if not is_ours_to_delete(orphan.path, orphan.ref):
            continue
        failpoints.hit("cleanup.before_orphan", prefix=orphan.prefix)
        keys = [entry.key for entry in engine.store.list(orphan.prefix, meter=meter)]
        failures = engine.store.delete_many(keys, meter=meter)
        failures += engine.store.delete_unfinished(engine.store.unfinished(orphan.prefix, before_us))
        engine.store.prune(orphan.prefix)
        errors += [f"{failure.key}: {failure.error.message}" for failure in failures]
        if not failures:
            gone.append(orphan)
    return tuple(gone)


def _given_up(engine: Engine, errors: list[str], meter: Meter) -> tuple[dict[str, Any], ...]:
    """The records of runs that have ended before this one publishes its mark, and have given up batches. Where the mark is not for
    every branch they are left: a writer on another one would not plan again."""
    found = []
    for entry in engine.store.list(layout.CLEANUPS, meter=meter):
        try:
            body = read_record(engine, entry.key, meter)
        except (Corruption, UnsupportedStorage) as error:
            errors.append(error.message)  # whose files it names is not known, so they stay
            continue
        if body is not None and body["state"] == "done" and body.get("given_up_files"):
            found.append(body)
    return tuple(found)


def _give_up_batches(
    engine: Engine, given_up: Sequence[dict[str, Any]], expired: Sequence[str], errors: list[str], meter: Meter
) -> None:
    """Delete the records of batches that were never loaded, and the files of those whose records went in an earlier run.

    In two runs, because a writer that still holds such a record plans again after this run's mark, and finds it gone."""
    for body in given_up:
        free = _loose(engine, {line for line in map(layout.line_of_file, body["given_up_files"]) if line}, meter)
        failures = engine.store.delete_many([file for file in body["given_up_files"] if file in free], meter=meter)
        errors += [f"{failure.key}: {failure.error.message}" for failure in failures]
        if not failures:
            write_record(engine, {**body, "given_up_files": []}, meter)
    engine.store.delete_many([layout.staging_key(one) for one in expired], meter=meter)


def _loose(engine: Engine, lines: set[tuple[str, str | None]], meter: Meter) -> set[str]:
    """Files of these lines that no version names."""
    found: set[str] = set()
    for location, ref in lines:
        line = TableRef(location, ref)
        try:
            handle = engine.tables.open_latest(line, meter)
        except NotFound:
            continue
        for file in loose_files(handle, line.relative, meter):
            found.add(f"{line.relative}/{file.path.rpartition(line.relative + '/')[2]}")
    return found
