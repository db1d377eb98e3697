"""Is the graph what its manifest says? Finds damage, what an interrupted write has left, and garbage. Changes nothing.

Quick: every pin opens and holds the rows it says, its files on a local disk are whole, ids stand once, endpoints exist,
nothing stands above a pin without an intent, no dataset or fork without an owner. Deep: every value reads, every retained commit opens with every table in it,
unique tuples and cardinalities hold, indexes cover fragments that exist, and no file lies about that no version names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import pyarrow as pa

from omnigraph.commit.engine import Engine, gather
from omnigraph.commit.intent import Intent
from omnigraph.commit.lines import UNKNOWN_INTENT, GraphLines, owned_keys, read_lines, unresolved
from omnigraph.commit.queue.refusals import checked_refusal
from omnigraph.commit.txn import pinned_table
from omnigraph.core import progress
from omnigraph.core.clock import SYSTEM_CLOCK, Clock
from omnigraph.core.errors import Corruption, NotFound, OmnigraphError, UnsupportedStorage
from omnigraph.core.interrupts import is_interrupt
from omnigraph.core.meter import Meter
from omnigraph.core.pace import Pace
from omnigraph.core.shown import count_text
from omnigraph.distributed.staging_record import Records
from omnigraph.manifest import lineage
from omnigraph.manifest.boundary import ALL
from omnigraph.manifest.checkpoints import list_checkpoints
from omnigraph.manifest.consistency import between, line_of
from omnigraph.manifest.rows import CommitRow, Pin
from omnigraph.manifest.state import State
from omnigraph.manifest.swap import Held
from omnigraph.store import layout
from omnigraph.table import collect
from omnigraph.table.dataset import TableRef
from omnigraph.table.new_file_checks import damaged
from omnigraph.table.stats import stats_of
from omnigraph.table.version_list import version_files
from omnigraph.upkeep.checkpoints import state_of
from omnigraph.upkeep.garbage import Artefacts, lines_claimed, lines_named, list_artefacts, unclaimed
from omnigraph.upkeep.verify_files import FileCheck
from omnigraph.upkeep.verify_rows import check_rows
from omnigraph.wire.verify import DAMAGE as DAMAGE
from omnigraph.wire.verify import GARBAGE as GARBAGE
from omnigraph.wire.verify import PENDING as PENDING
from omnigraph.wire.verify import Problem, VerifyReport


def verify(
    engine: Engine, *, deep: bool = False, branches: Sequence[str] | None = None, meter: Meter | None = None
) -> VerifyReport:
    """Look at everything that the newest manifest of each branch names. ``branches``: those whose tables are read; None for all.
    What belongs to no branch is judged against every line of the graph in any case."""
    meter = meter or Meter()
    artefacts = list_artefacts(engine, meter)
    intents, problems = _intents(engine, meter)
    notes: list[str] = []
    lines = read_lines(engine, meter, artefacts.lines)
    troubles = [*lines.troubles, *unresolved(engine, intents, lines, meter).values()]
    problems += [
        Problem(PENDING if trouble.code == UNKNOWN_INTENT else DAMAGE, trouble.code, trouble.message)
        for trouble in troubles
    ]
    problems += _checkpoint_problems(engine, meter)
    if deep:
        problems += _staging_problems(engine, meter)
    held_by_branch = {branch: lines.named(branch).held for branch in lines.scope(branches)}
    files = FileCheck(engine)
    for branch, held in held_by_branch.items():
        found = [problem for pin in held.state.tables.values() for problem in files.table(pin)] if deep else []
        # What Lance makes of a damaged file may take all memory, or never end: it is not read for its values.
        rotten = {problem.table_key for problem in found if problem.severity == DAMAGE}
        problems += found
        problems += _manifest_problems(engine, branch, held, meter)
        problems += _table_problems(engine, held, intents, meter)
        if not any(problem.severity == DAMAGE and problem.table_key for problem in problems):
            problems += _row_problems(engine, held, meter, deep=deep)
        if deep:
            problems += files.line(held)
            problems += _history_problems(engine, held, meter)
            with progress.phase("reading", total=sum(pin.rows for pin in held.state.tables.values())):
                problems += _deep_problems(engine, held, rotten, meter)
    disagreeing = between(line.held.state for line in lines.lines)
    problems += [Problem(DAMAGE, "lines-disagree", found.message, found.table_key) for found in disagreeing]
    problems += _garbage(engine, artefacts, lines, intents, notes, meter)
    first = next(iter(held_by_branch.values()))
    pins = [pin for held in held_by_branch.values() for pin in held.state.tables.values()]
    return VerifyReport(
        uri=engine.uri,
        branches=tuple(held_by_branch),
        commit_id=first.state.head.commit_id,
        manifest_version=first.version,
        deep=deep,
        tables=len(pins),
        rows=sum(pin.rows for pin in pins),
        problems=tuple(problems),
        notes=tuple(notes),
        files=files.files,
        bytes=files.pace.bytes,
    )


def verify_files(
    engine: Engine,
    *,
    bytes_per_s: int,
    branches: Sequence[str] | None = None,
    meter: Meter | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> VerifyReport:
    """Compare files with their checksums and read the documents that have one, at a rate, and nothing else of a deep look:
    what takes hours beside writers says only what no writer can make untrue."""
    meter = meter or Meter()
    _, problems = _intents(engine, meter)
    lines = read_lines(engine, meter)
    problems += [Problem(DAMAGE, trouble.code, trouble.message) for trouble in lines.troubles]
    problems += _checkpoint_problems(engine, meter)
    problems += _staging_problems(engine, meter)
    held_by_branch = {branch: lines.named(branch).held for branch in lines.scope(branches)}
    every = [pin for held in held_by_branch.values() for pin in held.state.tables.values()]
    pins = {(pin.location, pin.ref): pin for pin in every}  # branches share most tables
    files = FileCheck(engine, Pace(bytes_per_s, clock))
    with progress.phase("checksums", unit="files"):
        for pin in pins.values():
            problems += files.table(pin)
        for held in held_by_branch.values():
            problems += files.line(held)
    first = next(iter(held_by_branch.values()))
    return VerifyReport(
        uri=engine.uri,
        branches=tuple(held_by_branch),
        commit_id=first.state.head.commit_id,
        manifest_version=first.version,
        deep=True,
        tables=len(pins),
        rows=0,
        problems=tuple(problem for problem in problems if problem.severity != PENDING),
        notes=("rows and versions were not judged: bytes_per_s compares files with their checksums",),
        files=files.files,
        bytes=files.pace.bytes,
    )


# --- intents and the manifest -------------------------------------------------------------------------------------------


def _intents(engine: Engine, meter: Meter) -> tuple[list[Intent], list[Problem]]:
    found, problems = [], []
    for op, _stamp in engine.pending(meter):
        try:
            intent = engine.intents.read(op, meter)
        except Corruption as error:
            problems.append(Problem(DAMAGE, "unreadable-intent", error.message))
            continue
        if intent is not None:
            found.append(intent)
            if intent.why_unknown is not None:
                continue  # said with the lines
            what = "is waiting for its turn" if intent.plan is None else "has not ended"
            tables = ", ".join(sorted(intent.keys))
            problems.append(Problem(PENDING, "intent", f"the {intent.kind} {op} of {tables} {what}"))
    for op in sorted(engine.intents.refused):
        try:
            checked_refusal(engine.store, op, meter)
        except Corruption as error:
            problems.append(Problem(DAMAGE, "unreadable-refusal", error.message))
    return found, problems


def _manifest_problems(engine: Engine, branch: str, held: Held, meter: Meter) -> Iterator[Problem]:
    state = held.state
    try:
        doomed = engine.boundary.value(state.identity, repeated=state.head.boundary, meter=meter)
        if doomed != ALL and doomed >= held.version:
            yield Problem(
                DAMAGE,
                "boundary",
                f"branch {branch} is at manifest version {held.version}; cleanup has doomed {doomed}",
            )
    except Corruption as error:
        yield Problem(DAMAGE, "boundary", error.message)
    head = engine.history.find(held, state.head.commit_id, meter=meter)
    # A branch begins with the commit that it was made from, which stands in another line.
    made_here = state.ref is None or any(isinstance(row, CommitRow) for row in state.tail)
    if made_here and not isinstance(head, CommitRow):
        yield Problem(DAMAGE, "history", f"the head {state.head.commit_id} of {branch} is not in its history")
    catalog = engine.catalog(state.schema)
    wanted = {declared.table_key for declared in catalog.types()}
    for key in sorted(wanted ^ state.tables.keys()):
        missing = "has no table" if key in wanted else "is not in the schema"
        yield Problem(DAMAGE, "registration", f"{key} {missing}", key)


def _checkpoint_problems(engine: Engine, meter: Meter) -> Iterator[Problem]:
    try:
        for checkpoint in list_checkpoints(engine.store, meter):
            state_of(engine, checkpoint, meter)
    except OmnigraphError as error:
        yield Problem(DAMAGE, "unreadable-checkpoint", error.message)


def _staging_problems(engine: Engine, meter: Meter) -> Iterator[Problem]:
    """A record that does not read: nothing can be loaded under it, and a cleanup spares what it may name."""
    records = Records(engine.store)
    for entry in engine.store.list(layout.STAGING, meter=meter):
        staging_id = layout.record_ulid(entry.key)
        if staging_id is None:
            continue
        try:
            records.read(staging_id, meter)
        except (NotFound, UnsupportedStorage):
            continue  # it was loaded meanwhile, or a later release has written it
        except Corruption as error:
            yield Problem(DAMAGE, "unreadable-staging-record", error.message)


def _history_problems(engine: Engine, held: Held, meter: Meter) -> Iterator[Problem]:
    """One line of commits, numbered without gaps, each the child of the one before."""
    rows = list(engine.history.rows(held, meter))[::-1]
    if rows and rows[0].seq != 1:
        yield Problem(DAMAGE, "history", f"the {len(rows)} rows of the history begin with number {rows[0].seq}")
    for wrong in lineage.contradictions(rows, line_of(held.state)):
        yield Problem(DAMAGE, "history", wrong)


# --- tables -------------------------------------------------------------------------------------------------------------


def _table_problems(engine: Engine, held: Held, intents: Iterable[Intent], meter: Meter) -> list[Problem]:
    busy = {key for intent in intents for key in intent.keys}
    own = set(
        owned_keys(held.state)
    )  # what lies above an inherited pin is the business of the branch that commits there
    calls = [
        engine.spawn(_one_table, engine, pin, pin.key in busy or pin.key not in own, meter)
        for pin in held.state.tables.values()
    ]
    return [problem for found in gather(calls) for problem in found]


def _one_table(engine: Engine, pin: Pin, busy: bool, meter: Meter) -> list[Problem]:
    ref = TableRef(pin.location, pin.ref)
    problems = []
    try:
        engine.tables.release(ref, pin.version)  # a handle that is still open would hide that the version is gone
        handle = engine.tables.open(ref, pin.version, meter)
        stats = stats_of(handle)
        head = engine.tables.head_version(handle, meter)
    except OmnigraphError as error:
        what = f"{pin.key} at version {pin.version} does not open: {error.message}"
        return [Problem(DAMAGE, "pin-does-not-open", what, pin.key)]
    for name in ("rows", "fragments", "bytes", "deleted_rows"):
        said, true = getattr(pin, name), getattr(stats, name)
        if said != true:
            what = f"the manifest says {said} {name.replace('_', ' ')} of {pin.key}, version {pin.version} has {true}"
            problems.append(Problem(DAMAGE, "row-count" if name == "rows" else "figures", what, pin.key))
    problems += [
        Problem(DAMAGE, "file", f"a file of {pin.key} is not whole: {problem}", pin.key)
        for problem in damaged(handle).values()
    ]
    if head < pin.version:
        what = f"{pin.key} is published at version {pin.version}, its newest version is {head}"
        problems.append(Problem(DAMAGE, "head-below-pin", what, pin.key))
    if head > pin.version and not busy:
        what = f"{pin.key} has {count_text(head - pin.version, 'version')} above the published {pin.version}"
        problems.append(Problem(PENDING, "drift", what, pin.key))
    return problems


def _row_problems(engine: Engine, held: Held, meter: Meter, *, deep: bool) -> Iterator[Problem]:
    pins = held.state.tables

    def scan(key: str, columns: Sequence[str]) -> pa.RecordBatchReader:
        table = pinned_table(engine, pins[key], meter)
        schema = pa.schema([table.schema.field(name) for name in columns])
        return pa.RecordBatchReader.from_batches(schema, table.scan(columns))

    catalog = engine.catalog(held.state.schema)
    try:
        for code, key, message in check_rows(catalog, scan, deep=deep):
            yield Problem(DAMAGE, code, message, key)
    except OmnigraphError as error:
        yield Problem(DAMAGE, "unreadable", error.message)
    except Exception as error:
        # DuckDB wraps what a reader raised in an error of its own.
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        if type(error).__module__.partition(".")[0] not in ("duckdb", "_duckdb", "pyarrow"):
            raise
        yield Problem(DAMAGE, "unreadable", f"rows do not read: {' '.join(str(error).split())[:300]}")


# --- deep ---------------------------------------------------------------------------------------------------------------


def _deep_problems(engine: Engine, held: Held, rotten: Collection[str | None], meter: Meter) -> Iterator[Problem]:
    versions = {
        pin.key: version_files(engine.store, TableRef(pin.location, pin.ref), meter)
        for pin in held.state.tables.values()
    }
    for pin in held.state.tables.values():
        if pin.key in rotten:
            continue
        yield from _every_value(engine, pin, meter)
        for file in _loose(engine, TableRef(pin.location, pin.ref), meter):
            what = f"{file.path.rsplit('.lance/', 1)[-1]} of {pin.key} ({file.bytes} bytes) is named by no version"
            yield Problem(GARBAGE, "unreferenced-file", what, pin.key)
    for file in _loose(engine, engine.manifest.ref(held.state.ref), meter):
        what = f"{file.path.rsplit('/__manifest/', 1)[-1]} of __manifest ({file.bytes} bytes) is named by no version"
        yield Problem(GARBAGE, "unreferenced-file", what)
    yield from _retained(
        engine, held, {key: {file.version for file in files} for key, files in versions.items()}, meter
    )


def _loose(engine: Engine, ref: TableRef, meter: Meter) -> tuple[collect.LooseFile, ...]:
    return collect.loose_files(engine.tables.open_latest(ref, meter), ref.relative, meter)


def _every_value(engine: Engine, pin: Pin, meter: Meter) -> Iterator[Problem]:
    """Read all columns; count what comes."""
    rows = 0
    try:
        table = pinned_table(engine, pin, meter)
        for batch in table.scan():
            rows += batch.num_rows
            progress.advance(batch.num_rows, bytes=batch.nbytes, subject=pin.key)
        covered = {fragment for fragments in table.layout.covered.values() for fragment in fragments}
    except OmnigraphError as error:
        yield Problem(DAMAGE, "unreadable", f"{pin.key} does not read: {error.message}", pin.key)
        return
    if rows != pin.rows:
        yield Problem(DAMAGE, "row-count", f"the manifest says {pin.rows} rows of {pin.key}; {rows} read", pin.key)
    strangers = covered - set(table.layout.fragments)
    if pin.rows and strangers:
        what = f"an index of {pin.key} covers fragments that are not there: {sorted(strangers)[:5]}"
        yield Problem(GARBAGE, "index-coverage", what, pin.key)


def _retained(engine: Engine, held: Held, versions: dict[str, set[int]], meter: Meter) -> Iterator[Problem]:
    """Every commit above the boundary opens as itself, and every version that it pins exists."""
    doomed = engine.boundary.value(held.state.identity, meter=meter)
    then: State | None = None
    for row in engine.history.rows(held, meter):
        if not isinstance(row, CommitRow) or row.manifest_version <= doomed:
            continue
        try:
            if then is None or then.version != row.manifest_version:  # the commits of one swap follow each other
                then = engine.manifest.open_at(row.ref, row.manifest_version, meter).state
        except OmnigraphError as error:
            yield Problem(DAMAGE, "commit-does-not-open", f"commit {row.commit_id}: {error.message}")
            continue
        if row.commit_id not in then.commits_of_version():
            yield Problem(
                DAMAGE,
                "commit-does-not-open",
                f"manifest version {row.manifest_version} says commit {then.head.commit_id}, not {row.commit_id}",
            )
        for key, pin in then.tables.items():
            now = held.state.tables.get(key)
            if now is None or (now.location, now.ref) != (pin.location, pin.ref):
                there = engine.tables.exists(TableRef(pin.location, pin.ref), pin.version, meter)
            else:
                there = pin.version in versions[key]
            if not there:
                what = f"version {pin.version} of {key}, which commit {row.commit_id} names, is gone"
                yield Problem(DAMAGE, "commit-does-not-open", what, key)


# --- garbage ------------------------------------------------------------------------------------------------------------


def _garbage(
    engine: Engine,
    artefacts: Artefacts,
    lines: GraphLines,
    intents: Sequence[Intent],
    notes: list[str],
    meter: Meter,
) -> Iterator[Problem]:
    newest = [line.held.state for line in lines.lines]
    if any(state.tombstones for state in newest):
        # A dropped table may still belong to a commit that is kept; only a cleanup plan knows which are.
        notes.append("datasets of dropped tables were not judged")
        return
    if lines.troubles or unresolved(engine, intents, lines, meter):
        notes.append("garbage was not looked for: not every line of the manifest can be read")
        return
    try:
        pinned = [state_of(engine, checkpoint, meter) for checkpoint in list_checkpoints(engine.store, meter)]
    except OmnigraphError:
        notes.append("garbage was not looked for: not every checkpoint can be read")
        return
    named = lines_named([*newest, *lines.sources, *pinned])
    for path, ref in unclaimed(artefacts, named, lines_claimed(intents)):
        if not layout.is_table_path(path):
            notes.append(f"{path} is no table of a graph: nothing reads it, and no cleanup deletes it")
        elif ref is None:
            yield Problem(GARBAGE, "orphan-dataset", f"no state names the dataset {path}, and no operation claims it")
        else:
            yield Problem(
                GARBAGE, "orphan-fork", f"no state names the fork {ref} of {path}, and no operation claims it"
            )
