"""Offers as drivers of the matrices: a request that another writer carries out, one that it refuses, and one that is left behind.

Imported by ``all_operations``; the registry is in ``operations``.
"""

from __future__ import annotations

import contextlib

from omnigraph.commit.engine import Engine
from omnigraph.commit.recovery.outcome import LANDED, find_outcome
from omnigraph.commit.recovery.recover import recover_all
from omnigraph.core.errors import OmnigraphError, StoreUnavailable
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.options import LoadOptions
from omnigraph.testing.combining import losing, when_applied
from omnigraph.testing.offering import adding, leave_offer, offering_engine, queued
from omnigraph.testing.operations import Operation, append, create, keys_of, opened, register
from omnigraph.write.load import load

OTHERS = keys_of(4)[-1]  # the table of a writer that takes the plan along


def _seeded(root: str, width: int) -> None:
    create(root)
    with opened(root) as engine:
        append(engine, keys_of(4), ["first", "second"], actor="seed")


def _rows(engine: Engine, width: int) -> str | None:
    records = [{"type": f"T{t + 1}", "data": {"name": name}} for t in range(width) for name in ("a", "b")]
    return load(engine, records, LoadOptions(mode="append")).commit_id


def _front_alone(root: str) -> None:
    with opened(root) as engine:
        _rows(engine, 1)


def _carried(root: str, width: int) -> str | None:
    """A writer at the front meets the offer of one that is gone. One table at any width, as that of its rival."""
    return _carry(offering_engine(root))


def _carried_helped(root: str, width: int) -> str | None:
    """The same where the plan of that writer loses a swap, and a writer of another table takes it along. That one adds no rows."""
    engine = offering_engine(root)
    engine.combine = True
    with opened(root, combine=True) as helper, opened(root) as third:

        def help_it() -> None:
            with contextlib.suppress(OmnigraphError), losing(helper, third):
                append(helper, [OTHERS], [])

        with losing(engine, third), when_applied(engine, help_it):
            return _carry(engine)


def _carry(engine: Engine) -> str | None:
    made, doubt = new_ulid(engine.clock), StoreUnavailable("the offer that was to be carried out was not met")
    try:
        with queued(engine, keys_of(1)) as queue:
            mine = queue.start(lambda: _rows(engine, 1))
            try:
                leave_offer(engine, keys_of(1)[0], ["left"], commit_id=made, mode="append")
            except StoreUnavailable as error:
                doubt = error  # its file may be there all the same: then the front carries it out
        if mine.error is not None:
            raise mine.error
        if find_outcome(engine, made, Meter()).state != LANDED:
            # An interruption came before it was read: what is there is a write of the front alone.
            raise doubt
        return made
    finally:
        engine.close()


def _led(root: str, width: int) -> str | None:
    """A writer that comes to the front with what it has offered."""
    engine = offering_engine(root)
    try:
        return _rows(engine, width)
    finally:
        engine.close()


def _refused(root: str, width: int) -> str | None:
    """A row that is there already, offered to a writer that finds it out."""
    front, bad = offering_engine(root), offering_engine(root)
    try:
        with queued(front, keys_of(width)) as queue:
            mine = queue.start(lambda: _rows(front, width))
            queue.start(adding(bad, "first", mode="append"))
        if mine.error is not None:
            raise mine.error
        return str(mine.value)
    finally:
        front.close()
        bad.close()


def _dead(root: str, width: int) -> str | None:
    """An offer of a writer that is gone is withdrawn: the graph stays as it is."""
    with opened(root) as engine:
        leave_offer(engine, keys_of(1)[0], ["left"], mode="append")
        recover_all(engine, meter=Meter(), beyond_grace=True)
    return None


register(Operation("offer-carried", frozenset(), _seeded, _carried, widths=(1,), rival=_front_alone))
register(Operation("offer-carried-helped", frozenset(), _seeded, _carried_helped, widths=(1,), rival=_front_alone))
register(Operation("offer-led", frozenset(), _seeded, _led, widths=(1, 2)))
register(Operation("offer-refused", frozenset(), _seeded, _refused, widths=(1,)))
register(Operation("offer-dead", frozenset(), _seeded, _dead, widths=(1,), keeps_content=True))
