"""Every interleaving of creators, deleters, cleaners, a trimmer and writers on one name, over the rules of ``manifest.refs``.

A creator claims the name, makes its line, binds the name and looks before it reports; it takes over a name that is bound to a
closed line, or that it has seen being made for too long. A deleter closes the line and frees the name. The trimmer deletes entries
below the highest as it listed them, at any time later, and its deletes may arrive once more. A cleaner lists the lines, reads the name,
opens the lines, and later frees the name, raises the boundary of the lines that are dead to ``all``, and deletes them by what it saw.
A writer resolves the name and opens the line; its swap is refused where the line has moved, and lands unseen where the line was deleted.
It looks at the boundary before it answers, and where that is ``all``, for its own commit. A crash is a process that takes no further step.

``Rules`` are the project's own; a test replaces one and expects a counter-example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from omnigraph.commit.decide import swap_stands
from omnigraph.commit.lines import GraphLines, ManifestLine
from omnigraph.manifest import refs
from omnigraph.manifest.boundary import ALL, NONE
from omnigraph.manifest.refs import NameEntry, NameState
from omnigraph.testing.explorer import State

Log = tuple[tuple[int, str, int], ...]


def _entry(said: tuple[int, str, int]) -> NameEntry:
    n, state, life = said
    return NameEntry(n, state, "a", str(life), None, None, 0)  # type: ignore[arg-type]


def highest_of(log: Log) -> NameEntry | None:
    return _entry(max(log)) if log else None


@dataclass(frozen=True)
class Rules:
    """What the processes decide by."""

    next_number: Callable[[NameEntry | None, NameState, str], int | None] = refs.next_number
    stands: Callable[[NameEntry, NameEntry | None], bool] = refs.stands
    trimmable: Callable[[Iterable[int]], tuple[int, ...]] = refs.trimmable
    given_up: Callable[[Iterable[NameEntry], Set[str], Set[str]], tuple[NameEntry, ...]] = refs.given_up
    closed: Callable[[GraphLines], Set[str]] = lambda lines: lines.closed
    dead: Callable[[ManifestLine], bool] = lambda line: line.is_dead
    lines_first: bool = True  # a cleaner lists the lines before it reads the names
    meaning: Callable[[Log], NameEntry | None] = highest_of
    look_again: bool = True  # after a number that was taken; else the next one is tried blindly
    closes: bool = True  # a deleter closes the line before it frees the name
    bounds: bool = True  # a cleaner raises the boundary of dead lines before it deletes them
    swap_stands: Callable[[int, int], bool] = swap_stands
    looks_for_own: bool = True  # a writer whose swap may not stand looks for its commit before it answers


@dataclass(frozen=True)
class Scope:
    creators: int = 2
    deleters: int = 1
    trims: int = 1
    repeats: int = 0
    cleanups: int = 0
    writers: int = 0
    bound_at_first: bool = True


def start(scope: Scope) -> State:
    """(log, closed lines, acknowledged lives, creators, deleters, trimmer, lines that are there, cleaner, writers, (life, writer) of
    each swap that has landed, lives whose boundary is ``all``)"""
    log: Log = ((0, "making", 0), (1, "bound", 0)) if scope.bound_at_first else ()
    acknowledged = (0,) if scope.bound_at_first else ()
    creators = tuple(("begin", -1, -1) for _ in range(scope.creators))
    deleters = tuple(("begin", -1, -1) for _ in range(scope.deleters))
    cleaner = ("begin", scope.cleanups, (), (), ())
    trimmer = (scope.trims, (), (), scope.repeats)
    writers = (("begin", -1, -1),) * scope.writers
    return (log, (), acknowledged, creators, deleters, trimmer, acknowledged, cleaner, writers, (), ())


def steps(rules: Rules) -> Callable[[State], Iterator[tuple[str, State]]]:
    def following(state: State) -> Iterator[tuple[str, State]]:
        for index in range(len(state[3])):
            yield from _creator(rules, state, index)
        for index in range(len(state[4])):
            yield from _deleter(rules, state, index)
        yield from _trimmer(rules, state)
        yield from _cleaner(rules, state)
        for index in range(len(state[8])):
            yield from _writer(rules, state, index)

    return following


def check(rules: Rules) -> Callable[[State], str | None]:
    def wrong(state: State) -> str | None:
        """An acknowledged branch whose deletion has not begun is bound to its name, and its line is there. What a writer has answered
        of its commit is so."""
        log, closed, acknowledged = state[:3]
        highest = rules.meaning(log)
        begun = {*closed, *(life for phase, _, life in state[4] if phase in ("free", "look", "done"))}
        for phase, life, _ in state[8]:
            if phase in WRONGLY_TOLD:
                return f"{phase}: on {life}"
        for life in acknowledged:
            if life not in begun and (highest is None or (highest.state, highest.identity) != ("bound", str(life))):
                return f"lost branch: {life} was acknowledged and is not bound"
            if life not in begun and life not in state[6]:
                return f"lost branch: {life} was acknowledged and its line is gone"
        return None

    return wrong


def _put(state: State, place: int, index: int, value: object, **changed: object) -> State:
    parts = list(state)
    rows = list(parts[place])
    rows[index] = value
    parts[place] = tuple(rows)
    for name, given in changed.items():
        parts[("log", "closed", "acknowledged").index(name)] = given
    return tuple(parts)


def _create(log: Log, said: tuple[int, str, int]) -> Log | None:
    """Create-if-absent."""
    return None if any(entry[0] == said[0] for entry in log) else tuple(sorted((*log, said)))


def _creator(rules: Rules, state: State, index: int) -> Iterator[tuple[str, State]]:
    """(phase, the number to write at, the life whose entry is to be freed)"""
    log, closed, acknowledged = state[:3]
    phase, number, other = state[3][index]
    me = index + 1
    highest = rules.meaning(log)
    if phase == "begin":
        free = rules.next_number(highest, "making", str(me))
        if free is not None:
            yield f"{me} sees the name free", _put(state, 3, index, ("claim", free, -1))
        elif highest is not None:
            life = int(highest.identity)
            taken_over = life != me and refs.reads_as_free(highest, line_closed=life in closed, beyond_grace=True)
            at = rules.next_number(highest, "free", highest.identity)
            if taken_over and at is not None:
                yield f"{me} takes over from {life}", _put(state, 3, index, ("free", at, life))
    elif phase == "free":
        after = _create(log, (number, "free", other))
        yield f"{me} writes {number} free {other}", _put(state, 3, index, ("begin", -1, -1), log=after or log)
    elif phase == "claim":
        after = _create(log, (number, "making", me))
        then = ("begin", -1, -1) if after is None else ("line", number + 1, -1)
        yield f"{me} writes {number} making", _put(state, 3, index, then, log=after or log)
    elif phase == "line":
        made = _put(state, 3, index, ("bind", number, -1))
        yield f"{me} makes its line", (*made[:6], tuple(sorted((*made[6], me))), *made[7:])
    elif phase == "bind":
        after = _create(log, (number, "bound", me))
        if after is not None:
            yield f"{me} writes {number} bound", _put(state, 3, index, ("report", number, -1), log=after)
        elif not rules.look_again:
            yield f"{me} tries the next number", _put(state, 3, index, ("bind", number + 1, -1))
        else:
            again = rules.next_number(highest, "bound", str(me))
            then = ("failed", -1, -1) if again is None else ("bind", again, -1)
            yield f"{me} looks again", _put(state, 3, index, then)
    elif phase == "report":
        if rules.stands(_entry((number, "bound", me)), highest):
            done = tuple(sorted((*acknowledged, me)))
            yield f"{me} reports its branch", _put(state, 3, index, ("done", -1, -1), acknowledged=done)
        else:
            yield f"{me} has lost the name", _put(state, 3, index, ("failed", -1, -1))


def _deleter(rules: Rules, state: State, index: int) -> Iterator[tuple[str, State]]:
    log, closed = state[:2]
    phase, number, life = state[4][index]
    who = f"deleter {index}"
    highest = rules.meaning(log)
    if phase == "begin" and highest is not None and highest.state == "bound":
        at = rules.next_number(highest, "free", highest.identity)
        if at is not None:
            yield f"{who} resolves {highest.identity}", _put(state, 4, index, ("close", at, int(highest.identity)))
    elif phase == "close":
        after = tuple(sorted({*closed, life})) if rules.closes else closed
        yield f"{who} closes {life}", _put(state, 4, index, ("free", number, life), closed=after)
    elif phase == "free":
        after = _create(log, (number, "free", life))
        then = ("done", -1, life) if after is not None else ("look", -1, life)
        if after is None and not rules.look_again:
            then = ("free", number + 1, life)
        yield f"{who} writes {number} free {life}", _put(state, 4, index, then, log=after or log)
    elif phase == "look":
        again = rules.next_number(highest, "free", str(life))
        yield (
            f"{who} looks again",
            _put(state, 4, index, ("done", -1, life) if again is None else ("free", again, life)),
        )


def _trimmer(rules: Rules, state: State) -> Iterator[tuple[str, State]]:
    """(runs left, numbers to delete, numbers whose delete may come again, repeats left)"""
    log: Log = state[0]
    runs, todo, sent, repeats = state[5]
    rest, others = state[1:5], state[6:]
    if runs and not todo and log:
        doomed = rules.trimmable([entry[0] for entry in log])
        if doomed:
            yield "the trimmer lists the log", (log, *rest, (runs - 1, doomed, sent, repeats), *others)
    for number in todo:
        after = tuple(entry for entry in log if entry[0] != number)
        remembered = tuple(sorted({*sent, number})) if repeats else sent
        left = tuple(n for n in todo if n != number)
        yield f"the trimmer deletes {number}", (after, *rest, (runs, left, remembered, repeats), *others)
    for number in sent if repeats else ():
        after = tuple(entry for entry in log if entry[0] != number)
        if after != log:
            yield f"the delete of {number} comes again", (after, *rest, (runs, todo, sent, repeats - 1), *others)


def _cleaner(rules: Rules, state: State) -> Iterator[tuple[str, State]]:
    """(phase, runs left, lines as they were listed, what the name said, (closed, dead) as they were seen or the entry to write)"""
    log: Log = state[0]
    phase, runs, listed, said, seen = state[7]

    def become(after: State, *cleaner: Any) -> State:
        return (*after[:7], cleaner, *after[8:])

    first, second = ("lines", "name") if rules.lines_first else ("name", "lines")
    following = {first: second, second: "open"}
    if phase == "begin":
        if runs:
            yield "the cleaner begins", become(state, first, runs - 1, (), (), ())
    elif phase == "lines":
        yield "the cleaner lists the lines", become(state, following[phase], runs, state[6], said, ())
    elif phase == "name":
        now = max(log) if log else ()
        yield f"the cleaner reads {now}", become(state, following[phase], runs, listed, now, ())
    elif phase == "open":
        lines = _opened(state, listed, said)
        closed = tuple(sorted(rules.closed(lines)))
        dead = tuple(sorted(int(line.identity) for line in lines.lines if rules.dead(line)))
        yield f"the cleaner finds {closed} closed, {dead} dead", become(state, "tend", runs, (), (), (closed, dead))
    elif phase == "tend":
        highest = highest_of(log)
        entries = () if highest is None else (highest,)
        outcomes = set()
        for stuck in (frozenset(), frozenset(one.key for one in entries)):
            given_up = rules.given_up(entries, frozenset(seen[0]), stuck)
            outcomes.add(tuple((one.n + 1, "free", int(one.identity)) for one in given_up))
        for freed in sorted(outcomes):
            yield f"the cleaner frees {freed}", become(state, "free", runs, freed, (), seen)
    elif phase == "free":
        after = log
        for entry in listed:
            after = _create(after, entry) or after
        yield f"the cleaner writes {listed}", become((after, *state[1:]), "bound", runs, (), (), seen)
    elif phase == "bound":
        bounds = tuple(sorted({*state[10], *seen[1]})) if rules.bounds else state[10]
        yield f"the cleaner gives up the lines {seen[1]}", become((*state[:10], bounds), "sweep", runs, (), (), seen)
    elif phase == "sweep":
        left = tuple(life for life in state[6] if life not in seen[1])
        swept = (*state[:6], left, *state[7:])
        yield f"the cleaner deletes the lines {seen[1]}", become(swept, "begin", runs, (), (), ())


LOST, FALSE_FAILURE = WRONGLY_TOLD = ("lost commit", "false failure")


def _writer(rules: Rules, state: State, index: int) -> Iterator[tuple[str, State]]:
    """(phase, life, swaps on its line when it was opened; once its own has landed: whether the deletion had been reported before)"""
    log, closed, deleters, lines, landed, bounds = state[0], state[1], state[4], state[6], state[9], state[10]
    phase, life, base = state[8][index]
    who = f"writer {index}"

    def become(*writer: Any, more: tuple[tuple[int, int], ...] = ()) -> State:
        writers = (*state[8][:index], writer, *state[8][index + 1 :])
        return (*state[:8], writers, tuple(sorted((*landed, *more))), bounds)

    there, moved = life in lines, life in closed or sum(one[0] == life for one in landed) != base
    if phase == "begin":
        highest = rules.meaning(log)
        if highest is not None and highest.state == "bound":
            found = int(highest.identity)
            if found in lines and found not in closed:
                on_it = sum(one[0] == found for one in landed)
                yield f"{who} opens {found}", become("swap", found, on_it)
    elif phase == "swap":
        if there and moved:
            yield f"{who} is refused", become("done", life, 0)
        elif there:
            late = any(one[0] == "done" and one[2] == life for one in deleters)
            yield f"{who} lands on {life}", become("ask", life, int(late), more=((life, index),))
        else:
            yield f"{who} lands where {life} was", become("ask", life, 1)
    elif phase == "ask":
        stands = rules.swap_stands(base + 1, ALL if life in bounds else NONE)
        found_it = there and (life, index) in landed
        if stands or (rules.looks_for_own and found_it):
            yield f"{who} reports its commit", become(LOST if base else "done", life, 0)
        elif rules.looks_for_own:
            yield f"{who} does not know", become("done", life, 0)
        else:
            yield f"{who} reports that it failed", become(FALSE_FAILURE if found_it else "done", life, 0)


def _opened(state: State, listed: tuple[int, ...], said: tuple[Any, ...]) -> GraphLines:
    """The lines as the engine sees them: those that were listed, and the one that the name was bound to."""
    there = [
        life for life in sorted({*listed, *([said[2]] if said and said[1] == "bound" else [])}) if life in state[6]
    ]
    found = []
    for life in there:
        closed = "closed" if life in state[1] else None
        held: Any = SimpleNamespace(state=SimpleNamespace(identity=str(life), head=SimpleNamespace(closed=closed)))
        claims = bool(said) and said[2] == life and said[1] != "free"
        name = "a" if claims and said[1] == "bound" and closed is None else None
        found.append(ManifestLine(name, held, claims))
    return GraphLines(tuple(found))
