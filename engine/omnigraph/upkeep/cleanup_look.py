"""What a cleanup sees: every version line, what keeps versions of it, and what is garbage.

Owns the order of looking: artefacts, then checkpoints, then intents, then names, then manifests. What was there before it was found
unclaimed cannot be claimed by an operation that began in between. A write or a branch may rely on a checkpoint that is deleted right
after, so checkpoints are read before both. Every line of the manifest is a root, also one that the cleanup does not act upon: of
such a line every commit that still opens is kept. Only a line that no branch is at any more, and none ever will be, keeps nothing
but what others need of it. Reads only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from omnigraph.commit.engine import Engine, gather
from omnigraph.commit.intent import Intent
from omnigraph.commit.lines import GraphLines, ManifestLine, is_given_up, read_lines, unresolved
from omnigraph.core.errors import Corruption, NotFound, OmnigraphError, Refused, UnsupportedStorage
from omnigraph.core.meter import Meter
from omnigraph.distributed.staging_record import RECORD_LIFE_S, Records
from omnigraph.manifest.checkpoints import list_checkpoints
from omnigraph.manifest.damage import facts_of
from omnigraph.manifest.rows import CommitRow, Pin
from omnigraph.manifest.state import State
from omnigraph.manifest.swap import Held
from omnigraph.read.at import is_lost
from omnigraph.store import layout
from omnigraph.table.dataset import TableRef
from omnigraph.table.version_list import VersionFile, version_files
from omnigraph.upkeep.checkpoints import state_of
from omnigraph.upkeep.cleanup_plan import Line, SeenCommit, oldest_retained
from omnigraph.upkeep.cleanup_roots import (
    BranchView,
    Staging,
    dead_lines,
    dropped_by,
    kept_ranges,
    manifest_lines,
    named_by,
    table_lines,
)
from omnigraph.upkeep.garbage import Line as Place
from omnigraph.upkeep.garbage import lines_claimed, lines_named, list_artefacts, unclaimed
from omnigraph.upkeep.merge_roots import fork_points
from omnigraph.upkeep.retained import retained_bytes
from omnigraph.wire.cleanup import Checkpoint, Orphan, Policy, RetainedProperty

# Between this machine's clock and the store's. Ages are differences of the two, and nothing is deleted by a wrong one.
CLOCK_SKEW_S_MAX = 300


@dataclass(frozen=True)
class Look:
    """Everything a plan is made from. ``branches``: those that are acted upon; ``others``: the lines that are only roots."""

    now_us: int
    branches: tuple[BranchView, ...]
    others: tuple[BranchView, ...]
    lines: tuple[Line, ...]
    orphans: tuple[Orphan, ...]
    intents: tuple[Intent, ...] = field(repr=False)
    checkpoints: tuple[Checkpoint, ...] = ()
    staging: tuple[Staging, ...] = ()
    retained: tuple[RetainedProperty, ...] = ()
    dead: tuple[ManifestLine, ...] = ()

    def owners(self) -> dict[Place, str]:
        """Which branch commits to each line, that of the manifest included."""
        found: dict[Place, str] = {}
        for view in (*self.branches, *self.others):
            state = view.held.state
            found[(layout.MANIFEST, state.ref)] = view.branch
            for held in (view.then, state):
                pins = (pin for pin in held.tables.values() if pin.owner == state.identity)
                found |= {(pin.location, pin.ref): view.branch for pin in pins}
        return found


def look(
    engine: Engine,
    policy: Policy,
    branches: Sequence[str] | None,
    now_us: int,
    meter: Meter,
    *,
    named: bool = True,
) -> Look:
    """One complete look. ``branches``: those to act upon; None for all. ``named``: that one of them is not there is ``NotFound``;
    else it is passed over. Raises ``Refused`` where anything could not be seen or does not add up."""
    artefacts = list_artefacts(engine, meter)
    seen = _versions(engine, artefacts.datasets, artefacts.forks, meter)
    checkpoints, pinned = _checkpoints(engine, meter)
    intents = read_intents(engine, meter)
    staging = _staging(engine, now_us, meter)
    lines = look_at_lines(engine, intents, meter, artefacts.lines)
    seen |= _manifest_versions(engine, lines, meter)
    _check_clock(seen, now_us)
    scope = lines.scope(branches if branches is None or named else lines.left_of(branches))
    named = named and branches is not None
    of_scope = [lines.named(branch) for branch in scope]
    acted = _views(engine, of_scope, partial(_branch, engine, policy, seen, now_us, meter), meter, named=named)
    whole = frozenset(scope) >= frozenset(lines.names)  # of a part of the branches nothing else is acted upon
    dead = _dead(lines, seen, policy, now_us) if whole else ()
    rest = [line for line in lines.lines if line.name not in frozenset(scope) and line not in dead]
    others = _views(engine, rest, partial(_whole, engine, policy, seen, now_us, meter), meter, named=False)
    views = [*acted, *others]
    pinned |= fork_points(engine, lines, dead, meter)
    states = [state for view in views for state in (view.held.state, view.then, *view.between)]
    _check_present(engine, seen, views, meter)
    needed = tuple(dead_lines(seen, [line.held.state for line in dead], intents, pinned))
    emptied = frozenset(line.ref for line in needed if not line.kept)
    gone: list[Place] = [(layout.MANIFEST, ref) for ref in sorted(ref for ref in emptied if ref is not None)]
    gone += [(layout.MANIFEST, layout.branch_ref(one)) for one in lines.remains if whole]
    gone += unclaimed(
        artefacts,
        lines_named([*states, *pinned.values()]),
        frozenset(kept_ranges(views, intents, pinned, staging)),
        lines_claimed(intents),
    )
    return Look(
        now_us,
        tuple(acted),
        tuple(others),
        (
            *manifest_lines(seen, views, intents, pinned),
            *(line for line in needed if line.kept),
            *table_lines(seen, views, intents, pinned, staging),
        ),
        _orphans(engine, gone, policy, now_us, meter),
        tuple(intents),
        tuple(checkpoints),
        tuple(staging),
        retained_bytes(acted, pinned, engine.catalog),
        dead,
    )


def look_at_lines(
    engine: Engine, intents: Sequence[Intent], meter: Meter, folders: Sequence[str] | None = None
) -> GraphLines:
    """Every line of the manifest. Raises ``Refused`` where one cannot be read or is not known, and where an intent is of a branch
    that is not there: what they need is not known either."""
    lines = read_lines(engine, meter, folders)
    for trouble in (*lines.troubles, *unresolved(engine, intents, lines, meter).values()):
        raise Refused(
            f"{trouble.message}; nothing was deleted",
            hint="run `omnigraph verify`, and find out what made it; it is left as it is",
            reason=trouble.code,
            object=trouble.object,
        )
    return lines


# --- listing ------------------------------------------------------------------------------------------------------------


def _versions(
    engine: Engine,
    datasets: frozenset[str],
    forks: frozenset[tuple[str, str]],
    meter: Meter,
) -> dict[Place, tuple[VersionFile, ...]]:
    """The versions of every line of a table."""
    places: list[Place] = [*((path, None) for path in sorted(datasets)), *sorted(forks)]
    listed = gather([engine.spawn(version_files, engine.store, TableRef(path, ref), meter) for path, ref in places])
    return dict(zip(places, listed, strict=True))


def _manifest_versions(engine: Engine, lines: GraphLines, meter: Meter) -> dict[Place, tuple[VersionFile, ...]]:
    """The versions of every line of the manifest. After the tables', so that none is seen older than a manifest names it."""
    refs = [engine.manifest.ref(line.held.state.ref) for line in lines.lines]
    listed = gather([engine.spawn(version_files, engine.store, ref, meter) for ref in refs])
    return {(ref.location, ref.ref): files for ref, files in zip(refs, listed, strict=True)}


