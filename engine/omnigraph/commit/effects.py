"""What a plan does to tables, as data: one effect is one durable change that the manifest does not name yet.

Each kind has a rule that says how it lands, how a stranger recognises it, and what becomes of it when its plan is given up.
Nothing here sends a request, and nothing about an effect is only known to the process that planned it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from omnigraph.manifest.rows import Pin


class Recognised(Enum):
    """How a stranger knows an effect."""

    BY_UUID = "by-uuid"  # the planned transaction uuid, at exactly the planned version
    BY_OWN_VERSIONS = "by-own-versions"  # Lance mints the uuid: only the run that made the versions knows them
    NOTHING_LANDS = "nothing-lands"  # the swap is all that happens


class GivenUp(Enum):
    """What becomes of an effect whose plan ends by an abort."""

    RESTORE = "restore"  # the pin is put back on top
    LEFT_FOR_CLEANUP = "left-for-cleanup"  # it has a path of its own, which is never used again
    NOTHING = "nothing"


@dataclass(frozen=True)
class Rule:
    """What holds for every effect of one kind."""

    recognised: Recognised
    given_up: GivenUp
    begins_line: bool = False  # it makes the line that later effects of its chain stand on
    needs_base: bool = True
    needs_source: bool = False  # it copies from a version that the plan lists under ``sources``

    @property
    def lands(self) -> bool:
        """Whether it is a version of a table."""
        return self.recognised is not Recognised.NOTHING_LANDS

    @property
    def mints_uuid(self) -> bool:
        return self.recognised is Recognised.BY_UUID


_COMMIT = Rule(Recognised.BY_UUID, GivenUp.RESTORE)
_UPKEEP = Rule(Recognised.BY_OWN_VERSIONS, GivenUp.RESTORE)

RULES: dict[str, Rule] = {
    "append": _COMMIT,
    "rows": _COMMIT,
    "overwrite": _COMMIT,
    "columns": _COMMIT,
    "project": _COMMIT,
    "restore": Rule(Recognised.BY_UUID, GivenUp.RESTORE, needs_source=True),
    "create": Rule(Recognised.BY_UUID, GivenUp.LEFT_FOR_CLEANUP, begins_line=True, needs_base=False),
    "fork": Rule(Recognised.BY_UUID, GivenUp.LEFT_FOR_CLEANUP, begins_line=True),
    "index": _UPKEEP,
    "rewrite": _UPKEEP,
    "adopt": Rule(Recognised.NOTHING_LANDS, GivenUp.NOTHING, needs_base=False, needs_source=True),
    "drop": Rule(Recognised.NOTHING_LANDS, GivenUp.NOTHING),
}


@dataclass(frozen=True)
class BasePin:
    """The pin that the swap replaces: where the table stands before the plan."""

    path: str
    ref: str | None
    pin: int


@dataclass(frozen=True)
class Target:
    """The version that an effect makes. Version and uuid are None where Lance takes none of ours."""

    path: str
    ref: str | None
    version: int | None
    uuid: str | None


@dataclass(frozen=True)
class Effect:
    """One durable change to one table."""

    kind: str
    key: str
    identity: str
    base: BasePin | None
    target: Target | None
    pin_row: Pin | None = None  # of an ``adopt``: the pin that is published

    @cached_property
    def rule(self) -> Rule:
        return RULES[self.kind]


@dataclass(frozen=True)
class Chain:
    """All effects of a plan on one table, in the order in which they land."""

    key: str
    identity: str
    base: BasePin | None
    effects: tuple[Effect, ...]

    @cached_property
    def first(self) -> Effect:
        return self.effects[0]

    @cached_property
    def lands(self) -> bool:
        return self.first.rule.lands

    @cached_property
    def begins_line(self) -> bool:
        """Whether its versions stand on a line that the plan makes itself."""
        return self.first.rule.begins_line

    @property
    def is_upkeep(self) -> bool:
        return self.first.rule.recognised is Recognised.BY_OWN_VERSIONS

    @property
    def path(self) -> str:
        return self._target.path

    @property
    def ref(self) -> str | None:
        return self._target.ref

    @cached_property
    def _target(self) -> Target:
        target = self.first.target
        if target is None:
            raise ValueError(f"{self.first.kind} of {self.key} has no target")
        return target

    @cached_property
    def version(self) -> int:
        """The version that publishing this chain pins; the base pin's where Lance chooses the numbers."""
        last = self.effects[-1].target
        if last is not None and last.version is not None:
            return last.version
        return self.pin

    @property
    def pin(self) -> int:
        """The version that is replaced; 0 for a table that is not there yet."""
        return 0 if self.base is None else self.base.pin

    @cached_property
    def uuids(self) -> frozenset[str]:
        """The transactions that this plan may have sent to the table's line."""
        return frozenset(
            effect.target.uuid
            for effect in self.effects
            if effect.target is not None and effect.target.uuid is not None
        )

    def places(self) -> Iterator[tuple[int, str]]:
        """(version, uuid) of each effect that a stranger recognises by its uuid."""
        for effect in self.effects:
            target = effect.target
            if target is not None and target.version is not None and target.uuid is not None:
                yield target.version, target.uuid


