"""Which of several requests may stand, in some order of theirs, and what they come to on the tables together.

A request that is wrong fails by itself, with the error that it would have had alone; it costs the others one more validation
and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from omnigraph.commit.properties import Counts
from omnigraph.commit.steps import Step
from omnigraph.commit.txn import Txn
from omnigraph.core.errors import OmnigraphError
from omnigraph.wire.receipt import TableChange
from omnigraph.write.base.changes import TypeChange
from omnigraph.write.group.joint import Candidate, Union, separate, union_of
from omnigraph.write.group.member import Member
from omnigraph.write.rules.validate import Verdict, validate
from omnigraph.write.staging_plan import SAME, UPDATED, joint_step

Judge = Callable[[Sequence[TypeChange]], Verdict]


@dataclass(frozen=True)
class Judgement:
    """``taken`` stand together, in this order; ``waiting`` belong to the next group; ``refused`` by themselves."""

    taken: tuple[Candidate, ...]
    waiting: tuple[Member, ...]
    refused: Mapping[Member, OmnigraphError]
    reads: frozenset[str]


def judge(candidates: Sequence[Candidate], txn: Txn) -> Judgement:
    """Judge all rows at once; where they do not stand, each request alone."""

    def ask(changes: Sequence[TypeChange]) -> Verdict:
        return validate(changes, txn.catalog, txn, limits=txn.engine.limits)

    taken, waiting = separate(candidates, txn.catalog, txn)
    verdict = ask(_rows(taken))
    refused: dict[Member, OmnigraphError] = {}
    if not verdict.ok:
        taken, late, refused, verdict = _one_by_one(taken, ask)
        waiting = [one for one in candidates if one in waiting or one in late]
    return Judgement(tuple(taken), tuple(one.member for one in waiting), refused, verdict.reads)


def _rows(candidates: Sequence[Candidate]) -> list[TypeChange]:
    return [union.change for union in union_of(candidates).values()]


def _one_by_one(
    candidates: Sequence[Candidate], ask: Judge
) -> tuple[list[Candidate], list[Candidate], dict[Member, OmnigraphError], Verdict]:
    """Those that stand together, those that wait, and the errors of those that do not stand."""
    errors = {one.member: error for one in candidates if (error := ask(list(one.changes.values())).error()) is not None}
    sound = [one for one in candidates if one.member not in errors]
    late: list[Candidate] = []
    verdict = ask(_rows(sound))
    if not verdict.ok:
        sound, late, verdict = _in_order(sound, ask)
    for one in candidates:
        # An edge to a node of a request before it does not stand alone, and stands beside that.
        if one.member in errors and _leans_on_one_of(one, sound[: _place(one, sound, candidates)]):
            longer = [each for each in candidates if each in sound or each is one]
            if (joint := ask(_rows(longer))).ok:
                sound, verdict = longer, joint
                del errors[one.member]
    return sound, late, errors, verdict


def _in_order(candidates: Sequence[Candidate], ask: Judge) -> tuple[list[Candidate], list[Candidate], Verdict]:
    """Each on the rows of those before it. Those that do not stand there wait: what they meet may be durable by then."""
    sound: list[Candidate] = []
    late: list[Candidate] = []
    verdict = Verdict()
    for one in candidates:
        joint = ask(_rows([*sound, one]))
        if joint.ok:
            sound.append(one)
            verdict = joint
        else:
            late.append(one)
    return sound, late, verdict


def _place(one: Candidate, sound: Sequence[Candidate], candidates: Sequence[Candidate]) -> int:
    """How many of ``sound`` came before this one."""
    before = candidates[: candidates.index(one)]
    return sum(each in before for each in sound)


def _leans_on_one_of(one: Candidate, others: Sequence[Candidate]) -> bool:
    return any(ids & other.ids.get(key, frozenset()) for key, ids in one.leans_on.items() for other in others)


# --- what they come to --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lowered:
    """``members`` change something, in the order of the counts of each step; ``idle`` do not. ``unchanged``: by member,
    tables that it names and leaves as they are."""

    steps: tuple[Step, ...] = ()
    members: tuple[Member, ...] = ()
    idle: tuple[Member, ...] = ()
    unchanged: Mapping[Member, Mapping[str, TableChange]] = field(default_factory=dict)


def lower_together(txn: Txn, candidates: Sequence[Candidate]) -> Lowered:
    """One step a table that changes, with counts by request."""
    made = {key: _lowered(txn, key, union, len(candidates)) for key, union in union_of(candidates).items()}
    acting = [
        at
        for at in range(len(candidates))
        if any(counts[at].inserted or counts[at].updated for _, counts in made.values())
    ]
    unchanged: dict[Member, dict[str, TableChange]] = {one.member: {} for one in candidates}
    steps = []
    for key, (build, counts) in made.items():
        listed = []
        for at, one in enumerate(candidates):
            count = counts[at]
            if not (count.inserted or count.updated):
                if count.unchanged:
                    unchanged[one.member][key] = TableChange(txn.pin(key).version, unchanged=count.unchanged)
                count = Counts()
            if at in acting:
                listed.append(count)
        step = build(tuple(listed))
        if step is not None:
            steps.append(step)
    return Lowered(
        tuple(steps),
        tuple(candidates[at].member for at in acting),
        tuple(one.member for at, one in enumerate(candidates) if at not in acting),
        unchanged,
    )


def _lowered(
    txn: Txn, key: str, union: Union, members: int
) -> tuple[Callable[[tuple[Counts, ...]], Step | None], list[Counts]]:
    build, states = joint_step(txn, key, union.change)
    by_state = [np.bincount(union.owners[states == state], minlength=members).tolist() for state in (0, UPDATED, SAME)]
    counts = [Counts(inserted=new, updated=old, unchanged=same) for new, old, same in zip(*by_state, strict=True)]
    return build, counts
