"""The one builder of plans: gives each step its place on a table's line, for writes and for upkeep alike. Pure.

Nothing is sent and nothing is read: what a plan rests on is in the state that it is built on, and ids come in through
``mint``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.commit.effects import RULES, BasePin, Effect, Target
from omnigraph.commit.pins import forked_bases
from omnigraph.commit.plan import (
    Base,
    BranchName,
    Delta,
    Owner,
    PublishPlan,
    ReadPin,
    RequestInfo,
    Source,
    plan_id,
)
from omnigraph.commit.properties import Counts
from omnigraph.commit.steps import AdoptPin, CreateTable, ForkTable, Step
from omnigraph.core.errors import Conflict, NotFound, ReadSetChanged
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.state import State


@dataclass(frozen=True)
class Work:
    """What a write comes to on one state: steps on tables, tables it was checked against, and what else the swap changes."""

    steps: tuple[Step, ...]
    reads: frozenset[str] = frozenset()
    delta: Delta = field(default_factory=Delta)
    sources: tuple[Source, ...] = ()
    merge: Mapping[str, Any] | None = None
    reverts: tuple[str, ...] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit: no table moves, the schema and the registrations stay, and no history comes along."""
        return not self.steps and self.delta.is_empty and self.merge is None


@dataclass(frozen=True)
class Minting:
    """Where new ids come from."""

    ulid: Callable[[], str]
    uuid: Callable[[], str]


@dataclass(frozen=True)
class Planned:
    """A plan, and the step behind each of its effects: the part that is staged and not stored."""

    plan: PublishPlan
    steps: tuple[Step, ...]

    def steps_of(self, key: str) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.key == key)

    @property
    def counts(self) -> dict[str, tuple[Counts, ...] | None]:
        """By table: what each request does to it. None where nothing is compared."""
        found: dict[str, tuple[Counts, ...] | None] = {}
        for step in self.steps:
            if step.kind in ("adopt", "restore"):
                found[step.key] = None
            elif step.kind != "fork" and step.key not in found:
                found[step.key] = step.counts
            elif step.kind != "fork" and (before := found[step.key]) is not None:
                found[step.key] = tuple(one.plus(two) for one, two in zip(before, step.counts, strict=True))
        return found


def build_plan(
    state: State,
    work: Work,
    *,
    op: str,
    graph: str,
    branch: str,
    kind: str,
    requests: tuple[RequestInfo, ...],
    owner: Owner,
    mint: Minting,
) -> Planned:
    """The plan of this work on this state."""
    steps = tuple(_with_forks(state, work.steps))
    effects = tuple(_place(state, steps, op, mint))
    written = {effect.key for effect in effects}
    plan = PublishPlan(
        graph=graph,
        op=op,
        id=plan_id(requests, mint.ulid() if len(requests) != 1 else ""),
        kind=kind,
        branch=BranchName(branch, state.identity),
        base=base_of(state),
        effects=effects,
        reads=tuple(_read(state, key) for key in sorted(work.reads - written)),
        requests=requests,
        owner=owner,
        delta=work.delta,
        sources=work.sources,
        merge=work.merge,
        reverts=work.reverts,
    )
    return Planned(plan, steps)


def base_of(state: State) -> Base:
    head = state.head
    return Base(state.version, head.commit_id, head.epoch, head.mark, state.schema.id)


def _with_forks(state: State, steps: Iterable[Step]) -> Iterable[Step]:
    """The steps by table, in key order. A table whose line another branch owns is forked first: this branch must not commit
    on that line."""
    by_key: dict[str, list[Step]] = {}
    for step in steps:
        by_key.setdefault(step.key, []).append(step)
    for key in sorted(by_key):
        listed = by_key[key]
        pin = state.tables.get(key)
        commits = RULES[listed[0].kind].lands and not RULES[listed[0].kind].begins_line
        if commits and pin is not None and pin.owner != state.identity:
            if any(step.brings_files for step in listed):
                raise _staged_elsewhere(pin)
            yield ForkTable(key, tuple(Counts() for _ in listed[0].counts))
        yield from listed


def _staged_elsewhere(pin: Pin) -> ReadSetChanged:
    """Files lie in the folder of the line that they were written for. A fork has a folder of its own, and Lance would commit a
    version that names files which are not there."""
    return ReadSetChanged(
        f"files for {pin.key} were staged on a line that belongs to another branch",
        hint="stage them again, after naming the table in graph.begin(branch, tables=[...])",
        table_key=pin.key,
        expected=pin.version,
        actual=pin.version,
    )


def _place(state: State, steps: Iterable[Step], op: str, mint: Minting) -> Iterable[Effect]:
    placed: dict[str, tuple[Target | None, BasePin | None, str]] = {}
    for step in steps:
        before = placed.get(step.key)
        target, base, identity = _first(state, step, op, mint) if before is None else _next(step, before, mint)
        placed[step.key] = (target, base, identity)
        yield Effect(step.kind, step.key, identity, base, target, step.pin if isinstance(step, AdoptPin) else None)


def _first(state: State, step: Step, op: str, mint: Minting) -> tuple[Target | None, BasePin | None, str]:
    if isinstance(step, CreateTable):
        if step.key in state.tables:
            raise Conflict(f"table {step.key} exists already", table_key=step.key)
        return Target(step.table.location, None, 1, mint.uuid()), None, step.table.identity
    if isinstance(step, AdoptPin):
        old = state.tables.get(step.key)
        return None, None if old is None else _base(old), step.pin.identity
    pin = _pin(state, step.key)
    base = _base(pin)
    rule = RULES[step.kind]
    if not rule.lands:
        return None, base, pin.identity
    if isinstance(step, ForkTable):
        forked_bases(pin)  # refused here, before anything is durable
        return Target(pin.location, f"f-{op}", pin.version, mint.uuid()), base, pin.identity
    if not rule.mints_uuid:
        return Target(pin.location, pin.ref, None, None), base, pin.identity
    return Target(pin.location, pin.ref, pin.version + 1, mint.uuid()), base, pin.identity


def _next(
    step: Step, before: tuple[Target | None, BasePin | None, str], mint: Minting
) -> tuple[Target | None, BasePin | None, str]:
    target, base, identity = before
    if target is None:
        raise ValueError(f"{step.kind} of {step.key} follows an effect that makes no version")
    if target.version is None:
        return target, base, identity
    return Target(target.path, target.ref, target.version + 1, mint.uuid()), base, identity


def _base(pin: Pin) -> BasePin:
    return BasePin(pin.location, pin.ref, pin.version)


def _pin(state: State, key: str) -> Pin:
    pin = state.tables.get(key)
    if pin is None:
        raise NotFound(f"the graph has no table {key!r}", table_key=key)
    return pin


def _read(state: State, key: str) -> ReadPin:
    pin = _pin(state, key)
    return ReadPin(key, pin.identity, pin.ref, pin.version)
