"""Make a branch: claim its name, make its line, bind the name to it. No table is touched, whatever their number.

The claim names the version that the branch is made from, and from then on cleanup keeps it. A cleanup that had begun before has
raised the boundary by the time that it is read here. So one of the two always sees the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from omnigraph.branch import names
from omnigraph.branch.source import find_source, kept_by_another
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.decide import swap_stands
from omnigraph.commit.engine import Engine, gather
from omnigraph.commit.plan import BranchName
from omnigraph.core import failpoints
from omnigraph.core.errors import NotFound, OmnigraphError, Reclaimed, StoreUnavailable
from omnigraph.core.ids import new_ulid, new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest.refs import BranchSource, NameEntry
from omnigraph.manifest.rows import Head, Parent
from omnigraph.manifest.state import Foreign, State
from omnigraph.manifest.swap import Held, SwapLost, SwapUnknown
from omnigraph.options import CommitOptions, check_text
from omnigraph.read.place_names import At
from omnigraph.store import layout

LINE_ATTEMPTS_MAX = 3


def create_branch(
    engine: Engine, name: str, *, at: At | None, options: CommitOptions, meter: Meter
) -> tuple[NameEntry, Held]:
    """The entry that binds the name, and the first state of the branch. ``options.branch``: where it is made from."""
    layout.branch_name_key(check_text("name", name))
    deadline = Deadline(engine.clock, options.deadline_s)
    with engine.writing(meter):
        while True:
            deadline.check("creating the branch")
            made = _attempt(engine, name, at, options, deadline, meter)
            if made is not None:
                return made


@dataclass(frozen=True)
class _Making:
    """A branch whose name is claimed."""

    engine: Engine
    entry: NameEntry
    source: Held = field(repr=False)
    meter: Meter = field(repr=False)


def _attempt(
    engine: Engine, name: str, at: At | None, options: CommitOptions, deadline: Deadline, meter: Meter
) -> tuple[NameEntry, Held] | None:
    """None: the state that was taken for the newest was cleaned up meanwhile; a newer one exists."""
    reading = engine.spawn(engine.names.highest, name, meter)
    finding = engine.spawn(find_source, engine, options.branch, at, options.expect_head, deadline, meter)
    source, highest = gather([finding, reading])
    assert isinstance(source, Held)
    if not engine.store.is_remote:
        newest = source if at is None else engine.latest_of(source.state.identity, meter) or source
        engine.durable.root(source.version, newest)
    state = source.state
    said = BranchSource(state.identity, state.ref, state.version, state.head.commit_id)
    wanted = names.making_entry(engine, name, new_ulid(engine.clock), said, options.actor)
    entry = names.claim(engine, wanted, highest, deadline, meter)
    making = _Making(engine, entry, source, meter)
    failpoints.hit("branch.claimed", branch=name)
    try:
        held = _line_of(making)
        if held is None and at is None:
            engine.drop(options.branch)
            names.give_up(engine, entry, meter)
            return None
        if held is None:
            raise Reclaimed(
                f"commit {state.head.commit_id} was cleaned up before a branch could be made from it",
                hint="make it from a newer commit; `omnigraph commit list` shows which are left",
                commit_id=state.head.commit_id,
                oldest=None,
            )
    except OmnigraphError:
        names.give_up(engine, entry, meter)
        raise
    failpoints.hit("branch.before_bind", branch=name)
    bound = names.bind(engine, entry, meter)
    engine.bind(name, held)
    return bound, held


def _line_of(making: _Making) -> Held | None:
    """Make the line, durable. None: cleanup has doomed the version that it is made from."""
    engine, meter, state = making.engine, making.meter, making.source.state
    line = engine.spawn(_make_line, making)
    boundary = engine.spawn(partial(engine.boundary.value, state.identity, repeated=state.head.boundary, meter=meter))
    held, doomed = gather([line, boundary])
    assert isinstance(held, Held)
    if not swap_stands(state.version, int(doomed)) and not kept_by_another(
        engine, state, meter, besides=making.entry.identity
    ):
        return None
    engine.durable.new_line()
    return held


def _make_line(making: _Making) -> Held:
    """The first version of the line. An identity is used by one creator alone: whatever lies there is ours."""
    engine = making.engine
    state = first_state(making.source.state, making.entry)
    last: Exception | None = None
    for _ in range(LINE_ATTEMPTS_MAX):
        try:
            return engine.manifest.create(state, uuid=new_uuid(), meter=making.meter)
        except (SwapLost, SwapUnknown) as error:
            last = error
        try:
            return engine.latest(BranchName(making.entry.name, making.entry.identity), making.meter)
        except NotFound:
            continue
    raise StoreUnavailable(f"the line of branch {making.entry.name!r} could not be made: {last}") from last


def first_state(source: State, entry: NameEntry) -> State:
    """Version 1 of the line of a branch: what the source holds, and no history. Pure.

    The boundary, the epoch and the owner are those of the source's own line, and do not hold here. The cleanup mark does: files
    staged before it may be gone."""
    parent = Parent(source.identity, source.ref, source.version, source.head.commit_id)
    head = Head(entry.identity, source.head.commit_id, mark=source.head.mark, name=entry.name, parent=parent)
    foreign = source.foreign
    return replace(
        source,
        version=1,
        ref=entry.ref,
        head=head,
        tail=(),
        base=None,
        foreign=Foreign(current=(*foreign.schema, *foreign.base, *foreign.current)),
    )
