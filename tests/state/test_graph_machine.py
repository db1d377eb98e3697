"""Random histories on a real graph and on the reference model: the same answers, the same content, after every step."""

from __future__ import annotations

import itertools
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
from omnigraph.testing.model import EDGES, NODES, SCHEMA, Model, Refused, dump_snapshot
from omnigraph.testing.mutation_histories import as_query
from omnigraph.testing.mutation_reference import Delete, Insert, ReferenceGraph, Statement, Update, Where
from omnigraph.testing.mutation_reference import Refused as MutationRefused

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
OPS = st.sampled_from(["=", "=", "!=", "<", ">="])
BY_NAME = st.builds(Where, st.just("name"), OPS, NAMES)
BY_AGE = st.builds(Where, st.just("age"), OPS, AGES)
PERSON_WRITES: st.SearchStrategy[Statement] = st.one_of(
    st.builds(lambda n, a, m: Insert("Person", {"name": n, "age": a, "mail": m}), NAMES, AGES, MAILS),
    st.builds(lambda a, w: Update("Person", {"age": a}, w), AGES, st.one_of(BY_NAME, BY_AGE)),
    st.builds(lambda m, w: Update("Person", {"mail": m}, w), MAILS, BY_NAME),
)
OTHER_WRITES: st.SearchStrategy[Statement] = st.one_of(
    st.builds(lambda t: Insert("Place", {"title": t}), st.sampled_from("xy")),
    st.builds(
        lambda t, u: Update("Place", {"title": t}, Where("title", "=", u)), st.sampled_from("xy"), st.sampled_from("xy")
    ),
    st.builds(
        lambda a, b, w: Insert("Knows", {"from": a, "to": b, "weight": w}), NAMES, NAMES, st.sampled_from([None, 1.0])
    ),
    st.builds(lambda a, b: Insert("At", {"from": a, "to": b}), NAMES, PLACES),
)
DELETES: st.SearchStrategy[Statement] = st.one_of(
    st.builds(lambda w: Delete("Person", w), st.one_of(BY_NAME, BY_AGE)),
    st.builds(lambda n: Delete("Knows", Where("from", "=", n)), NAMES),
    st.builds(lambda p: Delete("At", Where("to", "=", p)), PLACES),
    st.builds(lambda t: Delete("Place", Where("title", "=", t)), st.sampled_from("xy")),
)
WRITES = st.lists(st.one_of(PERSON_WRITES, OTHER_WRITES), min_size=1, max_size=4)
MUTATIONS = st.one_of(WRITES, WRITES, st.lists(DELETES, min_size=1, max_size=2))
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

    @rule(statements=MUTATIONS, first=st.booleans(), rng=st.randoms(use_true_random=False))
    def mutate(self, statements: list[Statement], first: bool, rng: Any) -> None:
        graph = self.graph if first else self.other
        query = as_query(graph.catalog, rng, statements)
        before = graph.snapshot().commit_id
        reference = ReferenceGraph(graph.catalog)
        reference.rows = {key: _without_ids(rows) for key, rows in _by_key(self.model.dump()).items()}
        try:
            answer = reference.run(query.statements)
        except MutationRefused:
            try:
                graph.mutate(query.text, params=query.params)
            except (og.errors.DataInvalid, og.errors.QueryInvalid):
                assert graph.snapshot().commit_id == before
                return
            raise AssertionError(f"the model refuses {query}") from None
        receipt = graph.mutate(query.text, params=query.params)
        assert (receipt.commit_id is not None) == answer.changed, (query, receipt)
        assert (receipt.affected_nodes, receipt.affected_edges) == (answer.nodes, answer.edges), (query, receipt)
        self.model.types = _with_ids(reference.rows, dump_snapshot(graph.snapshot()), self.model.types)
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
        for newer, older in itertools.pairwise(commits):
            assert tuple(newer.parents) == (older.id,)


def _by_key(types: dict[str, Any]) -> dict[str, Any]:
    return {f"{'node' if name in NODES else 'edge'}:{name}": types[name] for name in (*NODES, *EDGES)}


def _without_ids(rows: dict[str, Any]) -> dict[str, Any]:
    return {id_: {name: value for name, value in row.items() if name != "id"} for id_, row in rows.items()}


def _with_ids(rows: dict[str, Any], real: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """The reference's rows under the ids that the graph minted: both mint in the order of the statements."""
    found: dict[str, Any] = {}
    for key, mine in rows.items():
        name = key.partition(":")[2]
        minted = sorted((id_ for id_ in mine if id_.startswith("minted ")), key=lambda id_: int(id_.split()[1]))
        new = sorted(real[name].keys() - before[name].keys() - mine.keys())
        assert len(new) == len(minted), (name, new, minted)
        names = dict(zip(minted, new, strict=True))
        found[name] = {names.get(id_, id_): {"id": names.get(id_, id_), **row} for id_, row in mine.items()}
    return found


GraphMachine.TestCase.settings = settings(max_examples=8, stateful_step_count=12, deadline=None)
TestGraphMachine = GraphMachine.TestCase
