"""Inputs that people get wrong, and what the answer to each has to say.

The rule: one point if the answer names the place, one if it says what to do, one if the exit code is right and nothing was
written. What ought to be taken has all three for being taken. ``python -m tests.component.cli.bad_inputs`` prints the
scores, with the answers of those that have less than three; with ``-v`` of all.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = """
node Person {
  email: String @key
  name: String
  height: I32?
  weight: F64?
  born: Date?
  seen: DateTime?
  mood: enum(calm, cross)?
  tags: [String]?
  @range(height, 30..280)
}
node City { name: String @key }
edge Knows: Person -> Person { since: Date?  @unique(src, dst) }
edge LivesIn: Person -> City @card(0..1)
"""
THERE = [
    {"type": "Person", "data": {"email": "a@x", "name": "Ann", "height": 170}},
    {"type": "Person", "data": {"email": "b@x", "name": "Bob"}},
    {"type": "City", "data": {"name": "Rome"}},
    {"edge": "LivesIn", "from": "a@x", "to": "Rome"},
]
GRAPH = "g.omni"


@dataclass(frozen=True)
class Case:
    """One input. ``place`` and ``remedy``: texts that the answer has, each of them; case counts. ``make`` writes files."""

    name: str
    words: tuple[str, ...]
    code: int
    place: tuple[str, ...] = ()
    remedy: tuple[str, ...] = ()
    make: Callable[[], object] = lambda: None
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Scored:
    case: Case
    place: bool
    remedy: bool
    right: bool
    code: int
    said: str

    @property
    def points(self) -> int:
        return self.place + self.remedy + self.right


def score(case: Case) -> Scored:
    """Run one case in the current folder, which has the graph."""
    from omnigraph.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    case.make()
    before = _files()
    kept = {name: os.environ.get(name) for name, _ in case.environment}
    os.environ.update(dict(case.environment))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(list(case.words))
    finally:
        for name, value in kept.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    said = "".join(stream.buffer.getvalue().decode() for stream in (err, out))  # type: ignore[attr-defined]
    unchanged = case.code == 0 or _files() == before
    return Scored(
        case,
        all(text in said for text in case.place),
        all(text in said for text in case.remedy),
        code == case.code and unchanged and "Traceback" not in said,
        code,
        said,
    )


def _files() -> set[str]:
    return {str(path) for path in Path(GRAPH).rglob("*")}


@contextlib.contextmanager
def folder_with_graph(folder: Path) -> Iterator[None]:
    import omnigraph as og

    before = os.getcwd()
    os.chdir(folder)
    try:
        with og.init(GRAPH, SCHEMA) as graph:
            graph.load(THERE, mode="append")
            graph.checkpoints.create("good")
        Path("s.pg").write_text(SCHEMA)
        yield
    finally:
        os.chdir(before)


# --- how cases are written ----------------------------------------------------------------------------------------------

CORRECT = ("correct",)


def _remedy(remedy: Sequence[str], code: int) -> tuple[str, ...]:
    """What is taken needs no correction, unless another remedy is named."""
    return tuple(remedy) if code or tuple(remedy) != CORRECT else ()


def person(**data: Any) -> str:
    return json.dumps({"type": "Person", "data": {"email": "c@x", "name": "Cy", **data}})


def edge(name: str, from_: str, to: str) -> str:
    return json.dumps({"edge": name, "from": from_, "to": to})


def records(
    name: str, text: str | bytes, *place: str, remedy: Sequence[str] = CORRECT, code: int = 3, more: Sequence[str] = ()
) -> Case:
    """A load of one NDJSON file."""
    file = name.replace(" ", "-") + ".jsonl"
    data = text if isinstance(text, bytes) else text.encode()
    words = ("load", GRAPH, "--mode", "append", "--data", file, *more)
    return Case(f"NDJSON: {name}", words, code, place, _remedy(remedy, code), lambda: Path(file).write_bytes(data))


def taken(name: str, text: str | bytes) -> Case:
    return records(name, text, code=0)


def table(
    name: str, text: str | bytes, *place: str, remedy: Sequence[str] = CORRECT, code: int = 3, more: Sequence[str] = ()
) -> Case:
    """A load of one CSV file of persons."""
    file = name.replace(" ", "-") + ".csv"
    data = text if isinstance(text, bytes) else text.encode()
    words = ("load", GRAPH, "--mode", "append", "--node", f"Person={file}", *more)
    return Case(f"CSV: {name}", words, code, place, _remedy(remedy, code), lambda: Path(file).write_bytes(data))


def parquet(name: str, columns: dict[str, Any], *place: str, remedy: Sequence[str] = CORRECT, code: int = 3) -> Case:
    file = name.replace(" ", "-") + ".parquet"
    words = ("load", GRAPH, "--mode", "append", "--node", f"Person={file}")
    made = {"email": pa.array(["p@x"]), "name": pa.array(["Pia"]), **columns}
    return Case(
        f"Parquet: {name}",
        words,
        code,
        place,
        _remedy(remedy, code),
        lambda: pq.write_table(pa.table(made), file),
    )


def typed(words: str | Sequence[str], code: int, *place: str, remedy: Sequence[str] = (), **more: Any) -> Case:
    """A command line. A text is split at blanks."""
    given = tuple(words.split()) if isinstance(words, str) else tuple(words)
    return Case("omnigraph " + " ".join(given)[:80], given, code, place, tuple(remedy), **more)


def schema(name: str, text: str, *place: str, remedy: Sequence[str] = (), code: int = 3) -> Case:
    file = name.replace(" ", "-") + ".pg"
    words = ("init", f"{name.replace(' ', '-')}.omni", "--schema", file)
    return Case(
        f"schema: {name}", words, code, place, tuple(remedy), lambda: Path(file).write_text(text, encoding="utf-8")
    )


def query(sql: str, code: int, *place: str, remedy: Sequence[str] = ("correct the SQL",)) -> Case:
    return typed(["query", GRAPH, "--sql", sql], code, *place, remedy=remedy)


def mutation(text: str, *place: str, remedy: Sequence[str] = (), code: int = 3, params: str | None = None) -> Case:
    more = [] if params is None else ["--params", params]
    return typed(["mutate", GRAPH, "-e", text, *more], code, *place, remedy=remedy)


def main(arguments: Sequence[str]) -> int:
    from tests.component.cli.bad_input_cases import CASES

    with tempfile.TemporaryDirectory() as folder, folder_with_graph(Path(folder)):
        found = [score(case) for case in CASES]
    for one in found:
        if one.points < 3 or "-v" in arguments:
            lacks = [name for name in ("place", "remedy", "right") if not getattr(one, name)]
            print(
                f"{one.points} {one.case.name}: exit {one.code}, lacks {', '.join(lacks) or 'nothing'}\n{one.said.rstrip()}\n"
            )
    points = [one.points for one in found]
    print(
        f"{len(points)} inputs; mean {sum(points) / len(points):.2f} of 3; {', '.join(f'{points.count(n)} × {n}' for n in (3, 2, 1, 0))}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
