"""Sources wait for those they come after; what is refused for what it refers to is offered again, in bounds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph as og
from omnigraph_pipelines.batches import Batch, BatchFile
from omnigraph_pipelines.defs.ingest.arrivals import (
    ATTEMPTS_MAX,
    FIRST_PAUSE_S,
    WAITING_ATTEMPTS_MAX,
    WAITING_S_MAX,
    LastRun,
    Memory,
    Tick,
    decide,
    from_cursor,
    pause,
    to_cursor,
)
from omnigraph_pipelines.defs.ingest.upstream import FINGERPRINTS_MAX, UNFINISHED_S_MAX, Upstream, standing_of
from omnigraph_pipelines.graph_file import load_graph_file
from omnigraph_pipelines.order import circle_in, in_order


def batch(key: str, contents: str = "v1", *, is_ready: bool = True) -> Batch:
    return Batch(key, key, (BatchFile(contents, key, len(contents), ""),), is_ready)


def fingerprint(one: Batch) -> str:
    return f"{one.key}-{one.files[0].name}"


# --- the order itself -----------------------------------------------------------------------------------------------------

NAMES = "abcde"
GRAPHS = st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), max_size=3), min_size=1)


@given(GRAPHS)
def test_either_there_is_a_circle_or_every_source_stands_behind_those_before_it(after: dict[str, list[str]]) -> None:
    circle = circle_in(after)
    if circle:
        assert circle[0] == circle[-1] and len(circle) > 1
        assert all(later in after[earlier] for earlier, later in itertools.pairwise(circle))
        return
    found = in_order(sorted(after), after)
    assert sorted(found) == sorted(after)
    for name, before in after.items():
        assert all(found.index(one) < found.index(name) for one in before if one in found)


FILE = """\
graph: {name: people, uri: people.omni, schema: people.pg}
sources:
  - {name: index, batches: "i/*.jsonl", format: graph, mode: merge, after: [AFTER]}
  - name: relations
    batches: "r/*.jsonl"
    format: graph
    mode: merge
    after: [indx, index]
