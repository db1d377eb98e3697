"""Random histories of branches on a real graph and on the reference model: writes, merges, undo, changes of the schema, upkeep."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import omnigraph as og
from omnigraph.testing.branching_model import Branching, Clash, Content, with_properties
from omnigraph.testing.model import SCHEMA, Model, Refused, _judge, dump_snapshot
from tests.state.test_graph_machine import KNOWS, PERSON, SEED

BRANCHES = ("main", "a", "b")
PATCHES = st.builds(
    lambda name, prop, value: {"type": "Person", "data": {"name": name, prop: value if prop == "age" else None}},
    st.sampled_from(["ann", "bob", "cat", "dan"]),
    st.sampled_from(["age", "age", "mail"]),
    st.sampled_from([1, 2, 3]),
)


class BranchMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="omnigraph-branches-"))
        self.graph = og.init(self.folder / "graph", SCHEMA, durability="relaxed")
        self.model = Branching()
        self.kept: set[str] = set()  # commits that no cleanup can have taken
        self.properties = 0
        empty = Model()
        empty.load(SEED, "append")
        self.model.commit("main", self.graph.snapshot().commit_id, Model().dump(), frozenset())
        self.model.commit("main", str(self.graph.load(SEED, mode="append").commit_id), empty.dump())
        self.kept.update(self.model.nodes)

    def teardown(self) -> None:
        self.graph.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def named(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.model.heads)))

    def ended(self, branch: str, commit_id: str | None, content: Content, *others: str, **more: Any) -> None:
        if commit_id is not None:
            self.model.commit(branch, commit_id, content, more.get("added"), *others)
            self.kept.add(commit_id)

    # --- branches -------------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.model.heads) < len(BRANCHES))
    @rule(data=st.data())
    def create(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(set(BRANCHES) - set(self.model.heads))))
        source = self.named(data)
        made = self.graph.branches.create(name, from_=source)
        assert made.head == self.model.heads[source]
        self.model.heads[name] = self.model.heads[source]

    @precondition(lambda self: len(self.model.heads) > 1)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(set(self.model.heads) - {"main"})))
        self.graph.branches.delete(name)
        del self.model.heads[name]

    # --- writes ---------------------------------------------------------------------------------------------------------

    @rule(
        data=st.data(),
        records=st.lists(st.one_of(PERSON, KNOWS), min_size=1, max_size=3),
        mode=st.sampled_from(["append", "merge", "merge"]),
    )
    def load(self, data: st.DataObject, records: list[Any], mode: str) -> None:
        branch = self.named(data)
        node = self.model.head(branch)
        model = Model(with_properties(node.content, ()))
        try:
            model.load(records, mode)
        except Refused:
            try:
                self.graph.load(records, mode=mode, branch=branch)
            except (og.errors.DataInvalid, og.errors.KeyConflict):
                return
            raise AssertionError(f"the model refuses {mode} of {records}") from None
        commit_id = self.graph.load(records, mode=mode, branch=branch).commit_id
        self.ended(branch, commit_id, with_properties(model.types, node.added))

    @rule(data=st.data(), record=PATCHES)
    def patch(self, data: st.DataObject, record: dict[str, Any]) -> None:
        branch = self.named(data)
        content = with_properties(self.model.head(branch).content, ())
        if record["data"]["name"] in content["Person"]:
            content["Person"][record["data"]["name"]] |= record["data"]
            self.ended(branch, self.graph.load([record], mode="patch", branch=branch).commit_id, content)

    @rule(data=st.data())
    def delete_a_row(self, data: st.DataObject) -> None:
        branch = self.named(data)
        content = with_properties(self.model.head(branch).content, ())
        name = data.draw(st.sampled_from(["ann", "bob", "cat", "dan"]))
        content["Person"].pop(name, None)
        for edges in ("Knows", "At"):
            content[edges] = {id_: row for id_, row in content[edges].items() if name not in (row["src"], row["dst"])}
        text = f'query q() {{ delete Person where name = "{name}" }}'
        self.ended(branch, self.graph.mutate(text, branch=branch).commit_id, content)

    @precondition(lambda self: self.properties < 3)
    @rule(data=st.data())
    def add_a_property(self, data: st.DataObject) -> None:
        branch = self.named(data)
        node = self.model.head(branch)
        self.properties += 1
        name = f"p{self.properties}"
        text = str(self.graph.schema.show(branch)).replace("mail: String?", f"mail: String? {name}: I32?")
        commit_id = self.graph.schema.apply(text, branch=branch).commit_id
        added = node.added | {name}
        content = with_properties(node.content, added)
        self.ended(branch, commit_id, content, added=added)
        record = {"type": "Person", "data": {"name": "ann", name: 7}}
        if "ann" in content["Person"]:
            content["Person"]["ann"][name] = 7
            self.ended(branch, self.graph.load([record], mode="patch", branch=branch).commit_id, content)

    # --- merges and undo ------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.model.heads) > 1)
    @rule(data=st.data())
    def merge(self, data: st.DataObject) -> None:
        source = self.named(data)
        into = data.draw(st.sampled_from(sorted(set(self.model.heads) - {source})))
        mine, theirs = self.model.head(into), self.model.head(source)
        bases = self.model.bases(mine.id, theirs.id)
        if len(bases) > 2:
            return  # the order in which more are folded is the engine's own
        added = mine.added | theirs.added
        try:
            content = with_properties(self.model.merge(source, into), added)
            _judge(content)
        except (Clash, Refused):
            if theirs.id in bases:
                raise AssertionError("there is nothing to merge") from None
            try:
                self.graph.branches.merge(source, into=into)
            except og.errors.MergeConflict:
                return
            except og.errors.Reclaimed:
                assert not set(bases) <= self.kept
                return
            raise AssertionError(f"the model refuses to merge {source} into {into}") from None
        try:
            receipt = self.graph.branches.merge(source, into=into)
        except og.errors.Reclaimed:
            assert not set(bases) <= self.kept
            return
        assert (receipt.outcome == "up_to_date") == (theirs.id in bases)
        assert (receipt.outcome == "fast_forward") == (mine.id in bases and theirs.id not in bases)
        self.ended(into, receipt.commit_id, content, theirs.id, added=added)

    @rule(data=st.data())
    def revert(self, data: st.DataObject) -> None:
        branch = self.named(data)
        known = sorted(one for one in self.model.ancestors(self.model.heads[branch]) if self.model.nodes[one].parents)
        commit_id = data.draw(st.sampled_from(known))
        node = self.model.nodes[commit_id]
        if node.added != self.model.nodes[node.parents[0]].added:
            return
        added = self.model.head(branch).added
        try:
            content = with_properties(self.model.undo(commit_id, branch), added)
            _judge(content)
            expected: type[Exception] | None = None
        except (Clash, Refused):
            expected = og.errors.MergeConflict
        try:
            receipt = self.graph.revert(commit_id, branch)
        except og.errors.MergeConflict:
            assert expected is og.errors.MergeConflict, (commit_id, branch)
            return
        except og.errors.Reclaimed:
            assert commit_id not in self.kept or node.parents[0] not in self.kept
            return
        assert expected is None, f"the model refuses to take {commit_id} back"
        changed = content != self.model.head(branch).content
        assert (receipt.commit_id is not None) == changed, (receipt, self.graph.commit(commit_id))
        self.ended(branch, receipt.commit_id, content)

    # --- upkeep ---------------------------------------------------------------------------------------------------------

    @rule(data=st.data(), settle=st.sampled_from([None, True]))
    def optimize(self, data: st.DataObject, settle: bool | None) -> None:
        """Adds commits of its own, which change nothing and which the model does not know."""
        branch = self.named(data)
        content, added = self.model.head(branch).content, self.model.head(branch).added
        for commit_id in self.graph.optimize(branches=[branch], settle=settle).commits:
            self.ended(branch, commit_id, content, added=added)

    @rule()
    def cleanup(self) -> None:
        """What the next merge with main begins from stays."""
        self.graph.cleanup(keep=1, min_age="0s", confirm=True)
        heads = [self.model.heads[name] for name in self.model.heads]
        self.kept = set(heads)
        for head in heads:
            self.kept.update(self.model.bases(head, self.model.heads["main"]))

    # --- always ---------------------------------------------------------------------------------------------------------

    @invariant()
    def every_branch_holds_what_the_model_holds(self) -> None:
        with og.open(self.folder / "graph", read_only=True) as cold:
            for name, head in self.model.heads.items():
                for graph in (self.graph, cold):
                    snapshot = graph.snapshot(name)
                    assert snapshot.commit_id == head, name
                    assert dump_snapshot(snapshot) == self.model.nodes[head].content, name

    @invariant()
    def the_graph_is_sound(self) -> None:
        report = self.graph.verify()
        assert report.ok, report.problems


BranchMachine.TestCase.settings = settings(max_examples=8, stateful_step_count=12, deadline=None)
TestBranchMachine = BranchMachine.TestCase
