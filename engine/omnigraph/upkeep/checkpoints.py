"""Checkpoints: commits pinned by name against cleanup, until the name is deleted.

A checkpoint is durable before it is checked, and a cleanup collects them after it has raised the boundary: whichever comes
second sees the other. One that came too late is taken back, with an error that says so. Up to the boundary a commit can be pinned if
another checkpoint has kept it all along, and that one is proven not to have come too late itself.
"""

from __future__ import annotations

from omnigraph.commit.engine import MAIN, Engine, gather
from omnigraph.commit.gate import entering
from omnigraph.core import failpoints
from omnigraph.core.errors import AlreadyExists, Corruption, NotFound, OmnigraphError, PreconditionFailed, Reclaimed
from omnigraph.core.kinds import methods_checked
from omnigraph.core.meter import Meter
from omnigraph.core.shown import html_or_text
from omnigraph.manifest.checkpoints import encode, list_checkpoints, prove, proven_to_keep, remove
from omnigraph.manifest.state import State
from omnigraph.options import check_actor
from omnigraph.read.place_names import At
from omnigraph.read.places import find_place
from omnigraph.store import KeyExists, layout
from omnigraph.table.dataset import TableRef
from omnigraph.upkeep.cleanup_plan import comes_too_late
from omnigraph.wire.cleanup import Checkpoint, CheckpointList


@methods_checked
class Checkpoints:
    """The checkpoints of one graph."""

    def __init__(self, engine: Engine, actor: str | None = None) -> None:
        self._engine = engine
        self._actor = actor

    def __repr__(self) -> str:
        return f"<Checkpoints of {self._engine.uri}>"

    def _repr_html_(self) -> str:
        return html_or_text(self, lambda: self.list()._repr_html_())

    def create(
        self,
        name: str,
        at: At | None = None,
        *,
        branch: str = MAIN,
        expect_head: str | None = None,
        actor: str | None = None,
    ) -> Checkpoint:
        """Pin the head of a branch, or a place: a commit, another checkpoint, a branch, a time. ``expect_head``: pin only
        while that is the head of the branch."""
        who = check_actor(actor, self._actor)
        with entering(self._engine, "checkpoints.create", writes=True):
            return create(self._engine, name, at=at, branch=branch, expect_head=expect_head, actor=who)

    def list(self) -> CheckpointList:
        with entering(self._engine, "checkpoints.list"):
            return list_checkpoints(self._engine.store)

    def delete(self, name: str) -> None:
        """Let a cleanup have the commit again."""
        with entering(self._engine, "checkpoints.delete", writes=True):
            meter = Meter()
            if self._engine.store.get(layout.checkpoint_key(name), meter=meter) is None:
                raise NotFound(f"no checkpoint {name!r}", hint="`omnigraph checkpoint list` shows them", name=name)
            remove(self._engine.store, name, meter)


def create(
    engine: Engine,
    name: str,
    *,
    at: At | None,
    branch: str,
    actor: str | None,
    expect_head: str | None = None,
    meter: Meter | None = None,
) -> Checkpoint:
    meter = meter or Meter()
    key = layout.checkpoint_key(str(name))
    # A commit that does not open any more is refused before its name is taken. What stands in the file is the last commit of
    # the swap that made it visible: a state has one name.
    held = engine.latest(branch, meter)
    if expect_head is not None and held.state.head.commit_id != expect_head:
        raise PreconditionFailed(
            f"the head of {branch} is {held.state.head.commit_id}, not {expect_head}",
            expected=expect_head,
            actual=held.state.head.commit_id,
        )
    if at is not None:
        found = find_place(engine, at, branch=branch, meter=meter)
        held, branch = found.held, found.branch
    state = held.state
    now_us = engine.clock.now_us()
    made = Checkpoint(name, state.head.commit_id, branch, state.identity, state.ref, state.version, actor, now_us)
    _check_opens(engine, made, meter)
    engine.durable.root(made.manifest_version, engine.latest_of(state.identity, meter) or held)
    try:
        engine.store.create(key, encode(made), meter=meter)
    except KeyExists as error:
        raise AlreadyExists(
            f"there is a checkpoint {name!r} already", hint="delete it first, or choose another name", name=name
        ) from error
    failpoints.hit("checkpoint.created")
    try:
        doomed = engine.boundary.value(state.identity, repeated=state.head.boundary, meter=meter)
        if comes_too_late(made.manifest_version, doomed, kept_by_another=False):
            others = proven_to_keep(
                engine.store, made.identity, made.manifest_version, made.commit_id, besides=made.name, meter=meter
            )
            if comes_too_late(made.manifest_version, doomed, kept_by_another=others):
                raise _too_late(made)
            _check_opens(engine, made, meter)
        prove(engine.store, made, meter)
    except OmnigraphError:
        remove(engine.store, name, meter)
        raise
    return made


def state_of(engine: Engine, checkpoint: Checkpoint, meter: Meter) -> State:
    """What the commit of a checkpoint left. Raises ``Corruption`` where the version is not that commit's."""
    state = engine.manifest.open_at(checkpoint.ref, checkpoint.manifest_version, meter).state
    if state.head.commit_id != checkpoint.commit_id:
        raise Corruption(
            f"checkpoint {checkpoint.name!r} names version {checkpoint.manifest_version} of __manifest for "
            f"{checkpoint.commit_id}; it belongs to {state.head.commit_id}",
            object=layout.checkpoint_key(checkpoint.name),
            expected=checkpoint.commit_id,
            actual=state.head.commit_id,
        )
    return state


def _check_opens(engine: Engine, checkpoint: Checkpoint, meter: Meter) -> None:
    try:
        state = state_of(engine, checkpoint, meter)
        there = gather(
            [
                engine.spawn(engine.tables.exists, TableRef(pin.location, pin.ref), pin.version, meter)
                for pin in state.tables.values()
            ]
        )
    except (NotFound, Corruption) as error:
        raise _too_late(checkpoint) from error
    if not all(there):
        raise _too_late(checkpoint)


def _too_late(checkpoint: Checkpoint) -> Reclaimed:
    return Reclaimed(
        f"commit {checkpoint.commit_id} was cleaned up before it could be pinned",
        hint="pin a newer commit; `omnigraph commit list` shows which are left",
        commit_id=checkpoint.commit_id,
        oldest=None,
    )
