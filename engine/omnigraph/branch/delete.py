"""Delete a branch: one swap closes its line, then its name is free. Nothing else happens here; cleanup deletes the files.

The closing swap is the moment: what was published before it was published, and nothing is ever swapped onto it. A plan that is
under way finds it and ends; so does a handle that knew the branch.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.branch import names
from omnigraph.commit.advance import TO_THE_DEADLINE, Answer, Answered, GaveUp, Spots, Swap, Swapped, Terms, advance
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.plan import BranchName
from omnigraph.core.errors import Conflict, InvalidInput, NotFound, OutcomeUnknown, PreconditionFailed
from omnigraph.core.meter import Meter
from omnigraph.manifest.refs import NameEntry
from omnigraph.manifest.rows import Closed
from omnigraph.manifest.state import Change
from omnigraph.manifest.swap import Held
from omnigraph.options import CommitOptions
from omnigraph.store import layout


def delete_branch(engine: Engine, options: CommitOptions, meter: Meter) -> tuple[NameEntry, Held]:
    """The entry that bound the name, and the last state of the branch. One whose deletion was interrupted is freed."""
    name = options.branch
    if name == MAIN:
        raise InvalidInput("main is the branch that every graph has, and is not deleted", hint="delete another branch")
    layout.branch_name_key(name)
    deadline = Deadline(engine.clock, options.deadline_s)
    with engine.writing(meter):
        entry = _bound(engine, name, meter)
        held = _close(engine, entry, options, deadline, meter)
        names.release(engine, entry, options.actor, meter)
        engine.unbind(entry.name, entry.ref)
    return entry, held


def _bound(engine: Engine, name: str, meter: Meter) -> NameEntry:
    entry = engine.names.highest(name, meter)
    if entry is not None and entry.state == "bound" and entry.name == name:
        return entry
    making = "; it is being made" if entry is not None and entry.state == "making" else ""
    raise NotFound(
        f"no branch {name!r}{making}",
        hint="`omnigraph branch list` shows the branches of the graph",
        branch=name,
    )


def _close(engine: Engine, entry: NameEntry, options: CommitOptions, deadline: Deadline, meter: Meter) -> Held:
    def propose(held: Held) -> Swap | Answer[PreconditionFailed | None]:
        head = held.state.head
        if head.closed is not None:
            return Answer(None)
        if options.expect_head is not None and head.commit_id != options.expect_head:
            return Answer(
                PreconditionFailed(
                    f"the head of {entry.name} is {head.commit_id}, not {options.expect_head}",
                    expected=options.expect_head,
                    actual=head.commit_id,
                )
            )
        closed = Closed(engine.clock.now_us(), options.actor)
        return Swap(Change(head=replace(head, closed=closed)), {})

    ended = advance(
        engine,
        BranchName(entry.name, entry.identity),
        propose,
        Terms(TO_THE_DEADLINE, deadline, spots=Spots("branch.before_close", "branch.after_close")),
        meter=meter,
    )
    if isinstance(ended, Swapped):
        return ended.held
    if isinstance(ended, Answered):
        if ended.value is not None:
            raise ended.value
        engine.durable.acknowledge(ended.held.version, ended.held)
        return ended.held
    assert isinstance(ended, GaveUp)
    if ended.may_stand:
        raise OutcomeUnknown(
            f"whether branch {entry.name!r} was deleted is not known: {ended.error}",
            hint="delete it again: if it is gone, that says not-found",
            branch=entry.name,
            identity=entry.identity,
        )
    raise ended.error or Conflict(
        f"branch {entry.name!r} was not deleted: others wrote to it every time",
        hint="repeat the call with a larger deadline_s",
        branch=entry.name,
    )
