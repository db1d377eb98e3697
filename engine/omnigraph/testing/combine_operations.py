"""Shared swaps as drivers of the matrices: a write that takes along the plan of a dead owner, and one that is taken along.

Imported by ``all_operations``; the registry is in ``operations``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial

from omnigraph.commit.engine import Engine
from omnigraph.commit.intent_format import APPLIED
from omnigraph.commit.recovery.recover import recover_all
from omnigraph.core.errors import OmnigraphError, StoreUnavailable
from omnigraph.core.meter import Meter
from omnigraph.testing.combining import leave_applied, losing, when_applied
from omnigraph.testing.operations import Operation, append, commit_id, create, keys_of, opened, register

OTHERS = keys_of(4)[-1]  # the table of the other writer: no width of these drivers has it


def _seeded(root: str, width: int) -> None:
    create(root)
    with opened(root) as engine:
        append(engine, keys_of(4), ["first", "second"], actor="seed")


def _left(root: str) -> None:
    """What the dead owner has left, once it is published."""
    with opened(root) as engine:
        append(engine, [OTHERS], ["left"])


def _helps(names: Sequence[str], root: str, width: int) -> str | None:
    with opened(root, combine=True) as mine, opened(root, combine=True) as dead, opened(root) as third:
        leave_applied(dead, third, lambda: append(dead, [OTHERS], names))
        _check_applied(third)
        with losing(mine, third):
            made = commit_id(append(mine, keys_of(width), ["a", "b"]))
        with contextlib.suppress(OmnigraphError):  # what is left of it is its file
            recover_all(third, meter=Meter())
        return made


def _joins(root: str, width: int) -> str | None:
    """A writer that has met others: on a store it says that it is applied, and takes others along, before it has lost a swap. On a disk it
    does not, so the plan of the dead owner adds no rows: it is published with the write, or later."""
    with opened(root, combine=True) as mine, opened(root, combine=True) as dead, opened(root) as third:
        leave_applied(dead, third, lambda: append(dead, [OTHERS], []))
        _check_applied(third)
        mine.timing.note_crowd()
        made = commit_id(append(mine, keys_of(width), ["a", "b"]))
        with contextlib.suppress(OmnigraphError):  # what is left of it is its file
            recover_all(third, meter=Meter())
        return made


def _check_applied(engine: Engine) -> None:
    """An interruption may have come before: then there is nothing to take along."""
    pending = [engine.intents.read(op) for op, _ in engine.intents.names()]
    if [one.state for one in pending if one is not None] != [APPLIED]:
        raise StoreUnavailable("the plan that was to be taken along is not applied")


def _helped(root: str, width: int) -> str | None:
    """The helper's own commit adds no rows: whether the plan that it takes along is there, only that plan's rows say."""
    with opened(root, combine=True) as mine, opened(root, combine=True) as helper, opened(root) as third:

        def help_it() -> None:
            with contextlib.suppress(OmnigraphError), losing(helper, third):
                append(helper, [OTHERS], [])

        with losing(mine, third), when_applied(mine, help_it):
            return commit_id(append(mine, keys_of(width), ["a", "b"]))


register(Operation("combine-helps", frozenset(), _seeded, partial(_helps, ["left"]), widths=(1, 2), rival=_left))
# The same with a dead owner that adds no rows: a sleeper's own rows say whether it came to its end.
register(Operation("combine-helps-quietly", frozenset(), _seeded, partial(_helps, []), widths=(1,)))
register(Operation("combine-joins", frozenset(), _seeded, _joins, widths=(1, 2)))
register(Operation("combine-helped", frozenset(), _seeded, _helped, widths=(1, 2)))
