"""The boundaries that a cleanup raises, durable before anything is deleted: what is at or below one is given up.

Of a line that no branch is at any more the boundary is ``all``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from omnigraph.commit.advance import ONE_ROW, GaveUp, Terms, edit_head
from omnigraph.commit.engine import Branch, Engine
from omnigraph.commit.lines import while_there
from omnigraph.commit.plan import BranchName
from omnigraph.core.errors import Conflict
from omnigraph.core.meter import Meter
from omnigraph.manifest.boundary import ALL, boundary_note
from omnigraph.manifest.rows import Head
from omnigraph.store import layout
from omnigraph.upkeep.cleanup_look import Look
from omnigraph.upkeep.cleanup_plan import LinePlan
from omnigraph.wire.cleanup import CleanupPlan


def raise_boundaries(
    engine: Engine,
    plan: CleanupPlan,
    seen: Look,
    doomed: Mapping[tuple[str, str | None], LinePlan],
    run: str,
    actor: str | None,
    meter: Meter,
) -> dict[str, int]:
    """Durable, and read back, before anything is deleted. Repeated in the head row, where a lost mark is noticed.

    By the identity of each line: a name that was looked at may stand for another branch by now, or have done so in the plan. The line
    of a branch that was deleted meanwhile takes no change of its head any more; the boundary itself is what counts."""
    found: dict[str, int] = {}
    if not any(line.doomed for line in doomed.values()):
        return found
    for view in seen.branches:
        state = view.held.state
        if (layout.MANIFEST, state.ref) not in doomed:
            continue  # the plan was made for another branch of this name
        branch = BranchName(view.branch, state.identity)
        # Never above what the caller was shown, and never above what is right now.
        target = min(plan.boundaries.get(view.branch, 0), view.oldest.manifest_version - 1)
        newest = while_there(engine, branch, lambda line: engine.latest(line, meter), meter, named=plan.named)
        if newest is None:
            continue  # another cleanup has given the line up
        before = engine.boundary.value(state.identity, repeated=newest.state.head.boundary, meter=meter)
        if target > before:
            note = boundary_note(run, actor, engine.clock.now_us(), plan.policy.text, view.oldest.commit_id)
            engine.boundary.raise_to(state.identity, target, note, meter=meter)
        reached = engine.boundary.value(state.identity, repeated=max(before, target), meter=meter)
        edit = partial(_with_boundary, reached)
        while_there(engine, branch, partial(_edit, engine, edit, meter), meter, named=plan.named)
        found[view.branch] = reached
    return found


def _edit(engine: Engine, edit: Callable[[Head], Head], meter: Meter, branch: BranchName) -> None:
    change_head(engine, branch, edit, meter)


def _with_boundary(reached: int, head: Head) -> Head:
    return replace(head, boundary=max(head.boundary, reached))


def give_up_lines(engine: Engine, plan: CleanupPlan, seen: Look, run: str, actor: str | None, meter: Meter) -> None:
    """Doom every version of the lines that no branch is at any more, durable before one is deleted: a plan that was made for such
    a line, and a merge that has read it, find that out before they publish."""
    for identity in [line.identity for line in seen.dead if _doomed(line.held.state.ref, plan)]:
        note = boundary_note(run, actor, engine.clock.now_us(), plan.policy.text, "")
        engine.boundary.raise_to(identity, ALL, note, meter=meter)


def _doomed(ref: str | None, plan: CleanupPlan) -> bool:
    """Whether the caller was shown that something of this line goes."""
    place = (layout.MANIFEST, ref)
    shown = {(orphan.path, orphan.ref) for orphan in plan.orphans} | {line.place for line in plan.lines}
    return place in shown


def change_head(engine: Engine, branch: Branch, edit: Callable[[Head], Head], meter: Meter) -> None:
    """One swap that changes the head row and adds no commit."""
    ended = edit_head(engine, branch, edit, Terms(ONE_ROW), meter=meter)
    if isinstance(ended, GaveUp):
        if ended.error is not None:
            raise ended.error
        raise Conflict("the cleanup mark could not be set: other writers were faster every time")
