"""Capture once: one immutable view of a branch that every later stage of a write gets, and none looks past.

Owns the single question "has the branch moved?" and what an answer without a swap needs on top of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.decide import look_holds
from omnigraph.commit.engine import MAIN, Engine, gather
from omnigraph.core.errors import Corruption, NotFound
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.state import State
from omnigraph.manifest.swap import Held
from omnigraph.schema import Catalog
from omnigraph.table.dataset import TableRef
from omnigraph.table.pinned import PinnedTable
from omnigraph.table.torn import restore_hint
from omnigraph.table.version_list import version_path


@dataclass(frozen=True)
class Txn:
    """A branch as it stood at one moment, with everything that is read through it."""

    engine: Engine = field(repr=False)
    branch: str
    held: Held = field(repr=False)
    deadline: Deadline = field(repr=False)
    meter: Meter = field(repr=False)
    _pinned: dict[str, PinnedTable] = field(default_factory=dict, repr=False)

    @cached_property
    def state(self) -> State:
        return self.held.state

    @cached_property
    def catalog(self) -> Catalog:
        return self.engine.catalog(self.state.schema)

    def pin(self, table_key: str) -> Pin:
        pin = self.state.tables.get(table_key)
        if pin is None:
            raise NotFound(f"the graph has no table {table_key!r}", table_key=table_key)
        return pin

    def handle(self, table_key: str) -> Any:
        """The Lance handle at the pin: what a stage writes against and a commit is made on."""
        pin = self.pin(table_key)
        try:
            return self.engine.tables.open(TableRef(pin.location, pin.ref), pin.version, self.meter)
        except NotFound as error:
            if self.engine.latest(self.branch, self.meter).state.tables.get(table_key) != pin:
                raise  # the table has moved on since, and a cleanup may have taken this version
            raise _lost_pin(self.engine, pin) from error

    def open_ahead(self, written: Iterable[str], read: Iterable[str] = ()) -> None:
        """Open side by side what this write will ask for in any case: otherwise each table waits for its turn."""
        pins = [self.pin(key) for key in written]
        pins += [pin for key in read if (pin := self.pin(key)).rows and not self._layout_known(pin)]
        absent = [pin.key for pin in pins if not self.engine.tables.held(TableRef(pin.location, pin.ref), pin.version)]
        if len(absent) > 1:
            gather([self.engine.spawn(self.handle, key) for key in absent])

    def _layout_known(self, pin: Pin) -> bool:
        return self.engine.keys.layout(TableRef(pin.location, pin.ref).relative, pin.version) is not None

    def pinned(self, table_key: str) -> PinnedTable:
        """Reads of one table at its pin."""
        found = self._pinned.get(table_key)
        if found is None:
            pin = self.pin(table_key)
            found = pinned_table(self.engine, pin, self.meter, lambda: self.handle(table_key))
            self._pinned[table_key] = found
        return found

    # --- the view that validators read through ------------------------------------------------------------------------

    def rows(self, table_key: str) -> int:
        return self.pin(table_key).rows

    def contains(self, table_key: str, ids: pa.Array[Any]) -> pa.BooleanArray:
        return self.pinned(table_key).contains(ids)

    def fetch(self, table_key: str, column: str, values: pa.Array[Any], columns: Sequence[str]) -> pa.Table:
        return self.pinned(table_key).fetch(column, values, columns)

    def scan(self, table_key: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self.pinned(table_key).scan(columns)


def _lost_pin(engine: Engine, pin: Pin) -> Corruption:
    path = version_path(TableRef(pin.location, pin.ref), pin.version)
    return Corruption(
        f"version {pin.version} of {pin.key}, which the branch rests on, is not there: file={path}",
        hint=restore_hint(engine.uri),
        table_key=pin.key,
        version=pin.version,
        file=path,
    )


def pinned_table(
    engine: Engine, pin: Pin, meter: Meter | None = None, opened: Callable[[], Any] | None = None
) -> PinnedTable:
    """Reads of one pin. Opens the table, by ``opened`` if it is given, when a question first needs storage."""
    ref = TableRef(pin.location, pin.ref)
    return PinnedTable(
        opened or (lambda: engine.tables.open(ref, pin.version, meter)),
        ref,
        pin.version,
        pin.rows,
        engine.keys,
        meter,
        recent=pin.recent,
    )


def open_txn(
    engine: Engine, branch: str, *, deadline: Deadline, meter: Meter, newest: Future[Held] | None = None
) -> Txn:
    """The newest state of the branch: one request where nothing has changed since this process last looked. ``newest``:
    on its way already, for a writer that has waited in the queue.

    "Unchanged" is good enough for a write that ends in a swap. An answer that is not followed by one asks
    ``still_newest`` as well.
    """
    ref = engine.ref_of(branch, meter)
    held = engine.known(branch)
    meter.step()
    if newest is not None:
        held = newest.result()
        meter.step(3)
    elif held is None or engine.manifest.moved(held, meter):
        held = engine.latest(branch, meter)
        meter.step(3)
    if held.state.head.closed is not None and ref is not None:
        raise engine.gone(branch, ref, meter)
    return Txn(engine, branch, held, deadline, meter)


def still_newest(txn: Txn) -> bool:
    """Whether the state of this transaction may be answered from without a swap.

    The look that opened it says only that the next version is not there, which is also true after it was reclaimed.
    """
    doomed = txn.engine.boundary.value(txn.state.identity, repeated=txn.state.head.boundary, meter=txn.meter)
    txn.meter.step()
    if look_holds(txn.state.version, doomed):
        return True
    newest = txn.engine.latest(txn.branch, txn.meter)
    return newest.version == txn.state.version


def read_current(engine: Engine, branch: str, *, meter: Meter) -> Held:
    """The newest state of a branch, for a reader: two requests where nothing has changed."""
    engine.ref_of(branch, meter)
    held = engine.known(branch)
    if held is not None:
        probe = engine.spawn(engine.manifest.moved, held, meter)
        doomed = engine.boundary.value(held.state.identity, repeated=held.state.head.boundary, meter=meter)
        if not probe.result() and look_holds(held.version, doomed):
            return held
    return engine.latest(branch, meter)


__all__ = ["MAIN", "Txn", "open_txn", "read_current", "still_newest"]