def _check_clock(seen: Mapping[Place, tuple[VersionFile, ...]], now_us: int) -> None:
    """A file from the future means that one of the two clocks is wrong, and then no age is known."""
    newest = max((file.modified_us for files in seen.values() for file in files), default=0)
    if newest - now_us > CLOCK_SKEW_S_MAX * 1_000_000:
        raise clock_refusal(newest, now_us)


def clock_refusal(store_us: int, now_us: int) -> Refused:
    ahead = (store_us - now_us) // 1_000_000
    way = "ahead of" if ahead > 0 else "behind"
    return Refused(
        f"the clock of the store is {abs(ahead)} s {way} the clock of this machine; ages cannot be told",
        hint="set this machine's clock, then run it again",
        reason="clock",
        skew_s=ahead,
    )


def read_intents(engine: Engine, meter: Meter) -> list[Intent]:
    """Every intent. Raises ``Refused`` where one cannot be read."""
    found = []
    for op, _stamp in engine.pending(meter):
        try:
            intent = engine.intents.read(op, meter)
        except Corruption as error:
            raise Refused(
                f"an intent cannot be read, so what it needs is not known: {error.message}",
                hint="keep a copy of it, then run `omnigraph repair --confirm --force`, which moves it aside",
                reason="unreadable-intent",
                object=layout.intent_key(op),
            ) from error
        if intent is not None:
            found.append(intent)
    return found


