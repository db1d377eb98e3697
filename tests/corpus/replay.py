"""Counter-examples that random tests have found, kept and replayed before anything random is tried.

One JSON file a family of tests. An entry says in ``why`` what it showed. To add one, copy what the failing test printed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hypothesis import currently_in_test_context, example, note


def kept(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((Path(__file__).parent / f"{name}.json").read_text("utf-8"))
    return found


def replaying(name: str, arguments: Callable[[Mapping[str, Any]], dict[str, Any] | None]) -> Callable[[Any], Any]:
    """Decorate a hypothesis test so that it tries the kept examples first. ``arguments`` makes the arguments of the test from
    an entry, or None where the entry is of no use to this test."""

    def decorate(test: Any) -> Any:
        for entry in reversed(kept(name)):
            given = arguments(entry)
            if given is not None:
                test = example(**given)(test)
        return test

    return decorate


def print_example(**entry: Any) -> None:
    """Say in the report of a failing example what to add to the corpus."""
    if currently_in_test_context():
        note(f"to keep this example, add to tests/corpus: {json.dumps(entry)}")
