"""The requests on intent files: create, replace, delete, read, list. What a file says is ``intent_format``'s business.

An unreadable intent is an error that names the file and leaves it where it is: guessing at one is how a recovery destroys
what it was to save.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Sequence

from omnigraph.commit.intent_format import (
    INTENT_BYTES_MAX,
    Intent,
    Ticket,
    encode_plan,
    encode_ticket,
)
from omnigraph.core.errors import Corruption, OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.store import KeyExists, Store, layout

__all__ = ["INTENT_BYTES_MAX", "Intent", "Intents", "Ticket", "decode", "encode_plan", "encode_ticket"]

KNOWN_MAX = 128  # intents of others that are remembered: a queue is hardly ever longer


def decode(op: str, data: bytes) -> Intent:
    """The intent that a file says; ``Corruption`` where it is none. Most commands meet no intent of others and never pay for
    the models that read one."""
    from omnigraph.commit import intent_reading

    return intent_reading.decode(op, data)


class Intents:
    """The intent files of one graph."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.seen = 0  # how many there were when they were last listed
        self.newest: str | None = None  # the last of them
        self.refused: frozenset[str] = frozenset()  # operations whose offers were refused, by the same listing
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Intent | None] = OrderedDict()
        self._stamped: OrderedDict[tuple[str, str], Intent | None] = OrderedDict()

    def arm(self, op: str, data: bytes, meter: Meter | None = None) -> None:
        """Create the file. A lost answer is resolved by the store; ours already there is success."""
        try:
            self._store.create(layout.intent_key(op), data, meter=meter)
        except KeyExists as error:
            raise Corruption(
                f"another intent has the name {layout.intent_key(op)}", object=layout.intent_key(op)
            ) from error

    def rewrite(self, op: str, data: bytes, meter: Meter | None = None) -> None:
        """Replace our own ticket by the plan it waited for."""
        self._store.replace(layout.intent_key(op), data, meter=meter)

    def disarm(self, op: str, meter: Meter | None = None) -> OmnigraphError | None:
        """Delete the file. Failing to is a warning for the caller to pass on: the next recovery finishes it."""
        try:
            self._store.delete(layout.intent_key(op), meter=meter)
        except OmnigraphError as error:
            return error
        return None

    def disarm_all(self, ops: Sequence[str], meter: Meter | None = None) -> dict[str, OmnigraphError]:
        """Delete the files of several operations, and say why those that are left are there."""
        keys = {layout.intent_key(op): op for op in ops}
        try:
            failures = self._store.delete_many(keys, meter=meter)
        except OmnigraphError as error:
            return dict.fromkeys(ops, error)
        return {keys[failure.key]: failure.error for failure in failures}

    def read(self, op: str, meter: Meter | None = None) -> Intent | None:
        """The intent, or None where it is gone: its operation has ended."""
        data = self._store.get(layout.intent_key(op), meter=meter)
        return None if data is None else decode(op, data)

    def first_seen(self, op: str, meter: Meter | None = None) -> Intent | None:
        """The intent as this process first read it: the tables that a ticket names hold for the plan that it becomes."""
        with self._lock:
            if op in self._known:
                return self._known[op]
        return self._remember(op, self.read(op, meter))

    def _remember(self, op: str, found: Intent | None) -> Intent | None:
        with self._lock:
            self._known[op] = found
            while len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        return found

    def note(self, op: str, data: bytes) -> None:
        """Remember what a file says that was read unread, unless one of the operation is known."""
        with self._lock:
            if op in self._known:
                return
        with contextlib.suppress(Corruption):  # the next look reads it again, and raises
            self._remember(op, decode(op, data))

    def has_stamped(self, op: str, stamp: str) -> bool:
        with self._lock:
            return (op, stamp) in self._stamped

    def stamped(self, op: str, stamp: str, meter: Meter | None = None) -> Intent | None:
        """The intent that was listed with this change stamp. A ticket may become an offer, and an offer a plan: each is read once."""
        with self._lock:
            if (op, stamp) in self._stamped:
                return self._stamped[op, stamp]
        found = self.read(op, meter)
        with self._lock:
            self._stamped[op, stamp] = found
            while len(self._stamped) > KNOWN_MAX:
                self._stamped.popitem(last=False)
        return found

    def glance(self, op: str, meter: Meter | None = None) -> bytes | None:
        """The file as it is, unread; None where it is gone."""
        return self._store.get(layout.intent_key(op), meter=meter)

    def names(self, meter: Meter | None = None) -> list[tuple[str, str]]:
        """(operation id, change stamp) of every pending intent, oldest first. Fails loudly if it cannot list."""
        found = []
        refused = []
        for entry in self._store.list(layout.INTENTS, meter=meter):
            op = layout.record_ulid(entry.key)
            if op is not None:
                found.append((op, f"{entry.size}:{entry.modified_us}"))
            elif (other := layout.refused_ulid(entry.key)) is not None:
                refused.append(other)
        found.sort()
        self.refused = frozenset(refused)
        self.seen = len(found)
        self.newest = found[-1][0] if found else None
        return found
