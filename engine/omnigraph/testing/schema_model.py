"""Every interleaving of a change of the schema, loads beside it, and the recovery of any of them, over the engine's own decisions.

One table, one line. A row is (plan, schema under which it was made and checked). What is published under schema 1 holds rows of schema 1
only: a change that moves columns shapes what it finds, a rule-only change checks it at the pin that it reads. A crash is a process
that takes no further step. Requests whose answer is lost are those of ``protocol_model``.

A state is (manifest, versions, kinds, intents, actors, recoverer): the manifest is (pin, schema, commits, aborts, the version whose rows
a rule-only change has checked); an actor is (phase, attempt, pin, schema, the version it landed on).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from omnigraph.commit import decide as decisions
from omnigraph.commit.decide import Check, Decision, Evidence, Line, Lineage, TableEvidence
from omnigraph.commit.effects import BasePin, Effect, Target
from omnigraph.commit.plan import Base, BranchName, Owner, PublishPlan, ReadPin, RequestInfo
from omnigraph.manifest.rows import AbortRow, CommitRow, HistoryRow, Pin, SchemaRow
from omnigraph.manifest.state import State, genesis
from omnigraph.testing.explorer import State as Node

COLUMNS, RULE = "columns", "rule"  # what the change of the schema does: move columns, or only check rows
_OWNER = Owner("host", "boot", 1, 1)
_KEY, _TABLE, _PATH = "node:T", "t", "p"
_SCHEMAS = tuple(SchemaRow("", "", "hash", f"schema{number}") for number in (0, 1))

Pid = tuple[str, int]  # the actor and its attempt


def at_its_place(version: int, pin: int) -> bool:
    return version == pin + 1


@dataclass(frozen=True)
class Rules:
    """The guards. The defaults are the engine's. ``reads``: the change names the tables whose rows it checked."""

    check_publish: Callable[..., decisions.PublishCheck] = decisions.check_publish
    check_recovered: Callable[..., decisions.PublishCheck] = decisions.check_publish
    decide: Callable[..., Decision] = decisions.decide
    landed: Callable[[int, int], bool] = at_its_place
    reads: bool = True
    lance_refuses: bool = True  # a change of columns against appends, both ways round; not leaned on


@dataclass(frozen=True)
class Scope:
    kind: str = COLUMNS
    loads: int = 2
    attempts: int = 2
    recoverers: int = 1
    rules: Rules = field(default_factory=Rules)


