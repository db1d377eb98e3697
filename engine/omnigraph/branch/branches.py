"""``graph.branches``: create, list and delete the branches of one graph."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Literal, overload

from omnigraph.branch.create import create_branch
from omnigraph.branch.delete import delete_branch
from omnigraph.commit.engine import MAIN, Engine, gather
from omnigraph.commit.gate import entering
from omnigraph.commit.plan import BranchName
from omnigraph.core.errors import NotFound
from omnigraph.core.kinds import methods_checked
from omnigraph.core.meter import Meter
from omnigraph.core.shown import html_or_text
from omnigraph.manifest.refs import NameEntry
from omnigraph.manifest.rows import Parent
from omnigraph.manifest.swap import Held
from omnigraph.options import CommitOptions, check_actor, check_text
from omnigraph.read.place_names import At
from omnigraph.wire.branches import BranchInfo, BranchList, BranchParent

if TYPE_CHECKING:
    from omnigraph.wire.merge import MergePlan, MergeReceipt

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@methods_checked
class Branches:
    """The branches of one graph."""

    def __init__(self, engine: Engine, actor: str | None = None) -> None:
        self._engine = engine
        self._actor = actor

    def __repr__(self) -> str:
        return f"<Branches of {self._engine.uri}>"

    def _repr_html_(self) -> str:
        return html_or_text(self, lambda: self.list()._repr_html_())

    def create(
        self,
        name: str,
        from_: str = MAIN,
        at: At | None = None,
        *,
        expect_head: str | None = None,
        actor: str | None = None,
        deadline_s: float = 60,
    ) -> BranchInfo:
        """Make a branch from the head of another one, or from the place ``at``: no table is copied. ``expect_head``: make
        it only while that is the head of ``from_``."""
        who = check_actor(actor, self._actor)
        options = CommitOptions(branch=from_, actor=who, expect_head=expect_head, deadline_s=deadline_s)
        meter = Meter()
        with entering(self._engine, "branches.create", writes=True):
            entry, held = create_branch(self._engine, name, at=at, options=options, meter=meter)
        parent = held.state.head.parent
        assert parent is not None
        return _info(entry, held, BranchParent(from_, parent.identity, parent.commit), meter)

    def list(self, heads: bool = False) -> BranchList:
        """The branches, main first, then by name. ``heads``: open each, for its newest commit and what it was made from; one
        whose deletion was interrupted before its name was freed is left out then."""
        with entering(self._engine, "branches.list"):
            return list_branches(self._engine, heads=heads)

    def delete(
        self, name: str, *, expect_head: str | None = None, actor: str | None = None, deadline_s: float = 60
    ) -> BranchInfo:
        """Delete a branch: from now on nothing is written to it, and its name is free. ``expect_head``: only while that is its
        head. What only it needs is deleted by the next cleanup."""
        who = check_actor(actor, self._actor)
        options = CommitOptions(branch=name, actor=who, expect_head=expect_head, deadline_s=deadline_s)
        meter = Meter()
        with entering(self._engine, "branches.delete", writes=True):
            entry, held = delete_branch(self._engine, options, meter)
        return _info(entry, held, _parent(held.state.head.parent, {}), meter)

    @overload
    def merge(
        self,
        source: str,
        into: str = MAIN,
        at: At | None = None,
        *,
        strict_rows: bool = False,
        allow_data_loss: bool = False,
        expect_head: str | None = None,
        idempotency_key: str | None = None,
        delete_source: bool = False,
        dry_run: Literal[False] = False,
        actor: str | None = None,
        deadline_s: float = 60,
    ) -> MergeReceipt: ...

    @overload
    def merge(
        self,
        source: str,
        into: str = MAIN,
        at: At | None = None,
        *,
        strict_rows: bool = False,
        allow_data_loss: bool = False,
        expect_head: str | None = None,
        idempotency_key: str | None = None,
        delete_source: bool = False,
        dry_run: Literal[True],
        actor: str | None = None,
        deadline_s: float = 60,
    ) -> MergePlan: ...

    def merge(
        self,
        source: str,
        into: str = MAIN,
        at: At | None = None,
        *,
        strict_rows: bool = False,
        allow_data_loss: bool = False,
        expect_head: str | None = None,
        idempotency_key: str | None = None,
        delete_source: bool = False,
        dry_run: bool = False,
        actor: str | None = None,
        deadline_s: float = 60,
    ) -> MergeReceipt | MergePlan:
        """Do to the branch ``into`` what was done to ``source`` since they parted, as one commit. What both sides changed
        differently is a ``MergeConflict``, with all of it. ``strict_rows``: also where they changed different properties of a
        row; ``allow_data_loss``: leave out what one side changed of what the other dropped; ``delete_source``: delete the source afterwards; ``dry_run`` returns the plan and writes nothing."""
        from omnigraph.branch.merge import MergeOptions, merge_branches, plan_merge

        options = MergeOptions(
            source=check_text("source", source),
            at=at,
            strict_rows=strict_rows,
            allow_data_loss=allow_data_loss,
            delete_source=delete_source,
            branch=into,
            actor=check_actor(actor, self._actor),
            expect_head=expect_head,
            idempotency_key=idempotency_key,
            deadline_s=deadline_s,
        )
        if dry_run:
            with entering(self._engine, "branches.merge"):
                return plan_merge(self._engine, options)
        with entering(self._engine, "branches.merge", writes=True) as doing:
            receipt = merge_branches(self._engine, options)
            doing.facts |= {"commit_id": receipt.commit_id, "branch": receipt.branch, "replayed": receipt.replayed}
            return receipt


def list_branches(engine: Engine, *, heads: bool = False, meter: Meter | None = None) -> BranchList:
    meter = meter or Meter()
    main = engine.latest(MAIN, meter)
    listed = engine.names.listed(meter)
    entries = gather([engine.spawn(engine.names.of, name_key, number, meter) for name_key, number in listed])
    bound = sorted((entry for entry in entries if entry is not None and entry.state == "bound"), key=lambda e: e.name)
    found = BranchList([BranchInfo(MAIN, main.state.identity, head=main.state.head.commit_id if heads else None)])
    if not heads:
        found.extend(_info(entry, None, None, None) for entry in bound)
        return found
    opened = gather([engine.spawn(_opened, engine, entry, meter) for entry in bound])
    names = {entry.identity: entry.name for entry in bound} | {main.state.identity: MAIN}
    for entry, held in zip(bound, opened, strict=True):
        if held is not None:
            found.append(_info(entry, held, _parent(held.state.head.parent, names), None))
    return found


def _opened(engine: Engine, entry: NameEntry, meter: Meter) -> Held | None:
    """None: it was deleted."""
    try:
        held = engine.latest(BranchName(entry.name, entry.identity), meter)
    except NotFound:
        return None
    return None if held.state.head.closed is not None else held


def _parent(parent: Parent | None, names: dict[str, str]) -> BranchParent | None:
    return None if parent is None else BranchParent(names.get(parent.identity), parent.identity, parent.commit)


def _info(entry: NameEntry, held: Held | None, parent: BranchParent | None, meter: Meter | None) -> BranchInfo:
    return BranchInfo(
        entry.name,
        entry.identity,
        parent,
        None if held is None else held.state.head.commit_id,
        _EPOCH + dt.timedelta(microseconds=entry.created_at_us),
        (meter or Meter()).snapshot(),
    )
