"""Table commits of one plan: send them, and say of each exactly where it stands.

The landing rule lives here: an effect counts only at its planned version, also when everything in between has been published
since. Two staged inserts of one key would otherwise both stand. Effects on one table land one after the other, tables side
by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import wait
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from omnigraph.commit.builder import Planned
from omnigraph.commit.effects import Chain, Effect, Target
from omnigraph.commit.engine import Engine, gather
from omnigraph.commit.plan import PublishPlan
from omnigraph.commit.properties import of_effect
from omnigraph.commit.steps import CreateTable, Staged, StagedFiles, Step, stage
from omnigraph.core import failpoints
from omnigraph.core.errors import NotFound, OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.table import lines
from omnigraph.table.dataset import CommitUnknown, NotLanded, TableRef


class Landing(Enum):
    EXACT = "exact"
    OFF = "off"  # it landed, but not at its planned version
    REFUSED = "refused"  # Lance says that it did not land
    UNKNOWN = "unknown"
    NOT_SENT = "not-sent"


@dataclass(frozen=True)
class Applied:
    """What became of the effects on one table: where the chain stopped, and the handle it reached."""

    key: str
    landing: Landing
    version: int | None = None
    handle: Any = None
    error: BaseException | None = None
    staged: tuple[Staged, ...] = ()

    @property
    def may_stand(self) -> bool:
        """Whether something of ours stands, or may come to stand, above the pin."""
        return self.landing in (Landing.EXACT, Landing.OFF, Landing.UNKNOWN) or bool(self.staged[1:])


@dataclass(frozen=True)
class Sending:
    """What every commit of one plan needs."""

    engine: Engine
    planned: Planned
    files: StagedFiles
    meter: Meter

    @cached_property
    def plan(self) -> PublishPlan:
        return self.planned.plan


def first_is_staged(chain: Chain) -> bool:
    """Whether the first effect on a table is files and a transaction, which may be made before the plan is armed."""
    return chain.lands and not chain.begins_line and not chain.is_upkeep


def apply(
    sending: Sending, handles: Mapping[str, Any], staged: Mapping[str, Staged], *, serial: bool
) -> dict[str, Applied]:
    """Commit the effects of each table. ``handles``, ``staged``: of the tables whose first effect was staged ahead.

    Side by side, or one after the other in key order where this writer competes without a queue entry: two writers that cross
    (first on A, second on B) could save neither. The serial form stops at the first table that is not exact.
    """
    tables = sending.plan.landing
    if not tables:
        return {}

    def call(chain: Chain) -> Applied:
        return _apply_chain(sending, chain, handles.get(chain.key), staged.get(chain.key))

    if not serial:
        calls = [sending.engine.spawn(call, chain) for chain in tables[1:]]
        try:
            first = call(tables[0])
        finally:
            wait(calls)  # whatever ends this write, none of its commits is still on its way when the caller hears of it
        return {one.key: one for one in (first, *gather(calls))}
    results: dict[str, Applied] = {}
    for chain in tables:
        if any(one.landing is not Landing.EXACT for one in results.values()):
            results[chain.key] = Applied(chain.key, Landing.NOT_SENT)
            continue
        results[chain.key] = call(chain)
    return results


def _apply_chain(sending: Sending, chain: Chain, handle: Any, ahead: Staged | None) -> Applied:
    """The effects on one table in their order. Stops at the first that is not exact."""
    done: list[Staged] = []
    result = Applied(chain.key, Landing.NOT_SENT)
    steps = sending.planned.steps_of(chain.key)
    for index, (effect, step) in enumerate(zip(chain.effects, steps, strict=True)):
        prepared = ahead if index == 0 else None
        try:
            made = prepared or _prepare(sending, effect, step, handle)
        except OmnigraphError as error:
            # Nothing of this effect was sent; what came before it stands.
            landing = Landing.OFF if done else Landing.REFUSED
            return Applied(chain.key, landing, result.version, handle, error, tuple(done))
        done.append(made)
        result = _send(sending, chain, effect, step, made, handle)
        result = Applied(chain.key, result.landing, result.version, result.handle, result.error, tuple(done))
        if result.landing is not Landing.EXACT:
            return result
        handle = result.handle
    return result


def _prepare(sending: Sending, effect: Effect, step: Step, handle: Any) -> Staged:
    if effect.rule.begins_line:
        return Staged(None)
    engine, plan = sending.engine, sending.plan
    failpoints.hit("apply.before_stage", table_key=effect.key)
    return stage(step, handle, tables=engine.tables, files=sending.files, mark=plan.base.mark, meter=sending.meter)


def _send(sending: Sending, chain: Chain, effect: Effect, step: Step, made: Staged, handle: Any) -> Applied:
    engine, meter = sending.engine, sending.meter
    target = effect.target
    if target is None or target.version is None or target.uuid is None:
        raise AssertionError("only effects with a planned place are sent")
    ref = TableRef(target.path, target.ref)
    failpoints.hit("apply.before_commit", table_key=effect.key)
    try:
        landed = _commit(sending, ref, effect, step, made, handle, target)
    except NotLanded as error:
        return Applied(effect.key, Landing.REFUSED, error=error)
    except CommitUnknown as error:
        return find_landing(engine, chain, effect, handle, error, meter)
    failpoints.hit("apply.after_commit", table_key=effect.key)
    landing = Landing.EXACT if landed.version == target.version else Landing.OFF
    return Applied(effect.key, landing, landed.version, landed)


def _commit(
    sending: Sending, ref: TableRef, effect: Effect, step: Step, made: Staged, handle: Any, target: Target
) -> Any:
    tables, meter = sending.engine.tables, sending.meter
    uuid = target.uuid or ""
    properties = of_effect(sending.plan.op, sending.plan.id, step.counts)
    if isinstance(step, CreateTable):
        return lines.create(tables, ref, step.schema, uuid=uuid, properties=properties, meter=meter)
    if effect.kind == "fork":
        base = effect.base
        if base is None:
            raise AssertionError("a fork has a base")
        return lines.fork(
            tables, TableRef(base.path, base.ref), base.pin, ref, uuid=uuid, properties=properties, meter=meter
        )
    tables.check_line(ref, handle)
    made.transaction.uuid = uuid
    made.transaction.transaction_properties = properties
    return tables.commit(ref, handle, made.transaction, meter)


def find_landing(
    engine: Engine, chain: Chain, effect: Effect, handle: Any, error: BaseException | None, meter: Meter
) -> Applied:
    """Resolve an unknown answer by reading: is our transaction at its place, above it, or nowhere so far?"""
    target = effect.target
    if target is None or target.version is None:
        raise AssertionError("only effects with a planned place are looked for")
    ref = TableRef(target.path, target.ref)
    try:
        if effect.rule.begins_line:
            return _find_line(engine, effect, ref, target, error, meter)
        head = engine.tables.head_version(handle, meter)
        for version in range(target.version, head + 1):
            note = engine.tables.transaction_at(ref, handle, version, meter)
            if note is not None and note.uuid == target.uuid:
                landed = engine.tables.open(ref, version, meter)
                exact = version == target.version
                return Applied(effect.key, Landing.EXACT if exact else Landing.OFF, version, landed, error)
    except OmnigraphError as second:
        second.__context__ = error
        return Applied(effect.key, Landing.UNKNOWN, error=second)
    return Applied(effect.key, Landing.UNKNOWN, error=error)


def _find_line(
    engine: Engine, effect: Effect, ref: TableRef, target: Target, error: BaseException | None, meter: Meter
) -> Applied:
    """A new line stands at its own path, or does not."""
    version = target.version or 1
    try:
        handle = engine.tables.open(ref, version, meter)
    except NotFound:
        return Applied(effect.key, Landing.UNKNOWN, error=error)
    note = engine.tables.transaction_at(ref, handle, version, meter)
    if note is not None and note.uuid == target.uuid:
        return Applied(effect.key, Landing.EXACT, version, handle, error)
    engine.tables.release(ref, version)
    return Applied(effect.key, Landing.REFUSED, error=error)
