"""Situations whose hint shows the reader what there is, so that the command can be typed again with the right word."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import omnigraph as og
from omnigraph.core import failpoints
from tests.component.cli.material import head_of, interrupt

GRAPH = "social.omni"
Words = tuple[str, ...]
ADA = [{"type": "Person", "data": {"name": "Ada", "age": 36}}]
NOBODY = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


NO_STORE = (
    "s3://bucket/graph",
    *(
        f"--storage-option={item}"
        for item in (
            "aws_endpoint=http://127.0.0.1:9",
            "aws_region=us-east-1",
            "aws_access_key_id=x",
            "aws_secret_access_key=x",
            "client_max_retries=0",
            "client_retry_timeout=1",
        )
    ),
)


@dataclass(frozen=True)
class Situation:
    """What goes wrong, and what its hint leads to.

    ``place``: the module that gives the hint. ``hint``: a part of it, as the code has it. ``make`` returns the words of the command
    that goes wrong; ``fills`` is what a reader puts in for words like FILE. ``shows``: what the commands of the hint print.
    ``by_hand``: what else the hint says to do. ``then``: what is typed after that, from what was printed; None: the same command
    again. ``ends``: its exit code; 0 means that following the hint has put it right.
    """

    place: str
    hint: str
    make: Callable[[], Words]
    code: int
    shows: tuple[str, ...] = ()
    fills: Mapping[str, str] = field(default_factory=dict)
    by_hand: Callable[[], object] = lambda: None
    then: Callable[[str], Words] | None = None
    ends: int = 0
    confirms: bool = False  # the command shows what it would do, and is typed again with --confirm


def typed(*words: str) -> Callable[[], Words]:
    return lambda: words


def after(*words: str) -> Callable[[str], Words]:
    return lambda _: words


def made(act: Callable[[og.Graph], object], *words: str) -> Callable[[], Words]:
    """The words, after something was done to the graph."""

    def make() -> Words:
        with og.open(GRAPH) as graph:
            act(graph)
        return words

    return make


def an_id(shown: str) -> str:
    """The newest commit that a list shows, with the commit that made the graph last."""
    return re.findall(r"\b[0-9A-HJKMNP-TV-Z]{26}\b", shown)[0]


def _of_the_first(*words: str) -> Callable[[], Words]:
    def make() -> Words:
        with og.open(GRAPH, read_only=True) as graph:
            return (*words[:1], GRAPH, graph.commits()[-1].id, *words[1:])

    return make


def _after_schema_change() -> Words:
    before = head_of(GRAPH)
    with og.open(GRAPH) as graph:
        graph.schema.apply("node City { name: String @key }\n" + Path("social.pg").read_text())
        graph.load(ADA, mode="merge")
    return ("restore", GRAPH, before)


def _reclaimed() -> Words:
    first = head_of(GRAPH)
    with og.open(GRAPH) as graph:
        graph.load(ADA, mode="merge")
        graph.cleanup(keep=1, min_age="0s", confirm=True)
    return ("snapshot", GRAPH, "--at", first)


def _schemas_disagree() -> Words:
    text = Path("social.pg").read_text()
    with og.open(GRAPH) as graph:
        graph.branches.create("review")
        for branch, kind in (("review", "I64"), ("main", "String")):
            graph.schema.apply(text.replace("age: I32?", f"age: I32? v: {kind}?"), branch=branch)
    Path("review.pg").write_text(text.replace("age: I32?", 'age: I32? count: I64? @rename_from("v")'))
    return ("branch", "merge", GRAPH, "review")


def _key_taken() -> Words:
    with og.open(GRAPH) as graph:
        graph.load(ADA, mode="merge", idempotency_key="monday")
    return ("load", GRAPH, "--data", "people.jsonl", "--mode", "merge", "--key", "monday")


def _no_answer() -> Words:
    """A load whose swap has landed, and which does not hear of it."""
    os.environ["OMNIGRAPH_FAILPOINTS"] = ""
    failpoints.arm("publish.after_swap", "raise")
    Path("ada.jsonl").write_text('{"type": "Person", "data": {"name": "Ada"}}\n')
    return ("load", GRAPH, "--data", "ada.jsonl", "--mode", "merge")


BRANCHED = made(lambda graph: graph.branches.create("review"), "snapshot", GRAPH, "--branch", "reviews")

NAMES = (
    Situation(
        "commit/engine.py",
        "`omnigraph branch list` shows the branches",
        BRANCHED,
        3,
        ("review",),
        then=after("snapshot", GRAPH, "--branch", "review"),
    ),
    Situation(
        "cli/commands/branch.py",
        "`omnigraph branch list` shows the branches",
        made(lambda graph: graph.branches.create("review"), "branch", "delete", GRAPH, "revue"),
        3,
        ("review",),
        then=after("branch", "delete", GRAPH, "review", "--confirm"),
    ),
    Situation(
        "branch/delete.py",
        "`omnigraph branch list` shows the branches",
        made(lambda graph: graph.branches.create("review"), "branch", "delete", GRAPH, "revue", "--confirm"),
        3,
        ("review",),
        then=after("branch", "delete", GRAPH, "review", "--confirm"),
    ),
    Situation(
        "branch/merge.py",
        "name two branches; `omnigraph branch list`",
        made(lambda graph: graph.branches.create("review"), "branch", "merge", GRAPH, "main"),
        3,
        ("review",),
        then=after("branch", "merge", GRAPH, "review"),
    ),
    Situation(
        "branch/conflicts.py",
        "`omnigraph schema apply --schema FILE",
        _schemas_disagree,
        4,
        fills={"FILE": "review.pg", "NAME": "review"},
    ),
    Situation(
        "branch/undo.py",
        "name a later commit; `omnigraph commit list`",
        _of_the_first("revert"),
        3,
        then=lambda shown: ("revert", GRAPH, an_id(shown)),
    ),
    Situation(
        "branch/undo.py",
        "`omnigraph schema apply --schema FILE`",
        _after_schema_change,
        4,
        fills={"FILE": "social.pg --confirm"},
    ),
    Situation(
        "cli/call.py", "run `omnigraph --help`", typed("stauts", GRAPH), 2, ("status",), then=after("status", GRAPH)
    ),
    Situation(
        "cli/app.py",
        "options come behind the command",
        typed("--quiet", "status", GRAPH),
        2,
        ("schema_version", "Commands"),
        then=after("status", GRAPH, "--json"),
    ),
    Situation(
        "cli/commands/intent.py",
        "`omnigraph intent list` shows what is pending",
        lambda: (interrupt(GRAPH), ("intent", "show", GRAPH, NOBODY))[1],
        3,
        then=lambda shown: ("intent", "show", GRAPH, an_id(shown)),
    ),
    Situation(
        "cli/commands/mutate.py",
        "`omnigraph schema show` ",
        typed("mutate", GRAPH, "-e", "remove Person where name is Ann"),
        3,
        ("Person", "name"),
        then=after("mutate", GRAPH, "-e", 'delete Person where name = "Ann"'),
    ),
    Situation(
        "commit/conflicts.py",
        "use a new key for a new request",
        _key_taken,
        4,
        ("Person",),
        then=after("load", GRAPH, "--data", "people.jsonl", "--mode", "merge", "--key", "tuesday"),
    ),
    Situation(
        "commit/protocol/run.py",
        "ask with `omnigraph commit outcome {plan.head}`",
        _no_answer,
        5,
        ("landed",),
        by_hand=failpoints.disarm,
        then=after("get", GRAPH, "Person", "Ada"),
    ),
    Situation(
        "read/at.py",
        "`omnigraph commit list` shows the commits of the graph",
        typed("commit", "show", GRAPH, NOBODY),
        3,
        then=lambda shown: ("commit", "show", GRAPH, an_id(shown)),
    ),
    Situation(
        "read/place_names.py",
        "are written in upper case; `omnigraph commit list`",
        lambda: ("snapshot", GRAPH, "--at", head_of(GRAPH).lower()),
        3,
        then=lambda shown: ("snapshot", GRAPH, "--at", an_id(shown)),
    ),
    Situation(
        "read/place_names.py",
        "; `omnigraph commit list` shows the commits; ",
        typed("snapshot", GRAPH, "--at", "last-week"),
        3,
        then=lambda shown: ("snapshot", GRAPH, "--at", an_id(shown)),
    ),
    Situation(
        "read/place_names.py",
        "characters; `omnigraph commit list` shows them",
        typed("revert", GRAPH, "branch:main"),
        3,
        then=lambda shown: ("revert", GRAPH, an_id(shown)),
    ),
    Situation(
        "read/places.py",
        "name a later time, or a commit",
        typed("snapshot", GRAPH, "--at", "2001-01-01"),
        3,
        then=lambda shown: ("snapshot", GRAPH, "--at", an_id(shown)),
    ),
    Situation(
        "read/feed_way.py",
        "name a commit of the branch as `until`",
        made(
            lambda graph: (graph.branches.create("review"), graph.load(ADA, mode="merge", branch="review")),
            *("changes", GRAPH, "--since", "branch:main", "--until", "branch:review"),
        ),
        3,
        then=lambda shown: ("changes", GRAPH, "--since", "branch:main", "--until", an_id(shown)),
    ),
    Situation(
        "read/sql.py",
        "`omnigraph snapshot` lists the types",
        typed("query", GRAPH, "--sql", "select * from People"),
        3,
        ("Person",),
        then=after("query", GRAPH, "--sql", "select * from Person"),
    ),
    Situation(
        "read/sql.py",
        "a graph is changed with `omnigraph load`",
        typed("query", GRAPH, "--sql", "insert into Person values ('x')"),
        3,
        ("--mode",),
        then=after("load", GRAPH, "--data", "people.jsonl", "--mode", "merge"),
    ),
    Situation(
        "upkeep/checkpoints.py",
        "`omnigraph checkpoint list` shows them",
        made(lambda graph: graph.checkpoints.create("good"), "checkpoint", "delete", GRAPH, "goood"),
        3,
        ("good",),
        then=after("checkpoint", "delete", GRAPH, "good"),
    ),
    Situation(
        "manifest/damage.py",
        "create one with `omnigraph init",
        typed("status", "nowhere.omni"),
        3,
        fills={"FILE": "social.pg"},
    ),
    Situation(
        "core/errors.py",
        "`omnigraph lint --query FILE` checks a whole file",
        lambda: (
            Path("bad.gq").write_text("query q() { insert Person { age: 1 } }\n"),
            ("mutate", GRAPH, "--query", "bad.gq"),
        )[1],
        3,
        ("Person.name",),
        fills={"FILE": "bad.gq --schema social.pg"},
        then=after("mutate", GRAPH, "-e", 'delete Person where name = "Ann"'),
    ),
    Situation(
        "cli/commands/init.py",
        "add them to it and run `omnigraph schema apply --schema FILE`",
        lambda: (Path("empty.pg").write_text(""), ("init", "new.omni", "--schema", "empty.pg"))[1],
        0,
        fills={"FILE": "social.pg --uri new.omni"},
        then=after("load", "new.omni", "--data", "people.jsonl", "--mode", "append"),
    ),
    Situation(
        "core/errors.py",
        "try again later; `omnigraph doctor` checks the store",
        typed("status", *NO_STORE),
        7,
        ("fail  store",),
        fills={"doctor": " ".join(("doctor", *NO_STORE))},
        then=after("status", GRAPH),
    ),
    Situation(
        "cli/checks.py",
        "create one with `omnigraph init {uri} --schema FILE`",
        typed("doctor", "nowhere.omni"),
        0,
        fills={"FILE": "social.pg"},
    ),
    Situation(
        "cli/commands/explain.py",
        "`omnigraph explain` lists all of them",
        typed("explain", "out-of-luck"),
        3,
        ("outcome-unknown",),
        then=after("explain", "outcome-unknown"),
    ),
    Situation(
        "wire/receipt.py",
        "or end it with `omnigraph recover`, then ask again",
        lambda: (interrupt(GRAPH), ("commit", "outcome", GRAPH, _pending_commit()))[1],
        0,
        fills={"recover": "recover --grace 0"},
    ),
)


def _pending_commit() -> str:
    with og.open(GRAPH, read_only=True) as graph:
        [pending] = graph.intents()
        return str(pending.commit_id)
