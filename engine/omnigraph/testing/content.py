"""What a graph holds, as plain values, and what is wrong with it: the oracle of crash, fault and process tests.

Reads through the commit layer only, at the pins that the newest manifest names. Changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.lines import read_lines
from omnigraph.commit.recovery import audit
from omnigraph.commit.txn import pinned_table
from omnigraph.core.errors import Corruption, NotFound, OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.manifest import lineage
from omnigraph.manifest.consistency import line_of
from omnigraph.manifest.rows import CommitRow, HistoryRow, Pin
from omnigraph.manifest.swap import Held
from omnigraph.table.dataset import TableRef
from omnigraph.table.stats import stats_of

Row = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Content:
    """The rows of every table, without what is minted anew in each run (the ids of edges). Those of a branch stand under its name
    and the table key, with a blank between them."""

    tables: Mapping[str, tuple[Row, ...]]


def stays_put(root: str) -> bool:
    """Whether the graph of a folder can be read only where it was made: a fork names the files of another line by their place."""
    return any(Path(root).glob("*/*/tree"))


def content_of(engine: Engine) -> Content | None:
    """The content of main and of every branch; None where there is no graph."""
    try:
        held = engine.latest(MAIN, Meter())
    except NotFound:
        return None
    tables = {key: _rows(engine, pin) for key, pin in held.state.tables.items()}
    for name, branch in branches_of(engine).items():
        tables |= {f"{name} {key}": _rows(engine, pin) for key, pin in branch.state.tables.items()}
    return Content(tables)


def branches_of(engine: Engine) -> dict[str, Held]:
    """The branches beside main, by name. Raises ``Corruption`` where one cannot be read."""
    found = read_lines(engine, Meter())
    for trouble in found.troubles:
        raise Corruption(trouble.message, object=trouble.object)
    return {
        line.name: line.held
        for line in found.lines[1:]
        if line.name is not None and line.held.state.head.closed is None
    }


def _rows(engine: Engine, pin: Pin) -> tuple[Row, ...]:
    if pin.rows == 0:
        return ()
    drop = {"id"} if pin.key.startswith("edge:") else set()
    handle = engine.tables.open(TableRef(pin.location, pin.ref), pin.version)
    rows = (tuple((name, value) for name, value in row.items() if name not in drop) for row in _dicts(handle))
    return tuple(sorted(rows, key=repr))


def _dicts(handle: Any) -> Iterator[dict[str, Any]]:
    for batch in handle.to_batches():
        yield from batch.to_pylist()


def history_of(engine: Engine, held: Held | None = None) -> list[HistoryRow]:
    """Every history row, oldest first."""
    held = held or engine.latest(MAIN, Meter())
    return list(engine.history.rows(held))[::-1]


def commits_of(engine: Engine) -> list[CommitRow]:
    return [row for row in history_of(engine) if isinstance(row, CommitRow)]


# --- what is wrong ------------------------------------------------------------------------------------------------------


def faults_of(engine: Engine, *, quiet: bool = True) -> list[str]:
    """Everything that contradicts the protocol's promises. ``quiet``: nothing is under way, so neither an intent nor
    drift may be left."""
    found: list[str] = []
    for held in (engine.latest(MAIN, Meter()), *branches_of(engine).values()):
        found.extend(_history_faults(history_of(engine, held), held))
        for pin in held.state.tables.values():
            try:
                found.extend(_table_faults(engine, pin, quiet=quiet and pin.owner == held.state.identity))
            except OmnigraphError as error:
                found.append(f"{pin.key} at version {pin.version} does not read: {error}")
        found.extend(_endpoint_faults(engine, held))
    collected = Counter(row.op for row in audit.collected(engine))
    found.extend(f"operation {op} is on record {times} times" for op, times in collected.items() if times > 1)
    if quiet:
        found.extend(f"intent {op} is left" for op, _ in engine.pending())
    return found


def _history_faults(rows: list[HistoryRow], held: Held) -> Iterator[str]:
    if [row.seq for row in rows] != list(range(1, len(rows) + 1)):
        yield f"history numbers are not 1 to {len(rows)}: {[row.seq for row in rows][:20]}"
    yield from lineage.contradictions(rows, line_of(held.state))
    for key, times in Counter(r.idempotency_key for r in rows if isinstance(r, CommitRow)).items():
        if key is not None and times > 1:
            yield f"idempotency key {key} was committed {times} times"


def recent_faults(pin: Pin, handle: Any) -> Iterator[str]:
    """What the pin says of the ids of its newest rows and is not so: it would hide a row from who asks whether an id is taken."""
    for number in () if pin.recent is None else pin.recent.fragments:
        fragment = handle.get_fragment(number)
        if fragment is None:
            yield f"{pin.key}: the pin knows fragment {number}, which is not there"
            continue
        ids = fragment.to_table(columns=["id"])["id"].to_pylist()
        hidden = [one for one in ids if pin.recent is not None and not pin.recent.may_hold(one)]
        if hidden:
            yield f"{pin.key}: the pin hides {hidden[:5]} in fragment {number}"


def _table_faults(engine: Engine, pin: Pin, *, quiet: bool) -> Iterator[str]:
    handle = engine.tables.open(TableRef(pin.location, pin.ref), pin.version)
    stats = stats_of(handle)
    said = (pin.rows, pin.fragments, pin.bytes, pin.deleted_rows, pin.unindexed_fragments)
    true = (stats.rows, stats.fragments, stats.bytes, stats.deleted_rows, stats.unindexed_fragments)
    if said != true:
        yield f"{pin.key}: the pin says {said} (rows, fragments, bytes, deleted, unindexed), the table {true}"
    ids = handle.to_table(["id"])["id"].to_pylist()
    if len(ids) != pin.rows:
        yield f"{pin.key}: {pin.rows} rows pinned, {len(ids)} read"
    doubled = [one for one, times in Counter(ids).items() if times > 1]
    if doubled:
        yield f"{pin.key}: ids that stand twice: {doubled[:5]}"
    yield from recent_faults(pin, handle)
    head = engine.tables.head_version(handle)
    if head < pin.version or (quiet and head > pin.version):
        yield f"{pin.key}: pinned at {pin.version}, newest version {head}"


def _endpoint_faults(engine: Engine, held: Held) -> Iterator[str]:
    catalog = engine.catalog(held.state.schema)
    known: dict[str, set[Any]] = {}

    def ids(type_name: str) -> set[Any]:
        key = f"node:{type_name}"
        if key not in known:
            pin = held.state.tables[key]
            table = pinned_table(engine, pin)
            known[key] = {one for batch in table.scan(["id"]) for one in batch.column(0).to_pylist()}
        return known[key]

    for edge in catalog.edges.values():
        pin = held.state.tables[edge.table_key]
        if pin.rows == 0:
            continue
        for batch in pinned_table(engine, pin).scan(["src", "dst"]):
            for row in batch.to_pylist():
                if row["src"] not in ids(edge.src_type) or row["dst"] not in ids(edge.dst_type):
                    yield f"{edge.table_key}: an edge from {row['src']!r} to {row['dst']!r} dangles"


# --- leftovers ----------------------------------------------------------------------------------------------------------

_ALLOWED = (
    "__manifest/",
    "__boundary/",
    "__branches/",
    "__checkpoints/",
    "__cleanup/",
    "__recoveries/",
    "__checksums/",
    "nodes/",
    "edges/",
    "_graph_commit_recoveries.lance/",
)
_ALLOWED_FILES = ("__probe",)


def leftovers_of(engine: Engine, also: tuple[str, ...] = ()) -> list[str]:
    """Objects that no rule allows after an interrupted write was recovered: intents, staging records, strays."""
    return [
        entry.key
        for entry in engine.store.list("")
        if not entry.key.startswith((*_ALLOWED, *also)) and entry.key not in _ALLOWED_FILES
    ]
