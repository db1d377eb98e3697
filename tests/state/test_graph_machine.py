"""Random histories on a real graph and on the reference model: the same answers, the same content, after every step."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import omnigraph as og
from omnigraph.commit.engine import MAIN
from omnigraph.core.meter import Meter
from omnigraph.testing.model import SCHEMA, Model, Refused, dump_snapshot

NAMES = st.sampled_from(["ann", "bob", "cat", "dan"])
PLACES = st.sampled_from(["p1", "p2"])
EDGE_IDS = st.sampled_from([f"e{n}" for n in range(5)])
MAILS = st.sampled_from([None, None, "m1", "m2"])
AGES = st.sampled_from([None, 1, 100, 101])

PERSON = st.builds(
    lambda name, age, mail: {"type": "Person", "data": {"name": name, "age": age, "mail": mail}}, NAMES, AGES, MAILS
)
PLACE = st.builds(
    lambda id, title: {"type": "Place", "data": {"id": id, "title": title}}, PLACES, st.sampled_from("xy")
)
KNOWS = st.builds(
    lambda id, a, b, w: {"edge": "Knows", "from": a, "to": b, "data": {"id": id, "weight": w}},
    EDGE_IDS,
    NAMES,
    NAMES,
    st.sampled_from([None, 0.5, 1.0]),
)
AT = st.builds(lambda id, a, b: {"edge": "At", "from": a, "to": b, "data": {"id": id}}, EDGE_IDS, NAMES, PLACES)
RECORDS = st.lists(st.one_of(PERSON, PLACE, KNOWS, AT), min_size=1, max_size=6)
# Mostly nodes first, so that histories get somewhere.
SEED = [
    *({"type": "Person", "data": {"name": name}} for name in ("ann", "bob", "cat")),
    {"type": "Place", "data": {"id": "p1", "title": "x"}},
]


class GraphMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="omnigraph-machine-"))
        self.model = Model()
        self.graph = og.init(self.folder / "graph", SCHEMA)
        self.other = og.open(self.folder / "graph")
        self.commits = 1
        self.at: dict[str, Any] = {}
        self.load(SEED, "append", first=True)

    def teardown(self) -> None:
        self.graph.close()
        self.other.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @rule(records=RECORDS, mode=st.sampled_from(["append", "merge", "merge", "overwrite"]), first=st.booleans())
    def load(self, records: list[Any], mode: str, first: bool) -> None:
        graph = self.graph if first else self.other
        before = graph.snapshot().commit_id
        try:
            changed = self.model.load(records, mode)
        except Refused:
            try:
                graph.load(records, mode=mode)
            except (og.errors.DataInvalid, og.errors.KeyConflict):
                assert graph.snapshot().commit_id == before
                return
            raise AssertionError(f"the model refuses {mode} of {records}") from None
        receipt = graph.load(records, mode=mode)
        assert (receipt.commit_id is not None) == changed, (records, mode, receipt)
        if receipt.commit_id is not None:
            self.commits += 1
            self.at[receipt.commit_id] = self.model.dump()

    @rule()
    def reopen(self) -> None:
        self.other.close()
        self.other = og.open(self.folder / "graph")

    @precondition(lambda self: len(self.at) > 1)
    @rule(data=st.data())
    def look_back(self, data: st.DataObject) -> None:
        commit_id = data.draw(st.sampled_from(sorted(self.at)))
        assert dump_snapshot(self.other.snapshot(at=commit_id)) == self.at[commit_id]

    @invariant()
    def both_handles_hold_what_the_model_holds(self) -> None:
        expected = self.model.dump()
        assert dump_snapshot(self.graph.snapshot()) == expected
        assert dump_snapshot(self.other.snapshot()) == expected

    @invariant()
    def the_live_state_equals_a_cold_one(self) -> None:
        live = self.graph._engine.known(MAIN)
        assert live is not None
        with og.open(self.folder / "graph", read_only=True) as cold:
            assert cold._engine.latest(MAIN, Meter()).state == live.state

    @invariant()
    def the_history_is_one_line(self) -> None:
        commits = self.graph.commits()
        assert len(commits) == self.commits
        for newer, older in zip(commits, commits[1:], strict=False):
            assert tuple(newer.parents) == (older.id,)


GraphMachine.TestCase.settings = settings(max_examples=8, stateful_step_count=12, deadline=None)
TestGraphMachine = GraphMachine.TestCase
