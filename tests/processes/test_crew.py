"""What a worker of a crew has said counts, also what nobody had listened to when it was killed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from omnigraph.testing.crew import Crew


def talk(say: Callable[[Any], None]) -> None:
    for number in range(5):
        say(number)
    time.sleep(60)


def test_what_was_said_before_the_end_is_noted() -> None:
    noted: list[int] = []
    crew = Crew(noted.append, kill_every_s=60, rng=random.Random(0))

    def manned() -> bool:
        if noted:
            time.sleep(1)  # by then it has said all of it
        else:
            crew.begin("talker", talk)
        return bool(noted)

    assert crew.work(manned, limit_s=60)
    assert noted == [0, 1, 2, 3, 4]
