"""Processes that make, write, merge and delete branches beside upkeep: what each does, what it says about it, and who judges that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from omnigraph import graph as graphs
from omnigraph.core.errors import AlreadyExists, Conflict, NotFound, OmnigraphError
from omnigraph.graph import Graph
from omnigraph.store import layout
from omnigraph.testing.children import Child
from omnigraph.wire.cleanup import CleanupReport

SCHEMA = """\
node Person { name: String @key age: I32? }
node Place { name: String @key }
"""
TURNS_MAX = 400  # of one process for one life: the name is mostly another one's
Say = Callable[[Any], None]


def start(root: str) -> None:
    with graphs.init(root, SCHEMA) as graph:
        for name in ("a", "b", "c"):
            graph.load([person(name)], mode="append")


def person(name: str, age: int = 0) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, "age": age}}


def place(name: str) -> dict[str, Any]:
    return {"type": "Place", "data": {"name": name}}


def ended(root: str) -> Path:
    """A file that tells upkeep to end."""
    return Path(f"{root}.ended")


def together(root: str, workers: Iterable[Child], upkeep: Iterable[Child], limit_s: float) -> list[Any]:
    """What all have said, upkeep last: it goes on until the workers have ended."""
    workers, upkeep = list(workers), list(upkeep)
    said: list[Any] = []
    try:
        for child in workers:
            said += child.hear_all(limit_s)
        ended(root).touch()
        for child in upkeep:
            said += child.hear_all(limit_s)
    finally:
        for child in (*workers, *upkeep):
            if child.alive:
                child.kill()
    return said


# --- workers --------------------------------------------------------------------------------------------------------------


def live(say: Say, root: str, who: str, name: str, lives: int) -> None:
    """Make the branch, write to it and delete it, so many times, beside others who do the same under the same name.

    Others may delete each life before its write: there are more lives until one was written to."""
    with graphs.open(root, actor=who) as graph:
        made = wrote = 0
        for turn in range(lives * TURNS_MAX):
            if made >= lives and wrote:
                break
            info = _tried(say, name, graph.branches.create, name)
            if info is not None:
                made += 1
                say(("made", name, info.identity))
            row = f"{who}-{turn}"
            if info is not None and _tried(say, name, _load, graph, name, row) is not None:
                wrote += 1
                say(("wrote", name, identity_of(graph, name), row))
            gone = _tried(say, name, graph.branches.delete, name)
            if gone is not None:
                say(("deleted", name, gone.identity))
    say(("done", who))


def fork(say: Say, root: str, who: str, rounds: int) -> None:
    """Write first to one table: on a branch of one's own, and on one that is there and that others write to first as well."""
    with graphs.open(root, actor=who) as graph:
        for number in range(rounds):
            own, shared = f"{who}-{number}", f"all-{number}"
            info = _tried(say, own, graph.branches.create, own)
            if info is not None:
                say(("made", own, info.identity))
            for name in (own, shared):
                if _tried(say, name, _load, graph, name, own) is not None:
                    say(("wrote", name, identity_of(graph, name), own))
    say(("done", who))


def work(say: Say, root: str, who: str, shared: str, rounds: int) -> None:
    """Branches of one's own, of which some are merged, some deleted and some left; and a branch that another one deletes."""
    with graphs.open(root, actor=who) as graph:
        for number in range(rounds):
            name = f"{who}-{number}"
            info = _tried(say, name, graph.branches.create, name)
            if info is not None:
                say(("made", name, info.identity))
            for row in (f"{name}-x", f"{name}-y"):
                if _tried(say, name, _load, graph, name, row) is not None:
                    say(("wrote", name, identity_of(graph, name), row))
            if _tried(say, shared, _load, graph, shared, name) is not None:
                say(("wrote", shared, identity_of(graph, shared), name))
            if number % 3 == 0:
                if _tried(say, name, _merge, graph, name) is not None:
                    say(("merged", name, "main"))
            elif number % 3 == 1:
                gone = _tried(say, name, graph.branches.delete, name)
                if gone is not None:
                    say(("deleted", name, gone.identity))
    say(("done", who))


def remake(say: Say, root: str, shared: str, rounds: int) -> None:
    """Delete the branch that others write to, and make it again."""
    with graphs.open(root, actor="remaker") as graph:
        for number in range(rounds):
            info = _tried(say, shared, graph.branches.create, shared)
            if info is not None:
                say(("made", shared, info.identity))
            if _tried(say, "main", _load, graph, "main", f"main-{number}") is not None:
                say(("wrote", "main", None, f"main-{number}"))
            gone = _tried(say, shared, graph.branches.delete, shared)
            if gone is not None:
                say(("deleted", shared, gone.identity))
    say(("done", "remaker"))


