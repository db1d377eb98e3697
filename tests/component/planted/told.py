"""Inputs that look right and would be dropped without a word, and what the answer to them has to say."""

from __future__ import annotations

from typing import Any

from omnigraph import options
from omnigraph.core.errors import DataInvalid, InvalidInput, Refused
from omnigraph.gq import parameters
from omnigraph.write import load_options
from omnigraph.write.rules import left_out
from tests.component.planted.damage import beside, person, raised
from tests.component.planted.scenes import Defect, Engines, setting

SET_AGE = 'query q($age: I32?) { update Person set { age: $age } where name = "p0" }'


def a_key_is_used_again(engines: Engines) -> list[str]:
    graph = beside(engines)
    first, again = (graph.load([person("x")], mode="append", idempotency_key="k") for _ in range(2))
    told = any(str(first.commit_id) in warning for warning in again.warnings)
    return [] if told else ["a replay says nothing"]


def a_key_is_blank(engines: Engines) -> list[str]:
    """As a variable that is not set gives it."""
    graph = beside(engines)
    error = raised(lambda: graph.load([person("x")], mode="append", idempotency_key=" "))
    return [] if isinstance(error, InvalidInput) else ["a blank key was taken"]


def a_parameter_is_misspelt(engines: Engines) -> list[str]:
    graph = beside(engines)
    error = raised(lambda: graph.mutate(SET_AGE, params={"agee": 5}))
    age = graph.snapshot().get("Person", "p0")
    return [] if isinstance(error, InvalidInput) and age is not None and age["age"] == 1 else [f"the age is {age}"]


def an_edge_of_a_bad_node(engines: Engines) -> list[str]:
    """The edge stands first; what is wrong is the node."""
    graph = beside(engines)
    rows: list[dict[str, Any]] = [
        {"edge": "Knows", "from": "bad", "to": "p0"},
        {"type": "Person", "data": {"name": "good"}},
        {"type": "Person", "data": {"name": "bad", "age": "old"}},
    ]
    error = raised(
        lambda: graph.load(
            rows, mode="append", on_bad_row="quarantine", on_missing_endpoint="quarantine", bad_rows_max=0
        )
    )
    if not isinstance(error, DataInvalid | Refused | InvalidInput) or "violations" not in error.facts:
        return [f"{error!r}"]
    first = error.facts["violations"][0]
    return [] if first.get("property") == "age" else [f"the first one shown is {first}"]


DEFECTS = {
    "a replay is silent": Defect(a_key_is_used_again, setting(load_options, "replay_warnings", lambda _: ())),
    "a blank key is a key": Defect(a_key_is_blank, setting(options, "check_text", lambda name, value: value)),
    "a parameter that no query declares is passed over": Defect(
        a_parameter_is_misspelt, setting(parameters, "_refuse_undeclared", lambda *_: None)
    ),
    "what follows is shown before its cause": Defect(
        an_edge_of_a_bad_node, setting(left_out, "causes_first", lambda left, reasons: list(reasons))
    ),
}
