"""Writers that lean on rows which a rival takes away: what they do, each in a process of its own or beside each other.

Owns the graph they meet on, the queries, and the planted defect: a publish that forgets what the plan was read from.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from omnigraph import graph as graphs
from omnigraph.commit.protocol import publish
from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError

SCHEMA = """
node Person { name: String @key  age: I32? }
node Place { name: String @key }
edge Knows: Person -> Person { note: String? }
edge At: Person -> Place
"""
NAMES = tuple("abcdefgh")

# Each is one write that needs b to exist, or that takes b away.
Act = Callable[[graphs.Graph], Any]
QUERIES: dict[str, str] = {
    "insert edge": 'query q() { insert Knows { from: "a", to: "b" } }',
    "insert edge from": 'query q() { insert Knows { from: "b", to: "a" } }',
    "insert edge and its node": 'query q() { insert Person { name: "b" } insert Knows { from: "a", to: "b" } }',
    "insert edge of another type": 'query q() { insert At { from: "b", to: "here" } }',
    "delete node": 'query q() { delete Person where name = "b" }',
    "delete nodes": 'query q() { delete Person where name > "a" }',
}


def act(graph: graphs.Graph, name: str) -> Any:
    match name:
        case "overwrite nodes":
            return graph.load([{"type": "Person", "data": {"name": "a"}}], mode="overwrite")
        case "load edge":
            return graph.load([{"edge": "Knows", "from": "a", "to": "b"}], mode="append")
    return graph.mutate(QUERIES[name])


def seed(graph: graphs.Graph, names: tuple[str, ...] = ("a", "b")) -> None:
    people = [{"type": "Person", "data": {"name": name}} for name in names]
    graph.load([*people, {"type": "Place", "data": {"name": "here"}}], mode="append")


@contextmanager
def blind() -> Iterator[None]:
    """The planted defect: publishing looks at what a plan writes and not at what it read."""
    module: Any = publish
    real = module.check_publish

    def forgetful(state: Any, plan: Any, *rest: Any, **facts: Any) -> Any:
        return real(state, replace(plan, reads=()), *rest, **facts)

    module.check_publish = forgetful
    try:
        yield
    finally:
        module.check_publish = real


# --- in processes -------------------------------------------------------------------------------------------------------


def one_act(say: Callable[[Any], None], root: str, name: str, gate: str, forgetful: bool) -> None:
    """One write that stands still in the last moment before its swap, until another process opens the named pipe ``gate``."""

    def wait(**_: Any) -> None:
        say("publishing")
        Path(gate).read_bytes()

    with graphs.open(root, actor="child") as graph, blind() if forgetful else nullcontext():
        failpoints.arm("publish.before_swap", wait)
        say(_ended(lambda: act(graph, name)))


def many_acts(say: Callable[[Any], None], root: str, name: str, count: int) -> None:
    """Link, unlink and bring back random people; say how each ended."""
    rng = random.Random(name)
    with graphs.open(root, actor=name) as graph:
        for _ in range(count):
            one, other = rng.sample(NAMES, 2)
            say(_ended(lambda one=one, other=other: _random_act(graph, rng, one, other)))  # type: ignore[misc]


def _random_act(graph: graphs.Graph, rng: random.Random, one: str, other: str) -> Any:
    given = {"one": one, "other": other}
    match rng.choice(("link", "link", "link", "drop", "back", "age")):
        case "link":
            text = "query q($one: String, $other: String) { insert Knows { from: $one, to: $other } }"
        case "drop":
            text = "query q($one: String, $other: String) { delete Person where name = $one }"
        case "back":
            text = "query q($one: String, $other: String) { insert Person { name: $one } insert Knows { from: $one, to: $other } }"
        case _:
            text = "query q($one: String, $other: String) { update Person set { age: 1 } where name = $one }"
    return graph.mutate(text, params=given)


def _ended(call: Callable[[], Any]) -> tuple[str, str]:
    try:
        receipt = call()
    except OmnigraphError as error:
        return (error.code, str(error))
    return ("done", receipt.commit_id or "")
