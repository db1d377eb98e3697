"""Writers that stand above a pin that a plan has to be put back to: help them, or wait for them."""

from __future__ import annotations

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import Engine
from omnigraph.commit.protocol.compensate import GiveWay
from omnigraph.commit.queue.timing import FrontWatch
from omnigraph.core.meter import Meter

ENDING_GRACES = 4.0  # one to see that an operation in the way is dead, and the rest to end it, and a plan of one's own


def give_way_to_others(engine: Engine, meter: Meter) -> GiveWay:
    """What a plan that is given up does where another operation stands first above a pin."""
    from omnigraph.commit.recovery.recover import help_or_wait  # here: only an abort needs to read intents of others

    watch = FrontWatch(engine.timing, engine.clock)
    return lambda other, rank: help_or_wait(engine, other, watch=watch, meter=meter, rank=rank)


def time_to_end(engine: Engine, deadline: Deadline) -> Deadline:
    """A plan under way is brought to its end even when the caller's time is nearly up: an outcome beats a date."""
    return Deadline(engine.clock, max(deadline.left(), ENDING_GRACES * engine.timing.grace_s))
