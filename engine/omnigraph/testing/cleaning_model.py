"""Cleanups beside those whom they could hurt, on a simulated manifest, for exhaustive search: a writer whose requests are slow,
others who write, cleanups, makers of checkpoints of one commit, and a reader with an old handle.

A branch is made of a commit by the same steps: the entry of its name is the checkpoint, the bound name is the proof. A look reads
checkpoints and branches one after the other.

One step is one request. The decisions are the engine's own pure functions: what a cleanup dooms and spares, whether a checkpoint
came too late, what a version proves beside the boundary, whether a plan may be published. ``Rules`` holds them, or ones with
a guard taken out.

State: (present, ever, marks, writer, others, cleaners, keepers, reader)
    present   versions that the store has: (version, content, cleanup mark), sorted; content is the commits, oldest first
    ever      the same for every version that was the newest when it was made: what is true
    marks     boundary keys, in the order in which they were made
    writer    (at, base, mark of its plan, staged files there, attempt, told)
    cleaner   (at, doomed, target, its mark)
    keeper    (at, version, told)
    reader    (at, version, newest when it began)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from omnigraph.commit import decide
from omnigraph.commit.decide import Check, Lineage
from omnigraph.manifest.rows import CommitRow
from omnigraph.table.version_list import VersionFile
from omnigraph.testing.explorer import State as Node
from omnigraph.upkeep import cleanup_plan
from omnigraph.upkeep.cleanup_plan import Line, LinePlan, Range, SeenCommit
from omnigraph.wire.cleanup import Policy

_KEEP_ONE = Policy(keep=1, older_than_s=0, min_age_s=0)
_PLACE = ("__manifest", None)
WRITER, OTHER = "W", "o"
CHECKPOINT, BRANCH = "checkpoint", "branch"
FIRST = 1  # the version that the checkpoint is for
_AGES = 1000  # without a mark, whatever is old enough


@dataclass(frozen=True)
class Rules:
    """The engine's decisions, and the steps of a cleanup that a guard could be taken out of."""

    swap_stands: Callable[[int, int], bool] = decide.swap_stands
    look_holds: Callable[[int, int], bool] = decide.look_holds
    check_publish: Callable[..., decide.PublishCheck] = decide.check_publish
    comes_too_late: Callable[..., bool] = cleanup_plan.comes_too_late
    doom: Callable[..., LinePlan] = cleanup_plan.doom
    spare: Callable[..., Mapping[Any, LinePlan]] = cleanup_plan.spare
    boundary: Callable[[tuple[int, ...]], int] = lambda marks: max(marks, default=0)  # what ``Boundary.value`` returns
    relies_on: tuple[str, ...] = ("kept",)  # as what a checkpoint has to stand there for another one to rely on it
    order: tuple[str, str] = (CHECKPOINT, BRANCH)  # in which a look reads what keeps versions
    resolves: bool = True  # an unknown outcome is looked up, not taken for a failure
    marked: bool = True  # a cleanup publishes its mark before it looks
    bounded: bool = True  # ... and raises the boundary before it deletes


@dataclass(frozen=True)
class Setting:
    writer: bool = False
    others: int = 0  # commits of others
    cleanups: int = 1
    keepers: int = 0
    branches: int = 0  # made of the same commit as the checkpoints
    reader: bool = False
    attempts: int = 2
    rules: Rules = field(default_factory=Rules)


