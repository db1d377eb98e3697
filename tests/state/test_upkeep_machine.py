"""Random histories of writes, upkeep, checkpoints and cleanups: whatever is retained opens as it was, the rest is reclaimed."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

import omnigraph as og
from omnigraph.manifest import state as manifest_state

SCHEMA = "node Person { name: String @key age: I32? @index }\nedge Knows: Person -> Person { since: I32? }\n"
NAMES = st.sampled_from(["ann", "bob", "cat", "dan", "eve"])

pytestmark = [pytest.mark.state, pytest.mark.timeout(600)]

Content = dict[str, Any]


class UpkeepMachine(RuleBasedStateMachine):
    """The model is a list of commits with their content, and the index of the oldest that must still open."""

    checkpoints = Bundle("checkpoints")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="omnigraph-upkeep-"))
        self.before = manifest_state.TAIL_ROLL, manifest_state.TAIL_KEEP
        # Archives within a few commits, so that their merging and what is read from them are part of the histories.
        manifest_state.TAIL_ROLL, manifest_state.TAIL_KEEP = 8, 4
        self.graph = og.init(self.folder / "graph", SCHEMA)
        self.people: Content = {}
        self.history: list[tuple[str, Content]] = [(self.graph.snapshot().commit_id, {})]
        self.floor = 0
        self.pinned: dict[str, int] = {}
        self.serial = itertools.count()

    def teardown(self) -> None:
        try:
            assert self.graph.verify(deep=True).ok
            assert [commit.id for commit in self.graph.commits()] == [one for one, _ in reversed(self.history)]
        finally:
            manifest_state.TAIL_ROLL, manifest_state.TAIL_KEEP = self.before
            self.graph.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _note(self, *commit_ids: str | None) -> None:
        self.history += [(one, dict(self.people)) for one in commit_ids if one is not None]

    @rule(people=st.dictionaries(NAMES, st.integers(0, 9), min_size=1))
    def load(self, people: dict[str, int]) -> None:
        records = [{"type": "Person", "data": {"name": name, "age": age}} for name, age in people.items()]
        receipt = self.graph.load(records, mode="merge")
        self.people.update(people)
        self._note(receipt.commit_id)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        receipt = self.graph.mutate("query q($n: String) { delete Person where name = $n }", params={"n": name})
        self.people.pop(name, None)
        self._note(receipt.commit_id)

    @rule()
    def optimize(self) -> None:
        report = self.graph.optimize()
        assert report.skipped == ()
        self._note(*report.commits)
        assert not self.graph.optimize().changed

    @rule()
    def compact_manifest(self) -> None:
        self.graph.compact_manifest()
        assert self.graph.probe("manifest_fragments") <= 1

    @rule(target=checkpoints, back=st.integers(0, 5))
    def pin(self, back: int) -> Any:
        index = max(self.floor, len(self.history) - 1 - back)
        name = f"c{next(self.serial)}"
        self.graph.checkpoints.create(name, at=self.history[index][0])
        self.pinned[name] = index
        return multiple(name)

    @rule(name=consumes(checkpoints))
    def unpin(self, name: str) -> None:
        self.graph.checkpoints.delete(name)
        del self.pinned[name]

    @rule(keep=st.integers(1, 4))
    def cleanup(self, keep: int) -> None:
        self.graph.cleanup(keep=keep, min_age="0s", confirm=True)
        self.floor = max(self.floor, len(self.history) - keep)

    @rule()
    def reopen(self) -> None:
        self.graph.close()
        self.graph = og.open(self.folder / "graph")

    @invariant()
    def what_is_retained_opens_as_it_was(self) -> None:
        must = {*range(self.floor, len(self.history)), *self.pinned.values()}
        for index, (commit_id, content) in enumerate(self.history):
            try:
                rows = self.graph.snapshot(at=commit_id).to_arrow("Person")
            except og.errors.Reclaimed:
                assert index not in must, f"commit {index} of {len(self.history)} is retained and was reclaimed"
                continue
            assert dict(zip(rows["name"].to_pylist(), rows["age"].to_pylist(), strict=True)) == content
        assert {one.name for one in self.graph.checkpoints.list()} == set(self.pinned)


TestUpkeepMachine = UpkeepMachine.TestCase
TestUpkeepMachine.settings = settings(max_examples=6, stateful_step_count=20, deadline=None)


@pytest.mark.long
class TestUpkeepMachineForLong(UpkeepMachine.TestCase):
    settings = settings(max_examples=300, stateful_step_count=60, deadline=None)