def chains(effects: Iterable[Effect]) -> tuple[Chain, ...]:
    """The effects by table, in key order; inside a table in the order of the plan."""
    by_table: dict[tuple[str, str], list[Effect]] = {}
    for effect in effects:
        by_table.setdefault((effect.key, effect.identity), []).append(effect)
    return tuple(
        Chain(key, identity, listed[0].base, tuple(listed)) for (key, identity), listed in sorted(by_table.items())
    )


def contradictions(chain: Chain) -> Iterator[str]:
    """What no plan of this engine says about one table, in words. Nothing for a sound chain."""
    first = chain.first
    if first.base is None and first.rule.needs_base:
        yield f"{first.kind} of {chain.key} lacks a base"
    if first.kind == "create" and first.base is not None:
        yield f"create of {chain.key} has a base"
    for effect in chain.effects:
        yield from _effect_contradictions(effect)
        if effect.base != chain.base:
            yield f"the effects on {chain.key} have different bases"
    yield from _chain_contradictions(chain)


def _effect_contradictions(effect: Effect) -> Iterator[str]:
    rule, target = effect.rule, effect.target
    if rule.lands != (target is not None):
        yield f"{effect.kind} of {effect.key} {'lacks' if rule.lands else 'has'} a target"
        return
    if target is not None and rule.mints_uuid != (target.uuid is not None and target.version is not None):
        yield f"{effect.kind} of {effect.key} {'lacks' if rule.mints_uuid else 'has'} a version and a uuid"
    if (effect.kind == "adopt") != (effect.pin_row is not None):
        yield f"{effect.kind} of {effect.key} {'lacks' if effect.kind == 'adopt' else 'has'} a pin_row"


def _chain_contradictions(chain: Chain) -> Iterator[str]:
    if not chain.lands:
        if len(chain.effects) > 1:
            yield f"{chain.first.kind} of {chain.key} is not the only effect on it"
        return
    first = chain.first.target
    if first is None:
        return
    for effect in chain.effects[1:]:
        if effect.rule.begins_line:
            yield f"{effect.kind} of {chain.key} is not the first effect on it"
        if effect.rule.recognised is not chain.first.rule.recognised:
            yield f"{effect.kind} of {chain.key} follows {chain.first.kind}"
        if effect.target is None or (effect.target.path, effect.target.ref) != (first.path, first.ref):
            yield f"{effect.kind} of {chain.key} lands on another line than the effect before it"
    yield from _first_target(chain, first)
    numbers = [effect.target.version for effect in chain.effects if effect.target is not None]
    counted = [number for number in numbers if number is not None]
    if counted and counted != list(range(counted[0], counted[0] + len(counted))):
        yield f"the versions planned for {chain.key} are not one after the other: {counted}"


def _first_target(chain: Chain, first: Target) -> Iterator[str]:
    base, kind = chain.base, chain.first.kind
    if kind == "create":
        if first.version != 1 or first.ref is not None:
            yield f"create of {chain.key} is planned at version {first.version} of {first.ref!r}"
        return
    if base is None:
        return
    if first.path != base.path:
        yield f"{kind} of {chain.key} has its base at another path"
    if kind == "fork":
        if first.version != base.pin or first.ref == base.ref or first.ref is None or not first.ref.startswith("f-"):
            yield f"fork of {chain.key} is planned at version {first.version} of {first.ref!r}"
        return
    if first.ref != base.ref:
        yield f"{kind} of {chain.key} lands on {first.ref!r}, its base is on {base.ref!r}"
    if first.version is not None and first.version != base.pin + 1:
        yield f"{kind} of {chain.key} is planned at version {first.version}, its base is {base.pin}"