class Cleaning:
    """``start``, ``steps`` and ``check`` for the explorer."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.rules = setting.rules
        self._may_publish = lru_cache(maxsize=None)(self._may_publish_of)
        self._doomed = lru_cache(maxsize=None)(self._doomed_of)

    @property
    def start(self) -> Node:
        first = (FIRST, (OTHER,), 0)
        second = (2, (OTHER, OTHER), 0)
        s = self.setting
        return (
            (first, second),
            (first, second),
            (),
            ("open" if s.writer else "idle", 0, 0, False, 0, ""),
            s.others,
            (("mark", (), 0, 0),) * s.cleanups,
            (("begin", 0, ""),) * (s.keepers + s.branches),
            ("begin" if s.reader else "idle", 2, 0),
        )

    def steps(self, s: Node) -> Iterator[tuple[str, Node]]:
        yield from self._writer(s)
        if s[4]:
            top = s[0][-1]
            after = self._made(s, (top[0] + 1, (*top[1], OTHER), top[2]))
            yield f"another writer publishes {top[0] + 1}", (*after[:4], s[4] - 1, *after[5:])
        for number in range(len(s[5])):
            yield from self._cleaner(s, number)
        for number in range(len(s[6])):
            yield from self._keeper(s, number)
        yield from self._reader(s)

    # --- the manifest -----------------------------------------------------------------------------------------------------

    @staticmethod
    def _made(s: Node, version: tuple[Any, ...]) -> Node:
        """A version that was put where none was. It is part of the truth only above all that ever was."""
        present = tuple(sorted((*s[0], version)))
        ever = (*s[1], version) if version[0] > s[1][-1][0] else s[1]
        return (present, ever, *s[2:])

    @staticmethod
    def _there(s: Node, number: int) -> tuple[Any, ...] | None:
        return next((version for version in s[0] if version[0] == number), None)

    def _boundary(self, s: Node) -> int:
        return self.rules.boundary(s[2])

    # --- the writer ---------------------------------------------------------------------------------------------------------

    def _may_publish_of(self, mark: int, now: int, published: bool) -> Check:
        state: Any = SimpleNamespace(
            identity="g", head=SimpleNamespace(owner=None, epoch=0, mark=str(now), commit_id="h", closed=None),
            schema=SimpleNamespace(id="s"), tables={},
        )  # fmt: skip
        plan: Any = SimpleNamespace(
            branch=SimpleNamespace(identity="g"), owner=None, kind="load", chains=(), landing=(), reads=(), id=WRITER,
            members=(WRITER,), owned=(WRITER,), ends=(WRITER,), requests=(SimpleNamespace(id=WRITER, expect_head=None),),
            base=SimpleNamespace(epoch=0, mark=str(mark), schema_id="s"),
        )  # fmt: skip
        row = CommitRow(WRITER, WRITER, (), None, 0, None, 2, "load", version=2)
        return self.rules.check_publish(state, plan, Lineage({WRITER: row} if published else {})).check

    def _writer(self, s: Node) -> Iterator[tuple[str, Node]]:
        at, base, mark, files, attempt, _ = s[3]

        def become(state: Node, *writer: Any) -> Node:
            return (*state[:3], writer, *state[4:])

        top = s[0][-1]
        more = attempt + 1 < self.setting.attempts
        again = ("open", 0, 0, False, attempt + 1, "") if more else ("idle", 0, 0, False, attempt, "no")
        if at == "open":
            yield f"W opens {top[0]} and stages", become(s, "put", top[0], top[2], True, attempt, "")
        elif at == "put":
            number = base + 1
            if self._there(s, number) is None:
                # The base may be gone by now; the writer still holds what it read there.
                held = next(version for version in s[1] if version[0] == base)
                landed = self._made(s, (number, (*held[1], WRITER), held[2]))
                yield f"W's version {number} lands", become(landed, "confirm", number, mark, files, attempt, "")
            else:
                verdict = self._may_publish(mark, top[2], WRITER in top[1])
                if verdict is Check.PUBLISHED:
                    yield "W finds itself published", become(s, "idle", 0, 0, files, attempt, "yes")
                elif verdict is Check.GO:
                    yield f"W goes on to {top[0]}", become(s, "put", top[0], mark, files, attempt, "")
                else:
                    yield f"W is refused: {verdict.value}", become(s, *again)
        elif at == "confirm":
            if self.rules.swap_stands(base, self._boundary(s)):
                yield (
                    f"W reads the boundary {self._boundary(s)}: published",
                    become(s, "idle", base, 0, files, 0, "yes"),
                )
            elif self.rules.resolves:
                yield "W asks for the newest", become(s, "ask", base, mark, files, attempt, "")
            else:
                yield "W takes it for lost, plans again", become(s, *again)
        elif at == "ask":
            if WRITER in top[1]:
                yield "W finds itself published", become(s, "idle", base, 0, files, attempt, "yes")
            else:
                yield "W does not find itself, plans again", become(s, *again)

    # --- a cleanup ------------------------------------------------------------------------------------------------------------

    def _doomed_of(
        self, present: tuple[int, ...], commits: tuple[int, ...], boundary: int, kept: tuple[int, ...]
    ) -> tuple[LinePlan, int]:
        """What one look dooms, and where the boundary would be: the engine's own plan of the line. ``commits``: the
        versions that the history of the newest one names, oldest first."""
        seen = [SeenCommit(str(one), one, 0 if one in present else None) for one in commits[::-1] if one > boundary]
        oldest = cleanup_plan.oldest_retained(seen, _KEEP_ONE, 1)
        low = present[-1] if oldest is None else oldest.manifest_version
        ranges = (Range(low, None, "commit"), *(Range(one, one, "checkpoint") for one in kept))
        files = tuple(VersionFile(number, 1, 0) for number in present)
        return self.rules.doom(Line("__manifest", *_PLACE, files, ranges), _KEEP_ONE, 1), low - 1

    def _look(self, s: Node, seen: bool) -> tuple[LinePlan, int]:
        history = {version[1]: version[0] for version in reversed(s[1])}  # where each content came first
        kept = (FIRST,) if seen else ()
        return self._doomed(
            tuple(version[0] for version in s[0]), tuple(sorted(history.values())), self._boundary(s), kept
        )

    def _kind(self, number: int) -> str:
        return CHECKPOINT if number < self.setting.keepers else BRANCH

    def _sees(self, s: Node, kind: str) -> bool:
        """Whether one of this kind keeps the first version."""
        return any(self._kind(n) == kind and one[0] not in ("begin", "idle") for n, one in enumerate(s[6]))

    def _cleaner(self, s: Node, number: int) -> Iterator[tuple[str, Node]]:
        at, doomed, target, mark = s[5][number]
        who = f"cleanup {number + 1}"

        def become(state: Node, *cleaner: Any) -> Node:
            return (*state[:5], (*s[5][:number], cleaner, *s[5][number + 1 :]), *state[6:])

        if at == "mark":
            if not self.rules.marked:
                yield f"{who} begins", become(s, "look", (), 0, _AGES)
                return
            top = s[0][-1]
            mark = max(version[2] for version in s[1]) + 1
            marked = self._made(s, (top[0] + 1, top[1], mark))
            yield f"{who} publishes its mark as {top[0] + 1}", become(marked, "look", (), 0, mark)
        elif at in ("look", "again"):
            first = self.rules.order[0]
            seen = f"{at} {self._sees(s, first)}"
            yield f"{who} reads what is a {first}", become(s, seen, doomed, target, mark)
        elif at.startswith("look "):
            line, low = self._look(s, at == "look True" or self._sees(s, self.rules.order[1]))
            yield f"{who} dooms {line.doomed}", become(s, "raise", line.doomed, low, mark)
        elif at == "raise":
            marks = (*s[2], target) if self.rules.bounded and target not in s[2] else s[2]
            raised = (*s[:2], marks, *s[3:])
            yield f"{who} raises the boundary to {target}", become(raised, "again", doomed, target, mark)
        elif at.startswith("again "):
            line, _ = self._look(s, at == "again True" or self._sees(s, self.rules.order[1]))
            before = {_PLACE: LinePlan("__manifest", *_PLACE, doomed, 0, 0, 0)}
            both = self.rules.spare(before, [line])[_PLACE].doomed
            yield f"{who} looks again: {both}", become(s, "delete", both, target, mark)
        elif at == "delete":
            left = tuple(version for version in s[0] if version[0] not in doomed)
            # Files that were staged before the mark, and that no version names, go as well.
            spared = any(WRITER in version[1] for version in left) or s[3][2] >= mark
            writer = s[3] if spared else (*s[3][:3], False, *s[3][4:])
            yield f"{who} deletes {doomed}", become((left, s[1], s[2], writer, *s[4:]), "over", (), 0, 0)

    # --- a checkpoint, and a reader ---------------------------------------------------------------------------------------------

    def _keeper(self, s: Node, number: int) -> Iterator[tuple[str, Node]]:
        at, _, _ = s[6][number]
        kind = self._kind(number)
        who = f"{kind} {number + 1}"

        def become(*keeper: Any) -> Node:
            return (*s[:6], (*s[6][:number], keeper, *s[6][number + 1 :]), *s[7:])

        if at == "begin":
            if self._there(s, FIRST) is None:
                yield f"{who} is refused: its commit is gone", become("idle", 0, "no")
            else:
                yield f"{who} is written", become("written", FIRST, "")
        elif at == "written":
            if not self.rules.comes_too_late(FIRST, self._boundary(s), kept_by_another=False):
                yield f"{who} is in time", become("proven", FIRST, "")
            else:
                yield f"{who} may be too late", become("late", FIRST, "")
        elif at == "late":
            # A branch relies on checkpoints and branches, a checkpoint on checkpoints alone.
            others = [
                one
                for n, one in enumerate(s[6])
                if n != number and one[0] in self.rules.relies_on and (kind == BRANCH or self._kind(n) == CHECKPOINT)
            ]
            # What it relies on was read; whether the versions open is asked after that, and says nothing about a cleanup.
            if self.rules.comes_too_late(FIRST, self._boundary(s), kept_by_another=bool(others)):
                yield f"{who} came too late", become("take back", FIRST, "")
            else:
                yield f"{who} relies on another", become("proven", FIRST, "")
        elif at == "take back":
            yield f"{who} is taken back", become("idle", 0, "no")
        elif at == "proven":
            yield f"{who} is proven", become("kept", FIRST, "yes")
        elif at == "kept" and len(s[6]) > 1:
            yield f"{who} is deleted", become("idle", 0, "")

    def _reader(self, s: Node) -> Iterator[tuple[str, Node]]:
        at, version, newest = s[7]

        def become(*reader: Any) -> Node:
            return (*s[:7], reader)

        if at == "begin":
            yield "R begins", become("probe", version, s[1][-1][0])
        elif at == "probe":
            if self._there(s, version + 1) is None:
                yield f"R: {version + 1} is not there", become("boundary", version, newest)
            else:
                yield "R asks for the newest", become("idle", s[0][-1][0], newest)
        elif at == "boundary":
            if self.rules.look_holds(version, self._boundary(s)):
                yield f"R takes {version} for the newest", become("idle", version, newest)
            else:
                yield "R asks for the newest", become("idle", s[0][-1][0], newest)

    # --- properties -----------------------------------------------------------------------------------------------------------

    def check(self, s: Node) -> str | None:
        """What must hold in every reachable state."""
        present = {version[0]: version for version in s[0]}
        newest = s[1][-1]
        if newest[0] not in present:
            return f"the newest version {newest[0]} is gone"
        if newest[1].count(WRITER) > 1:
            return "double apply: W is published twice"
        _, _, _, files, _, told = s[3]
        if told == "yes" and WRITER not in newest[1]:
            return "lost commit: W was acknowledged and is not published"
        if told == "no" and WRITER in newest[1]:
            return "false failure: W got an answer that it came to nothing, and is published"
        if WRITER in newest[1] and not files and s[3][0] != "open":
            return "broken graph: W is published and its files are gone"
        if any(one[2] == "yes" for one in s[6]) and FIRST not in present:
            return "lost root: a checkpoint was acknowledged and its version is gone"
        at, version, began = s[7]
        if at == "idle" and self.setting.reader and version < began:
            return f"stale read: R takes {version} for the newest, {began} was there when it began"
        return None
