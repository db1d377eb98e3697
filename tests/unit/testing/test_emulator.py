"""The emulated store: what moto does not do by itself and a real store does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from omnigraph.testing.emulator import one_change_at_a_time


def test_a_read_that_meets_a_change_is_made_again() -> None:
    """moto closes the bytes of an object that goes away, and answers a read of them with a failure that a client repeats after a pause."""
    asked: list[str] = []

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        asked.append(environ["PATH_INFO"])
        if len(asked) == 1:
            raise ValueError("I/O operation on closed file")
        return [b"after"]

    answer = one_change_at_a_time(application)({"REQUEST_METHOD": "GET", "PATH_INFO": "/bucket/key"}, lambda *_: None)
    assert list(answer) == [b"after"]
    assert asked == ["/bucket/key"] * 2
