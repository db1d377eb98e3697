"""Cleanups searched exhaustively beside a slow writer, a checkpoint in the making and an old reader, with the engine's own
decisions; and each guard taken out, to see it missed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from omnigraph import graph as graphs
from omnigraph.branch.branches import Branches
from omnigraph.commit import decide as engine
from omnigraph.commit.decide import Check, PublishCheck
from omnigraph.testing.cleaning_model import BRANCH, CHECKPOINT, Cleaning, Rules, Setting
from omnigraph.testing.explorer import Search, explore
from omnigraph.upkeep.checkpoints import Checkpoints

SHORT = {
    "a slow writer, another, two cleanups": Setting(writer=True, others=1, cleanups=2),
    "a slow writer of three attempts, two others": Setting(writer=True, attempts=3, others=2),
    "a checkpoint, another writer, two cleanups": Setting(keepers=1, others=1, cleanups=2),
    "two checkpoints, another writer, two cleanups": Setting(keepers=2, others=1, cleanups=2),
    "a checkpoint, two branches, a cleanup": Setting(keepers=1, branches=2),
    "a checkpoint, a branch, two cleanups": Setting(keepers=1, branches=1, cleanups=2),
    "three checkpoints, a cleanup": Setting(keepers=3),
    "a reader, another writer, two cleanups": Setting(reader=True, others=1, cleanups=2),
    "all of them": Setting(writer=True, keepers=1, reader=True, others=1),
}
LONG = {
    "a slow writer, three others, two cleanups": Setting(writer=True, others=3, cleanups=2),
    "a slow writer of three attempts, two others, two cleanups": Setting(writer=True, attempts=3, others=2, cleanups=2),
    "a reader, three others, two cleanups": Setting(reader=True, others=3, cleanups=2),
    "all of them, two others": Setting(writer=True, keepers=1, reader=True, others=2),
}


def search(setting: Setting, seconds_max: float = 60) -> Search:
    model = Cleaning(setting)
    return explore(model.start, model.steps, model.check, seconds_max=seconds_max)


def check_sound(found: Search) -> None:
    assert found.error is None, f"{found.error}\n  " + "\n  ".join(found.trace)
    assert found.exhausted and found.states > 100, f"not exhausted: {found}"


@pytest.mark.parametrize("setting", SHORT.values(), ids=SHORT.keys())
def test_no_order_of_requests_makes_a_cleanup_hurt_anybody(setting: Setting) -> None:
    check_sound(search(setting))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("setting", LONG.values(), ids=LONG.keys())
def test_no_order_of_requests_makes_a_cleanup_hurt_anybody_in_larger_settings(setting: Setting) -> None:
    check_sound(search(setting, 3000))


def minding_no_mark(*args: Any, **facts: Any) -> PublishCheck:
    verdict = engine.check_publish(*args, **facts)
    return PublishCheck(Check.GO) if verdict.check is Check.MARK_MOVED else verdict


WRITING: dict[str, Any] = {"writer": True, "others": 2}
KEEPING: dict[str, Any] = {"keepers": 1, "others": 1, "cleanups": 2}
GUARDS: dict[str, tuple[Setting, str]] = {
    "the boundary after a swap": (Setting(**WRITING, rules=Rules(swap_stands=lambda *_: True)), "lost commit"),
    "at the boundary is below it": (Setting(**WRITING, rules=Rules(swap_stands=lambda v, b: v >= b)), "lost commit"),
    "an unknown outcome is looked up": (Setting(**WRITING, rules=Rules(resolves=False)), "double apply"),
    "the boundary comes before the deletion": (Setting(**WRITING, rules=Rules(bounded=False)), "lost commit"),
    "the boundary never moves down": (
        Setting(writer=True, others=1, cleanups=2, rules=Rules(boundary=lambda marks: marks[-1] if marks else 0)),
        "lost commit",
    ),
    "the mark is compared at the publish": (
        Setting(**WRITING, rules=Rules(check_publish=minding_no_mark)), "broken graph",
    ),
    "the mark comes before the look": (Setting(**WRITING, rules=Rules(marked=False)), "broken graph"),
    "a checkpoint asks whether it came too late": (
        Setting(**KEEPING, rules=Rules(comes_too_late=lambda *_, **__: False)), "lost root",
    ),
    "a checkpoint relies on one that is proven": (
        Setting(keepers=2, rules=Rules(relies_on=("written", "late", "take back", "proven", "kept"))), "lost root",
    ),
    "a checkpoint is proven once it is known to be in time": (
        Setting(keepers=2, rules=Rules(relies_on=("late", "kept"))), "lost root",
    ),
    "checkpoints are read before what may rely on them": (
        Setting(keepers=1, branches=1, rules=Rules(order=(BRANCH, CHECKPOINT))), "lost root",
    ),
    "a cleanup looks again": (Setting(**KEEPING, rules=Rules(spare=lambda before, _: before)), "lost root"),
    "a reader asks for the boundary": (
        Setting(reader=True, others=2, rules=Rules(look_holds=lambda *_: True)), "stale read",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("setting", "harm"), GUARDS.values(), ids=GUARDS.keys())
def test_without_the_guard_some_order_of_requests_does_harm(setting: Setting, harm: str) -> None:
    found = search(setting)
    assert found.error is not None, f"nobody missed it: {found}"
    assert found.error.startswith(harm), f"{found.error}\n  " + "\n  ".join(found.trace)
    assert 3 <= len(found.trace) <= 20
    sound = search(replace(setting, rules=Rules()))
    assert sound.exhausted and sound.error is None, "with the guard the same setting is sound"


def test_whoever_makes_a_root_or_deletes_versions_is_in_the_model() -> None:
    """A new door of this kind needs a setting here, before it is relied on."""
    modelled = {"cleanup", "plan_cleanup", "checkpoints", "branches"}  # branches: in tests/model/test_names_model.py
    doors = {name for name, _ in inspect.getmembers(graphs.Graph) if not name.startswith("_")}
    about = ("clean", "checkpoint", "branch", "tag", "vacuum", "expire")
    assert {name for name in doors if any(word in name for word in about)} == modelled
    assert public(Checkpoints) == {"create", "list", "delete"}
    assert public(Branches) == {"create", "list", "delete", "merge"}


def public(kind: type) -> set[str]:
    members: list[tuple[str, Callable[..., Any]]] = inspect.getmembers(kind, inspect.isfunction)
    return {name for name, _ in members if not name.startswith("_")}