def _staging(engine: Engine, now_us: int, meter: Meter) -> list[Staging]:
    """Every staging record. One that does not read keeps everything, as long as it may be in use."""
    found = []
    records = Records(engine.store)
    for entry in engine.store.list(layout.STAGING, meter=meter):
        ulid = layout.record_ulid(entry.key)
        if ulid is None:
            continue
        expired = now_us - entry.modified_us > RECORD_LIFE_S * 1_000_000
        try:
            record = records.read(ulid, meter)
        except NotFound:
            continue
        except (Corruption, UnsupportedStorage) as error:
            if expired:
                found.append(Staging(ulid, (), (), expired))
                continue
            raise Refused(
                f"a staging record cannot be read, so what it needs is not known: {error.message}",
                hint="delete the file to give the batch up",
                reason="unreadable-staging-record",
                object=entry.key,
            ) from error
        files = [file for file in sorted(record.files()) if layout.line_of_file(file) is not None]
        tables = tuple((table.path, table.ref, table.pin) for table in record.tables)
        found.append(Staging(ulid, tables, tuple(files), expired))
    return found


def _checkpoints(engine: Engine, meter: Meter) -> tuple[list[Checkpoint], dict[str, State]]:
    """Every checkpoint with the state that it pins."""
    try:
        listed = list(list_checkpoints(engine.store, meter))
        return listed, {f"checkpoint {one.name}": state_of(engine, one, meter) for one in listed}
    except OmnigraphError as error:
        raise Refused(
            f"a checkpoint cannot be read, so what it pins is not known: {error.message}",
            hint="`omnigraph verify` names what is wrong with it",
            reason="unreadable-checkpoint",
            **facts_of(error),
        ) from error


# --- branches -----------------------------------------------------------------------------------------------------------


def _dead(
    lines: GraphLines, seen: Mapping[Place, tuple[VersionFile, ...]], policy: Policy, now_us: int
) -> tuple[ManifestLine, ...]:
    """Lines of deleted branches, and of creations that were given up. Of one that is younger than the minimum age a snapshot may
    still be read."""
    found = []
    for line in lines.lines:
        files = seen[(layout.MANIFEST, line.held.state.ref)] if line.is_dead else ()
        newest = max((file.modified_us for file in files), default=now_us)
        if now_us - newest >= policy.min_age_s * 1_000_000 and line.is_dead:
            found.append(line)
    return tuple(found)


def _views(
    engine: Engine,
    lines: Sequence[ManifestLine],
    view: Callable[[ManifestLine], BranchView],
    meter: Meter,
    *,
    named: bool,
) -> list[BranchView]:
    """What there is of these lines. One that another cleanup has given up since it was read keeps nothing; that it was only closed
    says less, because of such a line snapshots may still be read."""
    found = []
    for line in lines:
        try:
            found.append(view(line))
        except Refused:
            if named or not is_given_up(engine, line.identity, meter):
                raise
    return found


def _whole(
    engine: Engine,
    policy: Policy,
    seen: Mapping[Place, tuple[VersionFile, ...]],
    now_us: int,
    meter: Meter,
    line: ManifestLine,
) -> BranchView:
    """A line that is not acted upon: every commit of it that is still there is a root."""
    everything = replace(policy, keep=sys.maxsize)
    why = "its branch was not named" if line.name is not None else "no name claims it"
    return replace(_branch(engine, everything, seen, now_us, meter, line), kept_whole=why)


