"""What scenes and planted defects are made of."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from omnigraph.commit import decide
from omnigraph.commit.decide import Check, PublishCheck
from omnigraph.commit.engine import Engine
from omnigraph.commit.protocol import publish
from omnigraph.commit.recovery.recover import recover_all
from omnigraph.core import failpoints
from omnigraph.core.errors import (
    OutcomeUnknown,
    StoreUnavailable,
)
from omnigraph.core.meter import Meter
from omnigraph.testing.content import content_of, faults_of
from omnigraph.testing.operations import append, keys_of

ONE, TWO = keys_of(1), keys_of(2)
SILENT = StoreUnavailable("the store does not answer")
Engines = Callable[[], Engine]
Scene = Callable[[Engines], list[str]]
Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Defect:
    scene: Scene
    plant: Plant


def rows(engine: Engine, key: str) -> list[str]:
    content = content_of(engine)
    return [] if content is None else [str(dict(row)["name"]) for row in content.tables[key]]


def wrong(engine: Engine, expected: dict[str, list[str]] | None = None) -> list[str]:
    """Whatever contradicts the promises, or the rows that must be there."""
    found = faults_of(engine)
    for key, names in (expected or {}).items():
        there = rows(engine, key)
        if sorted(there) != sorted(names):
            found.append(f"{key} holds {there}, not {names}")
    return found


def cut(engine: Engine, place: str) -> None:
    """A write that dies: ``armed``, ``half`` applied, or ``complete`` and not published."""

    def stop(**facts: Any) -> None:
        if place != "half" or facts["table_key"] == TWO[1]:
            raise failpoints.FailpointHit(place)

    name = "publish.before_swap" if place == "complete" else "apply.before_commit"
    with failpoints.armed(name, stop, at=None), contextlib.suppress(OutcomeUnknown):
        append(engine, TWO, ["a"], actor="ada")


def recovered(engine: Engine) -> None:
    recover_all(engine, meter=Meter(), beyond_grace=True)


def setting(target: Any, name: str, value: Any) -> Plant:
    return lambda patch: patch.setattr(target, name, value)


def passing(check: Check) -> Plant:
    def lenient(*args: Any, **facts: Any) -> PublishCheck:
        verdict = decide.check_publish(*args, **facts)
        return PublishCheck(Check.GO) if verdict.check is check else verdict

    return setting(publish, "check_publish", lenient)
