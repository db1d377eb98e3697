"""The state that a branch is made from: the head of a branch, or a commit in its history that is retained."""

from __future__ import annotations

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import Engine, gather
from omnigraph.commit.lines import read_lines
from omnigraph.commit.txn import open_txn
from omnigraph.core.errors import PreconditionFailed
from omnigraph.core.meter import Meter
from omnigraph.manifest.checkpoints import proven_to_keep
from omnigraph.manifest.state import State
from omnigraph.manifest.swap import Held
from omnigraph.read.place_names import At
from omnigraph.read.places import find_place
from omnigraph.table.dataset import TableRef


def find_source(
    engine: Engine, branch: str, at: At | None, expect_head: str | None, deadline: Deadline, meter: Meter
) -> Held:
    """The newest state of the branch, or the state at a place: after the last commit of its swap."""
    current = open_txn(engine, branch, deadline=deadline, meter=meter).held
    if expect_head is not None and current.state.head.commit_id != expect_head:
        current = engine.latest(branch, meter)
        if current.state.head.commit_id != expect_head:
            raise PreconditionFailed(
                f"the head of {branch} is {current.state.head.commit_id}, not {expect_head}",
                expected=expect_head,
                actual=current.state.head.commit_id,
            )
    return current if at is None else find_place(engine, at, branch=branch, meter=meter).held


def kept_by_another(engine: Engine, source: State, meter: Meter, *, besides: str) -> bool:
    """Whether another branch was made from this very version, or a checkpoint pins it. It was kept for that one all along: any
    cleanup since our claim was written has seen one of the two.

    A branch counts once its name is bound, a checkpoint once it is proven: one that is being made may have come too late."""
    for line in read_lines(engine, meter).lines:
        parent = line.held.state.head.parent
        if parent is None or line.identity == besides or line.name is None:
            continue
        if (parent.identity, parent.manifest_version) == (source.identity, source.version):
            return True
    pinned = proven_to_keep(engine.store, source.identity, source.version, source.head.commit_id, meter=meter)
    return pinned and all(
        gather(
            [
                engine.spawn(engine.tables.exists, TableRef(pin.location, pin.ref), pin.version, meter)
                for pin in source.tables.values()
            ]
        )
    )