def _branch(
    engine: Engine,
    policy: Policy,
    seen: Mapping[Place, tuple[VersionFile, ...]],
    now_us: int,
    meter: Meter,
    line: ManifestLine,
) -> BranchView:
    branch = line.label
    try:
        held = line.held
        ref = engine.manifest.ref(held.state.ref)
        doomed = engine.boundary.value(held.state.identity, repeated=held.state.head.boundary, meter=meter)
        modified = {file.version: file.modified_us for file in seen[(ref.location, ref.ref)]}
        # A version that came after the listing is as young as can be.
        newest = max(modified, default=0)
        rows: list[CommitRow] = []

        def commits() -> Iterator[SeenCommit]:
            last = None
            for row in engine.history.rows(held, meter):
                if isinstance(row, CommitRow) and row.manifest_version > doomed:
                    at = row.manifest_version
                    if at <= newest and at not in modified and is_lost(engine, row, meter):
                        continue
                    rows.append(row)
                    if at != last:  # the newest member of a swap stands for it: what is counted are swaps
                        yield SeenCommit(row.commit_id, at, now_us if at > newest else modified.get(at))
                    last = at

        oldest = oldest_retained(commits(), policy, now_us)  # reads no further back than it has to
        if oldest is None:
            # Below the boundary lies the head itself only if nothing but marks was written since; it is kept as it is.
            oldest = SeenCommit(held.state.head.commit_id, held.version, now_us)
        then = engine.manifest.open_at(held.state.ref, oldest.manifest_version, meter).state
    except OmnigraphError as error:
        raise Refused(
            f"branch {branch!r} cannot be read, so what it needs is not known: {error.message}",
            hint="run `omnigraph verify --deep`, which names what cannot be read, and restore that from a backup",
            reason="unreadable-branch",
            branch=branch,
            **facts_of(error),
        ) from error
    if then.head.commit_id != oldest.commit_id:
        raise Refused(
            f"version {oldest.manifest_version} of __manifest belongs to {then.head.commit_id}, not to {oldest.commit_id}",
            hint="run `omnigraph verify --deep`, which names the commits whose version is another one's",
            reason="unreadable-branch",
            branch=branch,
        )
    retained = [row for row in rows if row.manifest_version > oldest.manifest_version]
    between = _between(engine, held, then, retained, meter)
    return BranchView(branch, held, oldest, then, named_by(retained), between, dropped_by(retained))


def _between(engine: Engine, held: Held, then: State, rows: Sequence[CommitRow], meter: Meter) -> tuple[State, ...]:
    """States that name a line of a table which neither end of the retained commits names: it was made and left in between."""
    known = {(pin.identity, pin.ref) for state in (then, held.state) for pin in state.tables.values()}
    found = []
    for row in rows:
        new = {(change.identity, change.ref) for change in row.tables.values()} - known
        if new:
            found.append(engine.manifest.open_at(held.state.ref, row.manifest_version, meter).state)
            known |= new
    return tuple(found)


def _check_present(
    engine: Engine, seen: Mapping[Place, tuple[VersionFile, ...]], views: Sequence[BranchView], meter: Meter
) -> None:
    """Every pin is there. The tables were listed before the manifests were read, so what a write has made in between is looked for
    again; what is in the listing stays all that is judged."""
    for view in views:
        for pin in view.then.tables.values():
            files = seen.get((pin.location, pin.ref), ())
            if not _reaches(files, pin) and not _reaches(
                version_files(engine.store, TableRef(pin.location, pin.ref), meter), pin
            ):
                raise Refused(
                    f"version {pin.version} of {pin.key}, which commit {view.oldest.commit_id} names, is not there",
                    hint="run `omnigraph verify --deep`: it names what is gone; restore that from a backup, or keep fewer commits",
                    reason="missing-version",
                    table_key=pin.key,
                )


def _reaches(files: Sequence[VersionFile], pin: Pin) -> bool:
    return any(file.version >= pin.version for file in files)


# --- garbage ------------------------------------------------------------------------------------------------------------


def is_ours_to_delete(path: str, ref: str | None) -> bool:
    """Whether this is the place of a table, of a fork of one, or of a branch's line. What is foreign is not ours to delete."""
    if path == layout.MANIFEST:
        return ref is not None and layout.line_identity(ref) is not None
    return layout.is_table_path(path)


def _orphans(engine: Engine, places: Sequence[Place], policy: Policy, now_us: int, meter: Meter) -> tuple[Orphan, ...]:
    """Those that have not been touched for the minimum age."""
    found = []
    for path, ref in places:
        if not is_ours_to_delete(path, ref):
            continue
        orphan = Orphan(path, ref, 0, 0)
        files = engine.store.list(orphan.prefix, meter=meter)
        newest = max((file.modified_us for file in files), default=0)
        if now_us - newest >= policy.min_age_s * 1_000_000:
            found.append(Orphan(path, ref, len(files), sum(file.size for file in files)))
    return tuple(found)
