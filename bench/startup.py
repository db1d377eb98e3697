"""What a process pays before it works, and what the languages and small parts cost: seconds of one processor.

Each row is the least of a few tries, in processor time, so that other work on the machine matters little. Bars are printed
beside the figures; nothing fails by them.
"""

from __future__ import annotations

import contextlib
import itertools
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

import omnigraph as og
from bench.results import Table, compiled_once, table
from omnigraph.core import failpoints, ids
from omnigraph.core.errors import InvalidInput
from omnigraph.gq import check_query, lint, parse_queries
from omnigraph.schema import Catalog, parse_schema
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import PropType, ScalarKind
from omnigraph.schema.keytext import column_text

JUNK_BYTES = 9_000_000
QUERY = """
query add_{0}($name: String, $age: I32?) @description("adds a person and an acquaintance") {{
  insert Person {{ name: $name, age: $age }}
  insert Knows {{ from: $name, to: "Ada", since: date("2020-02-29") }}
  update Person set {{ age: 37 }} where name = $name
}}
"""
SCHEMA = """\
node Person { name: String @key age: I32? }
edge Knows: Person -> Person { since: Date? }
"""

Row = list[Any]


def run(*, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    tries = 1 if quick else 5
    size = JUNK_BYTES // (10 if quick else 1)
    columns = ["what", "core seconds", "bar"]
    tables = [
        table(
            "Starting",
            ["what", "core seconds", "× Python itself", "bar"],
            _starting(tries),
            ["A child process each time; everything that it imports counts, the threads of libraries too."],
        ),
        table("The languages", columns, _languages(tries)),
        table(f"Hostile texts of {size:,} bytes: the dearest of each kind", columns, _hostile(size)),
        table("Small parts", columns, _parts(tries, 100_000 if quick else 1_000_000)),
    ]
    return tables, {"tries": tries}


def _least(tries: int, work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(tries):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def _starting(tries: int) -> list[Row]:
    def child(*arguments: str) -> float:
        best = float("inf")
        for _ in range(tries):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *arguments], capture_output=True, check=True, env=compiled_once())
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return best

    def program(*words: str) -> float:
        run = f"import sys; sys.argv = {['omnigraph', *words]!r}; from omnigraph.cli import main; sys.exit(main())"
        return child("-c", run)

    python = child("-c", "pass")
    child("-c", "import omnigraph.graph")  # bytecode is written once
    with tempfile.TemporaryDirectory() as folder:
        uri = f"{folder}/g.omni"
        with og.init(uri, SCHEMA) as graph:
            graph.load([{"type": "Person", "data": {"name": "Ada"}}], mode="append")
        took: list[tuple[str, float, str]] = [
            ("Python itself", python, ""),
            ("`import omnigraph`", child("-c", "import omnigraph"), "< 0.5 s"),
            ("`omnigraph --help`", program("--help"), "≤ 16 ×"),
            ("`omnigraph status`", program("status", uri), "≤ 60 ×"),
            ("`omnigraph query`", program("query", uri, "--sql", "select 1"), "≤ 60 ×"),
        ]
    return [[what, seconds, round(seconds / python, 1), bar] for what, seconds, bar in took]


# --- the languages -----------------------------------------------------------------------------------------------------


def _catalog() -> Catalog:
    serial = itertools.count(1)
    return parse_schema(SCHEMA, mint=lambda: f"id{next(serial)}")


def _languages(tries: int) -> list[Row]:
    known = _catalog()
    queries = "".join(QUERY.format(number) for number in range(1_000))
    body = "name: String @key\n age: I32? @range(age, 0..120)\n" + "".join(f" p{j}: [F64]?\n" for j in range(8))
    types = "\n".join(f"node T{i} {{ {body} }}\nedge E{i}: T{i} -> T0 @card(0..5)" for i in range(1_000))

    def check() -> None:
        for query in parse_queries(queries).queries:
            if any(found.is_error for found in check_query(query, known)):
                raise AssertionError("a query of the bench has an error")

    def parse() -> None:
        serial = itertools.count(1)
        parse_schema(types, mint=lambda: f"id{next(serial)}")

    return [
        ["1,000 queries of three statements, parsed and checked", _least(tries, check), "< 2"],
        ["2,000 types of ten properties, parsed", _least(tries, parse), "< 2"],
    ]


def _hostile(size: int) -> list[Row]:
    known = _catalog()

    def dearest(texts: list[tuple[str, str]], act: Callable[[str], object]) -> float:
        """``texts``: how each begins, and what it repeats."""
        return max(_least(1, partial(_refused, act, head + piece * (size // len(piece)))) for head, piece in texts)

    queries = [("", piece) for piece in ("{", "[", "(", '"', "/*", "$", "query q() { insert P { a: [", "\\")]
    files = [
        ("", piece) for piece in ("query a(/*", "query a(//", 'query a("', "query a() { insert P { a: [", "query ")
    ]
    schemas = [
        ("node N { a: ", "["), ("", "/*"), ("node N { ", "a: I32 "), ("", '@"'), ('node N @a("', "\\n"), ("node N @a(", "("),
        ("node N { a: enum(", "x,"), ("", "//\n"), ("", "/**/"),
    ]  # fmt: skip
    return [
        ["queries, refused", dearest(queries, parse_queries), "< 5"],
        ["queries, linted", dearest(files, lambda text: lint(text, known)), "< 5"],
        ["schemas, refused", dearest(schemas, parse_schema), "< 20"],
    ]


def _refused(act: Callable[[str], object], text: str) -> None:
    with contextlib.suppress(InvalidInput):
        act(text)


# --- small parts -----------------------------------------------------------------------------------------------------------


def _parts(tries: int, count: int) -> list[Row]:
    def off() -> None:
        for _ in range(count):
            failpoints.hit("bench", table_key="node:Person")

    rows: list[Row] = [
        [f"{count:,} ids of rows, made in bulk", _least(tries, lambda: ids.bulk_ulids(count)), "< 0.1"],
        [f"{count:,} passes of a failpoint that is off", _least(tries, off), "< 1"],
    ]
    for kind in (ScalarKind.STRING, ScalarKind.I64):
        column = pa.array(range(count)).cast(arrow_type(PropType(kind)))
        took = _least(tries, partial(column_text, PropType(kind), column))
        rows.append([f"{count:,} texts of a key column, {kind.value}", took, "< 0.5"])
    return rows
