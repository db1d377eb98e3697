"""Drivers of plans that make a table, change one table in several commits, or fork it: shown on the effects alone, beside
the verbs that use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa

from omnigraph.commit.advance import RECOVERY, Answer, Answered, Swap, Swapped, Terms, advance
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.plan import Delta, Registration
from omnigraph.commit.properties import Counts
from omnigraph.commit.protocol.run import run
from omnigraph.commit.request import Outcome, Prepared, Request
from omnigraph.commit.steps import AppendRows, CreateTable, Step
from omnigraph.commit.txn import Txn
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import SchemaRow
from omnigraph.manifest.state import Change
from omnigraph.manifest.swap import Held
from omnigraph.schema import apply_plan, canonical_text, parse_schema, plan_change, schema_id
from omnigraph.schema.arrow import table_schema
from omnigraph.store import layout
from omnigraph.testing.operations import Operation, append, create, keys_of, opened, register, rows_for

MADE = "node:Made"
OTHER_BRANCH = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def write(
    engine: Engine, keys: list[str], steps_of: Callable[[Txn], Iterable[Step]], delta: Delta | None = None
) -> Outcome:
    """Publish the steps that ``steps_of(txn)`` returns, as one commit of kind ``load``."""

    def prepare(txn: Txn) -> Prepared:
        return Prepared(tuple(steps_of(txn)), delta=delta or Delta())

    return run(engine, Request("load", MAIN, frozenset(keys), "writer"), prepare, Meter())


def chained(engine: Engine, keys: list[str]) -> Outcome:
    """Two commits to each table, published together."""

    def steps(txn: Txn) -> list[Step]:
        return [
            AppendRows(key, (Counts(inserted=1),), rows_for(txn, key, [name])) for key in keys for name in ("a", "b")
        ]

    return write(engine, keys, steps)


def creating(engine: Engine, keys: list[str]) -> Outcome:
    """A type that is added, and its table made and filled, by the plan that also writes to the tables of others."""
    before = engine.latest(MAIN).state.schema
    source = f"{before.source}node Made {{ name: String @key n: I32? }}\n"
    change = plan_change(engine.catalog(before), parse_schema(source, mint=None))
    after = apply_plan(change)
    declared = after.by_table_key(MADE)
    made = Registration(MADE, new_ulid(), 1, declared.type_id, layout.table_path(MADE, new_ulid()))
    canonical = canonical_text(after)
    accepted = SchemaRow(source, canonical, after.hash, schema_id(canonical))
    rows = pa.table({"id": ["a"], "n": [0], "name": ["a"]}).select(table_schema(declared).names)

    def steps(txn: Txn) -> list[Step]:
        return [
            CreateTable(MADE, (Counts(),), made, table_schema(declared)),
            AppendRows(MADE, (Counts(inserted=1),), rows.cast(table_schema(declared))),
            *(AppendRows(key, (Counts(inserted=1),), rows_for(txn, key, ["a"])) for key in keys),
        ]

    stored = tuple(change.to_stored()["steps"])
    return write(engine, [MADE, *keys], steps, Delta(accepted, stored, (made,)))


def forking(engine: Engine, keys: list[str]) -> Outcome:
    """A write to tables whose lines another branch owns."""

    def steps(txn: Txn) -> list[Step]:
        return [AppendRows(key, (Counts(inserted=2),), rows_for(txn, key, ["a", "b"])) for key in keys]

    return write(engine, keys, steps)


def give_away(engine: Engine, keys: list[str]) -> None:
    """Make the pins of these tables say that another branch owns their lines, as after a merge that adopts them."""

    def propose(held: Held) -> Swap | Answer[None]:
        pins = {key: replace(held.state.tables[key], owner=OTHER_BRANCH) for key in keys}
        return (
            Answer(None) if all(held.state.tables[key] == pin for key, pin in pins.items()) else Swap(Change(pins), {})
        )

    ended = advance(engine, MAIN, propose, Terms(RECOVERY), meter=Meter())
    if not isinstance(ended, Swapped | Answered):
        raise AssertionError("a quiet graph takes the change")


def _commit_id(outcome: Outcome) -> str | None:
    return None if outcome.row is None else outcome.row.commit_id


def _seeded(root: str, width: int) -> None:
    create(root, width)


def _inherited(root: str, width: int) -> None:
    create(root, width)
    with opened(root) as engine:
        append(engine, keys_of(width), ["before"])
        give_away(engine, keys_of(width))


def _chain(root: str, width: int) -> str | None:
    with opened(root) as engine:
        return _commit_id(chained(engine, keys_of(width)))


def _create(root: str, width: int) -> str | None:
    with opened(root) as engine:
        return _commit_id(creating(engine, keys_of(width)))


def _fork(root: str, width: int) -> str | None:
    with opened(root) as engine:
        return _commit_id(forking(engine, keys_of(width)))


register(Operation("chain", frozenset(), _seeded, _chain, widths=(1, 2)))
register(Operation("create-table", frozenset(), _seeded, _create, widths=(1, 2), leaves=("nodes/Made-",)))
register(Operation("fork", frozenset(), _inherited, _fork, widths=(1, 2), leaves=("nodes/",)))
