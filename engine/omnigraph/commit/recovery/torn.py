"""Moving version files aside that a power cut has torn. Nothing is deleted: each keeps its bytes below the quarantine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from omnigraph.commit.engine import Engine
from omnigraph.commit.plan import BranchName
from omnigraph.commit.recovery import audit
from omnigraph.core import documents, failpoints
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.store import layout
from omnigraph.table import checksums
from omnigraph.table.dataset import TableRef
from omnigraph.table.torn import TornVersion, torn_versions

FORMAT = 1


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
    """Move files to ``__recovery/quarantine/versions/{run}/`` and write the record of the run. Return the run.

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