"""


@pytest.mark.parametrize(
    ("after", "line", "said"),
    [
        ("", 8, "sources[1].after[0]: no source is called 'indx'; did you mean 'index'?"),
        ("relations", 3, "sources[0].after: sources wait for one another: index after relations after index"),
        ("index", 3, "sources[0].after: sources wait for one another: index after index"),
    ],
)
def test_a_circle_and_an_unknown_source_are_told_with_their_place(
    tmp_path: Path, after: str, line: int, said: str
) -> None:
    (tmp_path / "people.pg").write_text("node Person { name: String @key }\n")
    text = FILE.replace("AFTER", after)
    (tmp_path / "graph.yaml").write_text(text if line == 8 else text.replace("[indx, ", "["))
    with pytest.raises(og.errors.InvalidInput) as refused:
        load_graph_file(tmp_path / "graph.yaml")
    assert refused.value.facts["line"] == line
    assert said in refused.value.message and str(tmp_path / "graph.yaml") in refused.value.message


# --- a source before another ----------------------------------------------------------------------------------------------


def upstream(
    *batches: Batch,
    now_s: float = 0.0,
    under_way: tuple[str, ...] = (),
    last: Mapping[str, LastRun] | None = None,
    done: tuple[str, ...] = (),
    has_marker: bool = True,
) -> Upstream:
    committed = {one.key: fingerprint(one) for one in batches if one.key in done}
    return Upstream("index", batches, {}, now_s, under_way, last or {}, committed, has_marker)


def run_of(one: Batch, **given: object) -> dict[str, LastRun]:
    found = {"failed": True, "permanent": False, "attempts": 1, "ended_s": 0.0, **given}
    return {one.key: LastRun(fingerprint(one), **found)}  # type: ignore[arg-type]


A, B = batch("a"), batch("b")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (upstream(), ""),
        (upstream(A), "1 due (a)"),
        (upstream(A, done=("a",)), ""),
        (upstream(A, B, done=("a",)), "1 due (b)"),
        (upstream(A, under_way=("a",), done=("a",)), "1 under way (a)"),
        (upstream(A, last=run_of(A)), "1 to be tried again (a)"),
        (upstream(A, last=run_of(A, attempts=ATTEMPTS_MAX)), ""),
        (upstream(A, last=run_of(A, permanent=True)), ""),
        (upstream(A, last=run_of(A, permanent=True, judged_at="c1")), "1 waiting for what they refer to (a)"),
        (upstream(A, now_s=WAITING_S_MAX, last=run_of(A, permanent=True, judged_at="c1")), ""),
        (upstream(A, last=run_of(A, failed=False, canceled=True)), ""),
        (upstream(A, last=run_of(A, failed=False)), "1 due (a)"),
        (upstream(batch("a", is_ready=False)), "1 incomplete (a)"),
        (upstream(batch("a", "v2"), last=run_of(A, permanent=True)), "1 due (a)"),
        (upstream(batch("x...y")), ""),
    ],
)
def test_a_source_is_done_when_nothing_of_it_is_due_waiting_or_under_way(source: Upstream, said: str) -> None:
    assert standing_of(source, fingerprint).waits_for == (f"waits for index: {said}" if said else "")


def test_a_folder_that_never_gets_complete_holds_others_up_for_an_hour() -> None:
    half = batch("a", is_ready=False)
    first = standing_of(upstream(half), fingerprint)
    assert first.waits_for
    late = Upstream("index", [half], first.seen, UNFINISHED_S_MAX, has_marker=True)
    assert standing_of(late, fingerprint).waits_for == ""


def test_contents_are_read_once_and_in_bounds() -> None:
    many = [batch(f"{n:04}") for n in range(FINGERPRINTS_MAX + 7)]
    read: list[str] = []

    def reading(one: Batch) -> str:
        read.append(one.key)
        return fingerprint(one)

    first = standing_of(upstream(*many, done=tuple(one.key for one in many)), reading)
    assert len(read) == FINGERPRINTS_MAX and "7 due" in first.waits_for
    done = {one.key: fingerprint(one) for one in many}
    again = standing_of(Upstream("index", many, first.seen, 0.0, done=done, has_marker=True), reading)
    assert len(read) == len(many) and again.waits_for == ""


# --- whole histories ------------------------------------------------------------------------------------------------------


@dataclass
class World:
    """Two sources over one graph: nodes, and edges that refer to them by key. Runs end as the steps say."""

    nodes: list[str]
    edges: list[str]
    is_ordered: bool
    now_s: float = 0.0
    head: int = 0
    in_graph: set[str] = field(default_factory=set)
    running: dict[str, list[str]] = field(default_factory=lambda: {"nodes": [], "edges": []})
    last: dict[str, dict[str, LastRun]] = field(default_factory=lambda: {"nodes": {}, "edges": {}})
    done: dict[str, dict[str, str]] = field(default_factory=lambda: {"nodes": {}, "edges": {}})
    cursor: dict[str, str] = field(default_factory=dict)
    offers: list[str] = field(default_factory=list)
    run_keys: set[str] = field(default_factory=set)
    said: dict[str, str] = field(default_factory=dict)

    def batches(self, name: str) -> list[Batch]:
        return [batch(key) for key in sorted(self.nodes if name == "nodes" else self.edges)]

    def tick(self, name: str, *, forgets: bool = False) -> None:
        memory = Memory() if forgets else from_cursor(self.cursor.get(name))
        held_up, before = "", {}
        if name == "edges" and self.is_ordered:
            found = standing_of(
                Upstream(
                    "nodes",
                    self.batches("nodes"),
                    memory.before.get("nodes", {}),
                    self.now_s,
                    tuple(self.running["nodes"]),
                    self.last["nodes"],
                    self.done["nodes"],
                    True,
                ),
                fingerprint,
            )
            held_up, before = found.waits_for, {"nodes": found.seen}
        tick = Tick(
            self.batches(name),
            memory.seen,
            self.now_s,
            tuple(self.running[name]),
            self.last[name],
            has_marker=True,
            done=self.done[name],
            held_up=held_up,
        )
        decision = decide(tick, fingerprint, lambda: str(self.head))
        self.cursor[name] = to_cursor(Memory(decision.seen, before))
        self.said[name] = decision.said
        for offer in decision.offers:
            key = f"{name}/{offer.run_key}"
            if key in self.run_keys:
                continue  # Dagster launches one run for a key
            self.run_keys.add(key)
            if name == "edges" and self.is_ordered:
                open_ = set(self.nodes) - set(self.done["nodes"])
                given_up = {
                    k for k, v in self.last["nodes"].items() if v.standing(self.now_s) in ("refused", "given up")
                }
                assert not self.running["nodes"] and open_ <= given_up, "offered before its time"
            self.running[name].append(offer.batch)
            self.offers.append(f"{name}/{offer.batch}")

    def end(self, name: str, how: str) -> None:
        """The oldest run ends: it works as far as the data allow, or its worker dies."""
        if not self.running[name]:
            return
        key = self.running[name].pop(0)
        before = self.last[name].get(key)
        attempts = 1 if before is None else before.attempts + 1
        first_s = self.now_s if before is None else before.first_s
        lacks = name == "edges" and key not in self.in_graph
        if how == "dies":
            self.last[name][key] = LastRun(fingerprint(batch(key)), True, False, attempts, self.now_s, first_s)
        elif lacks:
            self.last[name][key] = LastRun(
                fingerprint(batch(key)), True, True, attempts, self.now_s, first_s, str(self.head), "1 missing-endpoint"
            )
        else:
            self.last[name][key] = LastRun(fingerprint(batch(key)), False, False, attempts, self.now_s, first_s)
            self.done[name][key] = fingerprint(batch(key))
            self.head += 1
            if name == "nodes":
                self.in_graph.add(key)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["tick", "tick and forget", "works", "dies", "outside commit", "wait"]),
        st.sampled_from(["nodes", "edges"]),
    ),
    max_size=25,
)


def play(world: World, steps: list[tuple[str, str]]) -> None:
    for what, name in steps:
        if what.startswith("tick"):
            world.tick(name, forgets=what.endswith("forget"))
        elif what == "outside commit":
            world.head += 1
        elif what == "wait":
            world.now_s += FIRST_PAUSE_S
        else:
            world.end(name, what)


@given(STEPS, st.booleans())
def test_from_every_history_both_sources_get_done_in_whatever_order_they_were_dropped(
    steps: list[tuple[str, str]], is_ordered: bool
) -> None:
    world = World(["a", "b"], ["a", "b"], is_ordered)
    play(world, steps)
    given_up = {f"{name}/{key}" for name in ("nodes", "edges") for key in ("a", "b")}
    for _ in range(40):
        for name in ("nodes", "edges"):
            world.tick(name)
            world.end(name, "works")
        world.now_s += pause(3)
        given_up = {
            f"{name}/{key}"
            for name, found in world.last.items()
            for key, last in found.items()
            if last.standing(world.now_s) in ("refused", "given up")
        }
    left = {f"{name}/{key}" for name in ("nodes", "edges") for key in ("a", "b") if key not in world.done[name]}
    assert left <= given_up, (left, world.said)
    if not any(what == "dies" for what, _ in steps) and is_ordered:
        assert left == set()
        assert len(world.offers) == 4, "in order, nothing is tried twice"


@given(STEPS)
def test_a_batch_whose_nodes_never_come_is_tried_in_bounds_and_only_after_the_head_has_moved(
    steps: list[tuple[str, str]],
) -> None:
    world = World([], ["lost"], is_ordered=False)
    heads: list[int] = []
    for what, name in [*steps, *[("tick", "edges"), ("works", "edges"), ("wait", "edges")] * 30]:
        before = len(world.offers)
        play(world, [(what, name)])
        heads += [world.head] * (len(world.offers) - before)
    assert len(heads) <= WAITING_ATTEMPTS_MAX + ATTEMPTS_MAX
    world.head += 1
    world.now_s += WAITING_S_MAX
    world.tick("edges")
    assert not world.running["edges"] and "refused (lost: 1 missing-endpoint)" in world.said["edges"]


def test_a_waiting_batch_is_offered_when_the_head_has_moved_and_not_before() -> None:
    world = World([], ["a", "b"], is_ordered=False)
    world.tick("edges")
    world.end("edges", "works")
    for _ in range(5):
        world.now_s += pause(2)
        world.tick("edges")
        assert world.offers == ["edges/a"]
        assert "1 waiting for what they refer to (a: 1 missing-endpoint); 1 waiting (b)" in world.said["edges"]
    world.head += 1
    world.tick("edges")
    assert world.offers == ["edges/a", "edges/a"]


def test_done_waiting_and_refused_are_told_apart_with_reasons() -> None:
    keys = [batch(key) for key in "abcde"]
    memory = decide(Tick(keys, {}, 0, is_serial=False, has_marker=True), fingerprint)
    last = {
        **run_of(keys[1], permanent=True, reason="3 range"),
        **run_of(keys[2], permanent=True, judged_at="7", reason="1,500 missing-endpoint"),
        **run_of(keys[3], failed=False, canceled=True),
    }
    tick = Tick(keys, memory.seen, 1, ("e",), last, has_marker=True, done={"a": fingerprint(keys[0])})
    said = decide(tick, fingerprint, lambda: "7").said
    assert said == (
        "5 batches, 1 done; 1 refused (b: 3 range); 1 waiting for what they refer to (c: 1,500 missing-endpoint); "
        "1 canceled (d); 1 under way (e)"
    )


def test_a_batch_of_which_every_record_was_deleted_is_offered_once_more() -> None:
    first = decide(Tick([A], {}, 0, has_marker=True, done={}), fingerprint)
    again = decide(Tick([A], first.seen, 9, has_marker=True, done={}), fingerprint)
    assert [one.run_key for one in again.offers] == ["a/a-v1:a2"]