class Model:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._verdict = lru_cache(maxsize=None)(self._verdict_of)
        self._decision = lru_cache(maxsize=None)(self._decision_of)

    @property
    def start(self) -> Node:
        actors = tuple(("open", 0, 0, 0, 0) for _ in range(self.scope.loads + 1))
        recoverer = ("look", ()) if self.scope.recoverers else ("done", ())
        return ((0, 0, (), (), 0), ((("init", 0, 0),),), ("init",), (), actors, recoverer)

    # --- the engine's functions, on values made for them ----------------------------------------------------------------

    def _applies(self, index: int) -> bool:
        return index == self.scope.loads

    def _pid(self, index: int, attempt: int) -> Pid:
        return ("A" if self._applies(index) else f"L{index}", attempt)

    def _plan(self, pid: Pid, pin: int, schema: int) -> PublishPlan:
        applies = pid[0] == "A"
        moves = not applies or self.scope.kind == COLUMNS
        target = Target(_PATH, None, pin + 1, str(pid))
        effects = (
            (Effect("columns" if applies else "append", _KEY, _TABLE, BasePin(_PATH, None, pin), target),)
            if moves
            else ()
        )
        reads = (ReadPin(_KEY, _TABLE, None, pin),) if applies and not moves and self.scope.rules.reads else ()
        kind = "schema" if applies else "load"
        request = RequestInfo(str(pid), kind, ("head",), None, None, None, 0)
        return PublishPlan(
            "graph", f"op{pid}", str(pid), kind, BranchName("main", "graph"), Base(1, "head", 0, None, _SCHEMAS[schema].id),
            effects, reads, (request,), _OWNER,
        )  # fmt: skip

    @staticmethod
    def _state(pin: int, schema: int) -> State:
        pins = [Pin(_KEY, _TABLE, 1, "", _PATH, None, pin, owner="graph")]
        return genesis(
            identity="graph", commit_id="head", actor=None, created_at_us=0, schema=_SCHEMAS[schema], pins=pins
        )

    def _verdict_of(self, at: tuple[int, int], ended: str, pid: Pid, made_on: tuple[int, int], recovers: bool) -> Check:
        rules = self.scope.rules
        check = rules.check_recovered if recovers else rules.check_publish
        return check(self._state(*at), self._plan(pid, *made_on), _lineage(pid, ended)).check

    def _decision_of(
        self, pid: Pid, ended: str, made_on: tuple[int, int], pin: int, head: int, exact: bool
    ) -> Decision:
        plan = self._plan(pid, *made_on)
        tables = {chain.key: TableEvidence(chain.key, pin, head, exact=exact, landed=exact) for chain in plan.chains}
        end = decisions.how_ended(plan, _lineage(pid, ended))
        return self.scope.rules.decide(Evidence(Line.OPEN, end=end, tables=tables))

    # --- steps --------------------------------------------------------------------------------------------------------

    def steps(self, state: Node) -> Iterator[tuple[str, Node]]:
        for index in range(len(state[4])):
            yield from self._act(state, index)
        yield from self._recover(state)

    def _act(self, s: Node, index: int) -> Iterator[tuple[str, Node]]:
        manifest, _, _, intents, actors, _ = s
        phase, attempt, pin, schema, _ = actors[index]
        pid = self._pid(index, attempt)
        name = f"{pid[0]}.{attempt}"
        if phase == "open":
            done = self._applies(index) and manifest[1] == 1
            yield f"{name} opens", _but(s, index, ("end" if done else "arm", attempt, manifest[0], manifest[1], 0))
        elif phase == "arm":
            moves = bool(self._plan(pid, pin, schema).effects)
            then = ("commit" if moves else "publish", attempt, pin, schema, 0)
            yield f"{name} has checked its rows and arms", _but(s, index, then, intents=(*intents, pid))
        elif phase == "commit":
            yield self._commit(s, index, pid)
        elif phase == "publish":
            yield self._publish(s, index, pid)
        elif phase == "abort":
            yield self._give_up(s, index, pid)

    def _commit(self, s: Node, index: int, pid: Pid) -> tuple[str, Node]:
        _, versions, kinds, _, actors, _ = s
        _, attempt, pin, schema, _ = actors[index]
        between = kinds[pin + 1 :]
        if self._applies(index):
            refused = any(kind != "R0" for kind in between)
            rows = tuple((*row[:2], 1) for row in versions[-1])
        else:
            refused = any(kind in ("A", "R") for kind in between)
            rows = (*versions[-1], (*pid, schema))
        if refused and self.scope.rules.lance_refuses:
            return f"{pid}: Lance refuses", _but(s, index, ("abort", attempt, pin, schema, 0))
        version = len(versions)
        then = "publish" if self.scope.rules.landed(version, pin) else "abort"
        kind = "A" if self._applies(index) else f"{pid[0]}.{attempt}"
        after = _but(s, index, (then, attempt, pin, schema, version), versions=(*versions, rows), kinds=(*kinds, kind))
        return f"{pid} lands at {version}", after

    def _publish(self, s: Node, index: int, pid: Pid) -> tuple[str, Node]:
        manifest, _, _, intents, actors, _ = s
        _, attempt, pin, schema, landed = actors[index]
        check = self._verdict(manifest[:2], _ended(manifest, pid), pid, (pin, schema), False)
        left = tuple(one for one in intents if one != pid)
        if check is Check.PUBLISHED:
            return f"{pid} finds itself published", _but(s, index, ("end", attempt, pin, schema, landed), intents=left)
        if check is Check.GO:
            after = self._swapped(manifest, pid, landed, pin)
            return f"{pid} publishes", _but(
                s, index, ("end", attempt, pin, schema, landed), manifest=after, intents=left
            )
        return f"{pid} is refused: {check.value}", _but(s, index, ("abort", attempt, pin, schema, landed))

    def _give_up(self, s: Node, index: int, pid: Pid) -> tuple[str, Node]:
        manifest, versions, kinds, intents, actors, _ = s
        _, attempt, pin, schema, landed = actors[index]
        left = tuple(one for one in intents if one != pid)
        if _ended(manifest, pid) == "commit":
            return f"{pid} finds itself published", _but(s, index, ("end", attempt, pin, schema, landed), intents=left)
        again = attempt + 1 < self.scope.attempts
        then = ("open", attempt + 1, 0, 0, 0) if again else ("end", attempt, pin, schema, landed)
        now, number, commits, aborts, checked = manifest
        aborts = tuple(sorted({*aborts, pid}))
        if landed and len(versions) - 1 > now:
            after = (len(versions), number, commits, aborts, checked)
            found = _but(
                s, index, then, manifest=after, versions=(*versions, versions[now]), kinds=(*kinds, "R"), intents=left
            )
            return f"{pid} restores {now} and ends by abort", found
        return f"{pid} ends by abort", _but(
            s, index, then, manifest=(now, number, commits, aborts, checked), intents=left
        )

    def _swapped(self, manifest: Node, pid: Pid, landed: int, pin: int) -> Node:
        now, schema, commits, aborts, checked = manifest
        applies = pid[0] == "A"
        return (landed or now, 1 if applies else schema, (*commits, pid), aborts, pin if applies else checked)

    def _recover(self, s: Node) -> Iterator[tuple[str, Node]]:
        manifest, versions, kinds, intents, actors, (phase, pid) = s
        if phase == "look":
            for one in intents:
                yield f"a recoverer takes {one}", (*s[:5], ("judge", one))
        elif phase == "judge":
            over = (*s[:5], ("done", ()))
            index = self.scope.loads if pid[0] == "A" else int(pid[0][1:])
            _, attempt, pin, schema, _ = actors[index]
            if pid not in intents or attempt != pid[1]:
                yield "the intent is gone", over
                return
            mine = "A" if pid[0] == "A" else f"{pid[0]}.{attempt}"
            exact = len(kinds) > pin + 1 and kinds[pin + 1] == mine
            ended = _ended(manifest, pid)
            found = self._decision(pid, ended, (pin, schema), manifest[0], max(len(versions) - 1, manifest[0]), exact)
            if found is Decision.ROLL_FORWARD:
                check = self._verdict(manifest[:2], ended, pid, (pin, schema), True)
                if check is Check.GO:
                    landed = pin + 1 if self._plan(pid, pin, schema).effects else 0
                    after = self._swapped(manifest, pid, landed, pin)
                    yield f"the recoverer rolls {pid} forward", (after, *s[1:5], ("done", ()))
                    return
            yield "the recoverer leaves it", over

    # --- what must hold -----------------------------------------------------------------------------------------------

    def check(self, s: Node) -> str | None:
        (pin, schema, commits, _, checked), versions, *_ = s
        rows = versions[pin]
        old = [row for row in rows if row[2] < schema and not (self.scope.kind == RULE and row in versions[checked])]
        if old:
            return f"rows {old} were made under an older schema than the one they are published under"
        wanted = sorted(pid for pid in commits if pid[0] != "A")
        found = sorted((row[0], row[1]) for row in rows if row[0] != "init")
        return None if wanted == found else f"the table holds {found}, the history says {wanted}"


def _ended(manifest: Node, pid: Pid) -> str:
    return "commit" if pid in manifest[2] else "abort" if pid in manifest[3] else ""


def _lineage(pid: Pid, ended: str) -> Lineage:
    row: HistoryRow | None = None
    if ended == "commit":
        row = CommitRow(str(pid), str(pid), (), None, 0, None, 2, "load")
    elif ended == "abort":
        row = AbortRow(str(pid), str(pid), None, 1, 0)
    return Lineage({} if row is None else {str(pid): row})


_PLACES = {"manifest": 0, "versions": 1, "kinds": 2, "intents": 3}


def _but(s: Node, index: int, actor: tuple[Any, ...], **changed: Any) -> Node:
    parts = list(s)
    for name, value in changed.items():
        parts[_PLACES[name]] = value
    parts[4] = (*s[4][:index], actor, *s[4][index + 1 :])
    return tuple(parts)
