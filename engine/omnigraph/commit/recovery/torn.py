"""Moving version files aside that a power cut has torn. Nothing is deleted: each keeps its bytes below the quarantine.

One process or thread at a time looks at a line and moves its files. A second one that had looked before would take the whole version which a
writer has made at the same number since.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence

from omnigraph.commit.engine import Engine
from omnigraph.commit.plan import BranchName
from omnigraph.commit.recovery import audit
from omnigraph.core import documents, failpoints
from omnigraph.core.errors import Conflict
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.store import layout
from omnigraph.table import checksums
from omnigraph.table.dataset import TableRef
from omnigraph.table.torn import TornVersion, torn_versions
from omnigraph.table.version_list import version_path

FORMAT = 1
WAIT_S = 10.0  # moving a few small files takes milliseconds; a process that was stopped in between is not waited for
_POLL_S = 0.02


@contextlib.contextmanager
def moving(engine: Engine, ref: TableRef) -> Iterator[None]:
    """Hold the right to move version files of this line aside: look at them, and move them, within. On a local disk only."""
    folder = os.path.join(engine.store.uri, os.path.dirname(version_path(ref, 1)))
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:  # nothing is there that could be moved
        yield
        return
    try:
        _lock(engine, descriptor, ref)
        yield
    finally:
        os.close(descriptor)  # which unlocks it, as does the end of the process


def _lock(engine: Engine, descriptor: int, ref: TableRef) -> None:
    import fcntl  # POSIX alone has it, and a lock is needed where something is torn only

    started = engine.clock.monotonic()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if engine.clock.monotonic() - started >= WAIT_S:
                raise Conflict(
                    f"another process is moving torn version files of {ref.relative} aside, and has not ended",
                    hint="call again; if that process was stopped, continue or end it first",
                ) from error
        except OSError:
            return  # a file system without locks
        engine.clock.sleep(_POLL_S)


def move_aside(
    engine: Engine,
    torn: Sequence[TornVersion],
    *,
    actor: str | None,
    line: str | None = None,
    newest_left: int | None = None,
    given_up: Iterable[str] = (),
    meter: Meter,
) -> str:
    """Move files, which were looked at while holding ``moving``, to ``__recovery/quarantine/versions/{run}/`` and write the record of the run. Return the run.

    The record and the copies are durable before the first name goes, so that a run which is interrupted loses no byte."""
    run = new_ulid(engine.clock)
    engine.durable.before_deleting()
    for one in torn:
        data = engine.store.get(one.path, meter=meter)
        if data is not None:
            engine.store.create(layout.quarantined_version_key(run, one.path), data, meter=meter)
    body = {
        "format": FORMAT,
        "run": run,
        "actor": actor,
        "at_us": engine.clock.now_us(),
        "moved": [{"path": one.path, "bytes": one.bytes, "why": one.why} for one in torn],
        "line": line,
        "newest_left": newest_left,
        "given_up": list(given_up),
    }
    engine.store.create(layout.quarantined_versions_key(run), documents.canonical(body), meter=meter)
    checksums.forget(engine.store, frozenset(one.path for one in torn))
    failpoints.hit("torn.before_delete", run=run)
    for one in torn:
        engine.store.delete(one.path, meter=meter)
    return run


def clear_table(engine: Engine, ref: TableRef, above: int, branch: BranchName, key: str, meter: Meter) -> int:
    """Move the torn versions of a table above its pin aside: no state names them. Return how many there were."""
    if not torn_versions(engine.store, ref, above=above):
        return 0
    with moving(engine, ref):
        torn = torn_versions(engine.store, ref, above=above)
        if not torn:
            return 0
        run = move_aside(engine, torn, actor=audit.RECOVERY_ACTOR, line=branch.name, newest_left=above, meter=meter)
    engine.tables.forget(ref)
    audit.write(
        engine,
        audit.Recovery(
            op=run,
            plan=None,
            how=audit.TORN_VERSION_MOVED_ASIDE,
            commit_ids=(),
            members=0,
            branch={"name": branch.name, "identity": branch.identity},
            original_actor=None,
            recovered_by=engine.owner.token,
            recovered_at_us=engine.clock.now_us(),
            tables={key: {"from": torn[-1].version, "to": above}},
        ),
        meter,
    )
    return len(torn)