def _load(graph: Graph, branch: str, row: str) -> Any:
    return graph.load([person(row), place(row)], mode="append", branch=branch, deadline_s=60)


def _merge(graph: Graph, branch: str) -> Any:
    return graph.branches.merge(branch, deadline_s=60)


def identity_of(graph: Graph, branch: str) -> str | None:
    """The branch that the last call under this name has met."""
    ref = graph._engine.ref_of(branch)
    return None if ref is None else ref.removeprefix("g-")


def _tried(say: Say, name: str, act: Callable[..., Any], *given: Any) -> Any | None:
    """None: the name is taken, gone or contended for, which says so by its type. Everything else is broken."""
    try:
        return act(*given)
    except (AlreadyExists, NotFound) as error:
        if error.facts.get("branch") != name:
            say(("broken", name, repr(error), error.facts))
    except Conflict as error:
        say(("contended", name, error.code))
    except OmnigraphError as error:
        say(("broken", name, repr(error), error.facts))
    return None


# --- upkeep ---------------------------------------------------------------------------------------------------------------


def clean(say: Say, root: str) -> None:
    with graphs.open(root, actor="cleaner") as graph:

        def once() -> Iterable[str]:
            report = graph.cleanup(keep=1, min_age="0s", confirm=True)
            return report.errors if isinstance(report, CleanupReport) else ["it only planned"]

        _until_ended(say, root, "cleaned", once)
    say(("done", "cleaner"))


def recover(say: Say, root: str, grace_s: float) -> None:
    with graphs.open(root, actor="recoverer") as graph:

        def once() -> list[str]:
            return [one.state for one in graph.recover(grace_s=grace_s).drifting if one.state != "busy"]

        _until_ended(say, root, "recovered", once)
    say(("done", "recoverer"))


def trim(say: Say, root: str) -> None:
    """Delete old entries of names, and those that were deleted in the rounds before once more: a repeat that comes late."""
    with graphs.open(root, actor="trimmer") as graph:
        engine = graph._engine
        gone: list[str] = []

        def once() -> list[str]:
            before = {entry.key for entry in engine.store.list(layout.BRANCHES)}
            engine.names.trim()
            engine.store.delete_many(gone)
            gone.extend(before - {entry.key for entry in engine.store.list(layout.BRANCHES)})
            del gone[:-200]
            return []

        _until_ended(say, root, "trimmed", once)
    say(("done", "trimmer"))


def _until_ended(say: Say, root: str, what: str, act: Callable[[], Iterable[str]]) -> None:
    rounds, over = 0, False
    while not over:
        over = ended(root).exists()  # once more after that
        try:
            found = list(act())
        except OmnigraphError as error:
            say(("broken", what, repr(error), error.facts))
            continue
        if found:
            say(("broken", what, found))
        rounds += 1
    say((what, rounds))


# --- judging --------------------------------------------------------------------------------------------------------------


def faults(root: str, said: list[Any], done: int) -> Iterator[str]:
    """What contradicts that acknowledged branches and commits are there, or were deleted with their branch."""
    yield from (str(line) for line in said if line[0] == "broken")
    if sum(line[0] == "done" for line in said) != done:
        yield f"{[line[1] for line in said if line[0] == 'done']} have ended, and {done} were begun"
    gone = {line[2] for line in said if line[0] == "deleted"}
    with graphs.open(root) as graph:
        graph.recover(grace_s=0)
        bound = {one.identity: one.name for one in graph.branches.list() if one.name != "main"}
        for _, name, identity in (line for line in said if line[0] == "made"):
            if identity not in gone and bound.get(identity) != name:
                yield f"the branch {name} was made as {identity} and is gone"
        yield from (f"{identity} was deleted and is bound" for identity in gone & bound.keys())
        rows = {name: people(graph, name) for name in ("main", *bound.values())}
        merged = {line[1] for line in said if line[0] == "merged"}
        for _, name, identity, row in (line for line in said if line[0] == "wrote"):
            if (name == "main" or identity in bound) and row not in rows[name]:
                yield f"{row} was written to {name} and is not there"
            if name in merged and row not in rows["main"]:
                yield f"{row} of {name} was merged and is not there"
        for _ in range(2):
            graph.cleanup(keep=1, min_age="0s", confirm=True)
        report = graph.verify(deep=True)
        if not report.clean:
            yield f"verify finds {[problem.message for problem in report.problems]}"


def people(graph: Graph, branch: str) -> set[str]:
    """The rows that are there whole: a write puts one into two tables."""
    snapshot = graph.snapshot(branch)
    found = [set(map(str, snapshot.to_arrow(name)["name"].to_pylist())) for name in ("Person", "Place")]
    if found[0] - {"a", "b", "c"} != found[1]:
        raise AssertionError(f"half a write is on {branch}: {sorted(found[0] ^ found[1])}")
    return found[0]
