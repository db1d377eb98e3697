"""Tables of which several branches have lines."""

from __future__ import annotations

import pytest

from omnigraph.commit import builder, decide
from omnigraph.commit.engine import MAIN
from omnigraph.table.dataset import TableRef
from omnigraph.testing.effect_operations import give_away
from omnigraph.testing.operations import append
from omnigraph.upkeep import verify
from tests.component.commit.lines_material import fork, make_line
from tests.component.planted.scenes import ONE, Defect, Engines, setting, wrong


def line_of_another_branch(engines: Engines) -> list[str]:
    """A write to a table whose line another branch owns: that branch may be about to commit there."""
    engine = engines()
    append(engine, ONE, ["before"])
    give_away(engine, ONE)
    pin = engine.latest(MAIN).state.tables[ONE[0]]
    append(engine, ONE, ["a"])
    handle = engine.tables.open(TableRef(pin.location, pin.ref), pin.version)
    found = wrong(engines(), {ONE[0]: ["before", "a"]})
    if engine.tables.head_version(handle) != pin.version:
        found.append("the line of the other branch has a version of ours")
    return found


def owning_every_line(patch: pytest.MonkeyPatch) -> None:
    """A plan commits to the line that the pin names, whichever branch owns it."""
    patch.setattr(builder, "_with_forks", lambda state, steps: steps)
    patch.setattr(decide, "not_owned", lambda *_: ())


def one_fork_of_two_branches(engines: Engines) -> list[str]:
    """Two branches that each take one line of a table for theirs: the next commits of both would overwrite each other's."""
    engine = engines()
    mine = fork(engine, engine.latest(MAIN).state.tables[ONE[0]])
    for _ in range(2):
        make_line(engine, mine)
    found = [problem.message for problem in verify.verify(engine).problems if problem.code == "lines-disagree"]
    return [] if any("owner" in message for message in found) else ["verify is silent about the two owners"]


DEFECTS = {
    "the lines of branches are not compared": Defect(
        one_fork_of_two_branches, setting(verify, "between", lambda _: iter(()))
    ),
    "the line of another branch is committed to": Defect(line_of_another_branch, owning_every_line),
}
