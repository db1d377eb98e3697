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
from omnigraph.testing.branching_model import Branching, Clash, Content, Node, Shape, lifted, shown
from omnigraph.testing.model import SCHEMA, Model, Refused, _judge
from tests.state.test_graph_machine import KNOWS, PERSON, SEED

BRANCHES = ("main", "a", "b")
PATCHES = st.builds(
    lambda name, prop, value: {"type": "Person", "data": {"name": name, prop: value if prop == "age" else None}},
    st.sampled_from(["ann", "bob", "cat", "dan"]),
    st.sampled_from(["age", "age", "mail"]),
    st.sampled_from([1, 2, 3]),
)


MADE = st.sampled_from([1, 2, 3])
CHANGES_MAX = 5  # of the schema


def dump(snapshot: Any) -> Content:
    return {
        one.name: {row["id"]: row for row in snapshot.to_arrow(one.name).to_pylist()}
        for one in snapshot.catalog.types()
    }


def replayed(content: Content, changes: Any) -> Content:
    """Content after the changes of a feed, by names."""
    found = {name: dict(rows) for name, rows in content.items()}
    for change in changes:
        assert change.kind != "schema"
        if change.kind == "delete":
            del found[change.type][change.key]
        else:
            assert (change.key in found[change.type]) == (change.kind == "update")
            found[change.type][change.key] = change.row
    return found


class BranchMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="omnigraph-branches-"))
        self.graph = og.init(self.folder / "graph", SCHEMA, durability="relaxed")
        self.model = Branching()
        # Commits that no cleanup can have taken, and those that merges begin from. Of the latter a cleanup keeps the state, which may
        # be that of a later version of the line: as places they can be gone.
        self.retained: set[str] = set()
        self.kept: set[str] = set()
        self.changes = 0  # of the schema
        empty = Model()
        empty.load(SEED, "append")
        self.ended("main", self.graph.snapshot().commit_id, Model().dump(), shape=Shape())
        self.ended("main", str(self.graph.load(SEED, mode="append").commit_id), empty.dump())
        self.retained.update(self.model.nodes)
        self.kept.update(self.model.nodes)

    def teardown(self) -> None:
        self.graph.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def named(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.model.heads)))

    def ended(
        self, branch: str, commit_id: str | None, content: Content, *others: str, shape: Shape | None = None
    ) -> None:
        if commit_id is not None:
            schema_id = self.graph._engine.latest(branch).state.schema.id
            self.model.commit(branch, commit_id, content, shape, *others, schema_id=schema_id)
            self.retained.add(commit_id)
            self.kept.add(commit_id)

    def copied(self, branch: str) -> tuple[Node, Content]:
        node = self.model.head(branch)
        return node, lifted(node.content, node.shape)

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
        node, content = self.copied(branch)
        model = Model(content)
        try:
            model.load(records, mode)
        except Refused:
            try:
                self.graph.load(records, mode=mode, branch=branch)
            except (og.errors.DataInvalid, og.errors.KeyConflict):
                return
            raise AssertionError(f"the model refuses {mode} of {records}") from None
        commit_id = self.graph.load(records, mode=mode, branch=branch).commit_id
        self.ended(branch, commit_id, lifted(model.types, node.shape))

    @rule(data=st.data(), record=PATCHES)
    def patch(self, data: st.DataObject, record: dict[str, Any]) -> None:
        branch = self.named(data)
        _, content = self.copied(branch)
        if record["data"]["name"] in content["Person"]:
            content["Person"][record["data"]["name"]] |= record["data"]
            self.ended(branch, self.graph.load([record], mode="patch", branch=branch).commit_id, content)

    @rule(data=st.data())
    def delete_a_row(self, data: st.DataObject) -> None:
        branch = self.named(data)
        _, content = self.copied(branch)
        name = data.draw(st.sampled_from(["ann", "bob", "cat", "dan"]))
        content["Person"].pop(name, None)
        for edges in ("Knows", "At"):
            content[edges] = {id_: row for id_, row in content[edges].items() if name not in (row["src"], row["dst"])}
        text = f'query q() {{ delete Person where name = "{name}" }}'
        self.ended(branch, self.graph.mutate(text, branch=branch).commit_id, content)

    # --- schemas --------------------------------------------------------------------------------------------------------

    def applied(self, branch: str, old: str, new: str, shape: Shape) -> None:
        """Apply a text that differs in one place."""
        text = str(self.graph.schema.show(branch))
        assert text.count(old) >= 1, (old, text)
        node = self.model.head(branch)
        commit_id = self.graph.schema.apply(text.replace(old, new, 1), branch=branch).commit_id
        self.changes += 1
        self.ended(branch, commit_id, lifted(node.content, shape), shape=shape)

    def extra(self, data: st.DataObject, branch: str, *, of: str) -> str | None:
        """One of the properties or types that were added; None where there are none."""
        shape = self.model.head(branch).shape
        known = sorted(shape.types if of == "types" else shape.props.keys() - {"age"})
        return data.draw(st.sampled_from(known)) if known else None

    def declared(self, branch: str, known: str) -> str:
        """A property as the text of the schema has it."""
        text, name = str(self.graph.schema.show(branch)), self.model.head(branch).shape.props[known][0]
        kind = next(one for one in ("I32?", "I64?") if f"{name}: {one}" in text)
        rest = text[text.index(f"{name}: {kind}") + len(f"{name}: {kind}") :]
        mark = rest[: rest.index(")") + 1] if rest.lstrip().startswith("@rename_from") else ""
        return f"{name}: {kind}{mark}"

    @precondition(lambda self: self.changes < CHANGES_MAX)
    @rule(data=st.data(), value=MADE)
    def add_a_property(self, data: st.DataObject, value: int) -> None:
        branch = self.named(data)
        node = self.model.head(branch)
        name = f"p{self.changes}"
        props = {**node.shape.props, name: (name, "I32")}
        self.applied(branch, "mail: String?", f"{name}: I32? mail: String?", Shape(props, node.shape.types))
        self.give(branch, "ann", name, value)

    def give(self, branch: str, person: str, known: str, value: int) -> None:
        node, content = self.copied(branch)
        if person in content["Person"]:
            content["Person"][person][known] = value
            record = {"type": "Person", "data": {"name": person, node.shape.props[known][0]: value}}
            self.ended(branch, self.graph.load([record], mode="patch", branch=branch).commit_id, content)

    @rule(data=st.data(), value=MADE, person=st.sampled_from(["ann", "bob"]))
    def set_an_added_property(self, data: st.DataObject, value: int, person: str) -> None:
        branch = self.named(data)
        known = self.extra(data, branch, of="props")
        if known is not None:
            self.give(branch, person, known, value)

    @precondition(lambda self: self.changes < CHANGES_MAX)
    @rule(data=st.data(), what=st.sampled_from(["drop", "rename", "widen", "widen age"]))
    def change_a_property(self, data: st.DataObject, what: str) -> None:
        branch = self.named(data)
        known = "age" if what == "widen age" else self.extra(data, branch, of="props")
        node = self.model.head(branch)
        if known is None:
            return
        old, (name, kind), props = self.declared(branch, known), node.shape.props[known], dict(node.shape.props)
        if what == "drop":
            del props[known]
            new = ""
        elif what == "rename":
            renamed = f"{known}n{self.changes}"
            props[known] = renamed, kind
            new = f'{renamed}: {kind}? @rename_from("{name}")'
        else:
            props[known] = name, "I64"
            new = f"{name}: I64?"
        if props != node.shape.props:
            self.applied(branch, old, new, Shape(props, node.shape.types))

    @precondition(lambda self: self.changes < CHANGES_MAX)
    @rule(data=st.data(), what=st.sampled_from(["add", "add", "drop", "rename"]))
    def change_a_type(self, data: st.DataObject, what: str) -> None:
        branch = self.named(data)
        node = self.model.head(branch)
        types, text = dict(node.shape.types), str(self.graph.schema.show(branch))
        known = f"X{self.changes}" if what == "add" else self.extra(data, branch, of="types")
        if known is None:
            return
        if what == "add":
            types[known] = known
            old, new = "edge Knows", f"node {known} {{ name: String @key v: I32? }}\nedge Knows"
        else:
            start = text.index(f"node {types[known]} ")
            old = text[start : text.index("}", start) + 1]
            name = f"{known}n{self.changes}"
            mark = f'node {name} @rename_from("{types.pop(known)}") {{ name: String @key v: I32? }}'
            new = "" if what == "drop" else mark
            if what == "rename":
                types[known] = name
        self.applied(branch, old, new, Shape(node.shape.props, types))

    @rule(data=st.data(), value=MADE, key=st.sampled_from("xy"))
    def load_an_added_type(self, data: st.DataObject, value: int, key: str) -> None:
        branch = self.named(data)
        known = self.extra(data, branch, of="types")
        if known is not None:
            node, content = self.copied(branch)
            content[known][key] = {"id": key, "name": key, "v": value}
            record = {"type": node.shape.types[known], "data": {"name": key, "v": value}}
            self.ended(branch, self.graph.load([record], mode="merge", branch=branch).commit_id, content)

    # --- merges and undo ------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.model.heads) > 1)
    @rule(data=st.data())
    def merge(self, data: st.DataObject) -> None:
        source = self.named(data)
        into = data.draw(st.sampled_from(sorted(set(self.model.heads) - {source})))
        mine, theirs = self.model.head(into), self.model.head(source)
        bases = self.model.bases(mine.id, theirs.id)
        if len(bases) > 2 or self.model.base_shape(bases) is None:
            return  # the order in which more are folded is the engine's own
        try:
            content, shape = self.model.merge(source, into)
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
        self.ended(into, receipt.commit_id, content, theirs.id, shape=shape)

    @rule(data=st.data())
    def revert(self, data: st.DataObject) -> None:
        branch = self.named(data)
        known = sorted(one for one in self.model.ancestors(self.model.heads[branch]) if self.model.nodes[one].parents)
        commit_id = data.draw(st.sampled_from(known))
        node = self.model.nodes[commit_id]
        changes_schema = node.schema_id != self.model.nodes[node.parents[0]].schema_id
        content: Content = {}
        try:
            content = self.model.undo(commit_id, branch)
            _judge(content)
            expected: type[Exception] | None = og.errors.Refused if changes_schema else None
        except (Clash, Refused):
            expected = og.errors.Refused if changes_schema else og.errors.MergeConflict
        try:
            receipt = self.graph.revert(commit_id, branch)
        except og.errors.Refused as error:
            assert expected is og.errors.Refused and error.reason == "schema-differs"
            return
        except og.errors.MergeConflict:
            assert expected is og.errors.MergeConflict, (commit_id, branch)
            return
        except og.errors.Reclaimed:
            assert not {commit_id, node.parents[0]} <= self.retained
            return
        assert expected is None, f"the model refuses to take {commit_id} back"
        changed = content != self.model.head(branch).content
        assert (receipt.commit_id is not None) == changed, (receipt, self.graph.commit(commit_id))
        self.ended(branch, receipt.commit_id, content)

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        branch = self.named(data)
        head, at = self.model.head(branch), data.draw(st.sampled_from(self.model.line(branch)))
        old = self.model.nodes[at]
        try:
            receipt = self.graph.restore(at, branch)
        except og.errors.Refused as error:
            assert error.reason == "schema-differs" and old.schema_id != head.schema_id
            return
        except og.errors.Reclaimed:
            assert at not in self.retained
            return
        assert old.schema_id == head.schema_id
        assert (receipt.commit_id is not None) == (old.content != head.content)
        self.ended(branch, receipt.commit_id, old.content)

    # --- what changed ---------------------------------------------------------------------------------------------------

    @rule(data=st.data())
    def diff(self, data: st.DataObject) -> None:
        """Between any two commits, whatever lies between them."""
        kept = sorted(self.kept)
        a, b = (self.model.nodes[data.draw(st.sampled_from(kept))] for _ in range(2))
        try:
            found = {(row.type, row.key): row.kind for row in self.graph.diff(a.id, b.id)}
        except og.errors.Reclaimed:
            assert not {a.id, b.id} <= self.retained
            return
        was, now = (lifted(one.content, b.shape) for one in (a, b))
        names = lambda known, node: node.shape.types.get(known, known)  # noqa: E731
        wanted = {}
        for known in {*a.content, *b.content}:
            one, other = was.get(known, a.content.get(known, {})), now.get(known, {})
            name = names(known, b if known in b.content else a)
            wanted |= {(name, id_): "delete" for id_ in one.keys() - other.keys()}
            wanted |= {(name, id_): "insert" for id_ in other.keys() - one.keys()}
            wanted |= {(name, id_): "update" for id_ in one.keys() & other.keys() if one[id_] != other[id_]}
        assert found == wanted, (a.id, b.id)

    @rule(data=st.data())
    def feed(self, data: st.DataObject) -> None:
        """Where the schema stays, what the feed says leads from one commit of a branch to its head."""
        branch = self.named(data)
        line = self.model.line(branch)
        since = data.draw(st.sampled_from(line))
        way = [self.model.nodes[one] for one in line[: line.index(since) + 1]]
        if len({one.schema_id for one in way}) > 1:
            return
        try:
            found = list(self.graph.changes(since, branch=branch))
        except og.errors.Reclaimed:
            assert not {one.id for one in way} <= self.retained
            return
        content = shown(way[-1].content, way[-1].shape)
        assert replayed(content, found) == shown(way[0].content, way[0].shape)

    # --- upkeep ---------------------------------------------------------------------------------------------------------

    @rule(data=st.data(), settle=st.sampled_from([None, True]))
    def optimize(self, data: st.DataObject, settle: bool | None) -> None:
        """Adds commits of its own, which change nothing and which the model does not know."""
        branch = self.named(data)
        content = self.model.head(branch).content
        for commit_id in self.graph.optimize(branches=[branch], settle=settle).commits:
            self.ended(branch, commit_id, content)

    @rule()
    def cleanup(self) -> None:
        """What the next merge with main begins from stays."""
        self.graph.cleanup(keep=1, min_age="0s", confirm=True)
        heads = [self.model.heads[name] for name in self.model.heads]
        self.retained, self.kept = set(heads), set(heads)
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
                    node = self.model.nodes[head]
                    assert dump(snapshot) == shown(node.content, node.shape), name

    @invariant()
    def the_graph_is_sound(self) -> None:
        report = self.graph.verify()
        assert report.ok, report.problems


BranchMachine.TestCase.settings = settings(max_examples=8, stateful_step_count=12, deadline=None)
TestBranchMachine = BranchMachine.TestCase
