"""The intent file ``__recovery/{ulid}.json``: a plan on storage, or a ticket that waits for its turn.

Owns the byte format and the requests on it. An unreadable intent is an error that names the file and leaves it where it
is: guessing at one is how a recovery destroys what it was to save.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from omnigraph.commit import plan as p
from omnigraph.core.errors import Corruption, LimitExceeded, OmnigraphError
from omnigraph.core.ids import is_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import Pin, SchemaRow, Tombstone
from omnigraph.store import KeyExists, Store, layout

FORMAT = 1
INTENT_BYTES_MAX = 4 * 1024 * 1024
NESTING_MAX = 32
KNOWN_MAX = 128  # intents of others that are remembered: a queue is hardly ever longer

State = Literal["waiting", "armed"]


@dataclass(frozen=True)
class Ticket:
    """A writer that waits for its turn: which tables, and who. There is no plan yet."""

    graph: str
    op: str
    kind: str
    branch: p.BranchName
    keys: tuple[str, ...]
    owner: p.Owner


@dataclass(frozen=True)
class Intent:
    """One file as read: a ticket, or a plan, and the stamp by which a waiter sees it change."""

    op: str
    ticket: Ticket | None
    plan: p.PublishPlan | None
    stamp: str

    @property
    def graph(self) -> str:
        return (self.plan or self._ticket).graph

    @property
    def owner(self) -> p.Owner:
        return (self.plan or self._ticket).owner

    @property
    def branch(self) -> p.BranchName:
        return (self.plan or self._ticket).branch

    @property
    def kind(self) -> str:
        return (self.plan or self._ticket).kind

    @property
    def keys(self) -> frozenset[str]:
        return self.plan.keys if self.plan is not None else frozenset(self._ticket.keys)

    @property
    def _ticket(self) -> Ticket:
        if self.ticket is None:
            raise ValueError("an intent is a ticket or a plan")
        return self.ticket


# --- the byte format ----------------------------------------------------------------------------------------------------


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Branch(_Strict):
    name: str
    identity: str


class _Base(_Strict):
    manifest_version: int
    head: str
    epoch: int
    mark: str | None
    schema_hash: str


class _Table(_Strict):
    key: str
    identity: str
    path: str
    ref: str | None
    pin: int
    creates: bool
    uuids: list[str]


class _Read(_Strict):
    key: str
    identity: str
    ref: str | None
    pin: int


class _Schema(_Strict):
    source: str
    canonical: str
    hash: str
    id: str


class _Register(_Strict):
    key: str
    identity: str
    incarnation: int
    type_id: str
    location: str
    ref: str | None
    version: int


class _Tombstone(_Strict):
    key: str
    incarnation: int
    identity: str
    version: int
    renamed_to: str | None


class _Delta(_Strict):
    schema_: _Schema | None
    register_: list[_Register]
    tombstone: list[_Tombstone]


class _Commit(_Strict):
    id: str
    parents: list[str]
    actor: str | None
    idempotency_key: str | None
    expect_head: str | None
    created_at_us: int


class _Owner(_Strict):
    host: str
    boot_id: str
    pid: int
    started: int


class _File(_Strict):
    format: Literal[1]
    graph: str
    op: str
    kind: Literal["load", "mutate", "merge", "schema", "maintenance"]
    state: State
    branch: _Branch
    base: _Base | None
    tables: list[_Table]
    reads: list[_Read]
    delta: _Delta
    commit: _Commit | None
    owner: _Owner
    checksum: str


def encode_plan(plan: p.PublishPlan) -> bytes:
    """The file of an armed plan. Raises ``LimitExceeded`` before anything is durable."""
    delta = plan.delta
    body: dict[str, Any] = {
        "format": FORMAT,
        "graph": plan.graph,
        "op": plan.op,
        "kind": plan.kind,
        "state": "armed",
        "branch": {"name": plan.branch.name, "identity": plan.branch.identity},
        "base": vars(plan.base).copy(),
        "tables": [
            {
                "key": table.key,
                "identity": table.identity,
                "path": table.path,
                "ref": table.ref,
                "pin": table.pin,
                "creates": table.creates,
                "uuids": list(table.uuids),
            }
            for table in plan.tables
        ],
        "reads": [vars(read).copy() for read in plan.reads],
        "delta": {
            "schema": None if delta.schema is None else vars(delta.schema).copy(),
            "register": [
                {
                    "key": pin.key,
                    "identity": pin.identity,
                    "incarnation": pin.incarnation,
                    "type_id": pin.type_id,
                    "location": pin.location,
                    "ref": pin.ref,
                    "version": pin.version,
                }
                for pin in delta.register
            ],
            "tombstone": [vars(tombstone).copy() for tombstone in delta.tombstone],
        },
        "commit": {**vars(plan.commit), "parents": list(plan.commit.parents)},
        "owner": vars(plan.owner).copy(),
    }
    return _seal(body)


def encode_ticket(ticket: Ticket) -> bytes:
    body: dict[str, Any] = {
        "format": FORMAT,
        "graph": ticket.graph,
        "op": ticket.op,
        "kind": ticket.kind,
        "state": "waiting",
        "branch": {"name": ticket.branch.name, "identity": ticket.branch.identity},
        "base": None,
        "tables": [
            {"key": key, "identity": "", "path": "", "ref": None, "pin": 0, "creates": False, "uuids": []}
            for key in ticket.keys
        ],
        "reads": [],
        "delta": {"schema": None, "register": [], "tombstone": []},
        "commit": None,
        "owner": vars(ticket.owner).copy(),
    }
    return _seal(body)


def decode(op: str, data: bytes) -> Intent:
    """What the file says. Raises ``Corruption`` that names the file, for anything not written by ``encode``."""
    name = layout.intent_key(op)
    if len(data) > INTENT_BYTES_MAX:
        raise _unreadable(name, f"it has {len(data)} bytes; no intent is larger than {INTENT_BYTES_MAX}")
    try:
        raw = _loads(data)
        checksum = raw.get("checksum")
        if checksum != _checksum({key: value for key, value in raw.items() if key != "checksum"}):
            raise ValueError("its checksum does not match its content")
        delta = raw.get("delta")
        if isinstance(delta, dict):
            raw["delta"] = {{"schema": "schema_", "register": "register_"}.get(k, k): v for k, v in delta.items()}
        file = _File.model_validate(raw)
        if file.op != op:
            raise ValueError(f"it names operation {file.op!r}")
        stamp = hashlib.sha256(data).hexdigest()
        if file.state == "waiting":
            return Intent(op, _ticket(file), None, stamp)
        return Intent(op, None, _plan(file), stamp)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise _unreadable(name, f"{place}: {first['msg']}") from None
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise _unreadable(name, str(error)) from None


def _ticket(file: _File) -> Ticket:
    return Ticket(
        file.graph,
        file.op,
        file.kind,
        p.BranchName(file.branch.name, file.branch.identity),
        tuple(table.key for table in file.tables),
        p.Owner(**file.owner.model_dump()),
    )


def _plan(file: _File) -> p.PublishPlan:
    if file.base is None or file.commit is None:
        raise ValueError("an armed intent needs a base and a commit")
    if not is_ulid(file.commit.id):
        raise ValueError("commit.id is not a ULID")
    tables = []
    if len({table.key for table in file.tables}) != len(file.tables):
        raise ValueError("it plans one table twice")
    for table in file.tables:
        check_table_path(table.path)
        if table.ref is not None:
            check_ref(table.ref)
        if not table.uuids or table.pin < 0:
            raise ValueError(f"table {table.key!r} plans no transaction")
        tables.append(
            p.TablePlan(table.key, table.identity, table.path, table.ref, table.pin, tuple(table.uuids), table.creates)
        )
    delta = file.delta
    for register in delta.register_:
        check_table_path(register.location)
    return p.PublishPlan(
        graph=file.graph,
        op=file.op,
        kind=file.kind,
        branch=p.BranchName(file.branch.name, file.branch.identity),
        base=p.Base(**file.base.model_dump()),
        tables=tuple(tables),
        reads=tuple(p.ReadPin(**read.model_dump()) for read in file.reads),
        commit=p.CommitInfo(
            file.commit.id,
            tuple(file.commit.parents),
            file.commit.actor,
            file.commit.idempotency_key,
            file.commit.expect_head,
            file.commit.created_at_us,
        ),
        owner=p.Owner(**file.owner.model_dump()),
        delta=p.Delta(
            None if delta.schema_ is None else SchemaRow(**delta.schema_.model_dump()),
            tuple(Pin(**register.model_dump(), owner=file.branch.identity) for register in delta.register_),
            tuple(Tombstone(**tombstone.model_dump()) for tombstone in delta.tombstone),
        ),
    )


def check_table_path(path: str) -> None:
    """A path that was read is opened and written by; it must be one that this engine makes for a table."""
    if not layout.is_table_path(path):
        raise ValueError(f"{path[:80]!r} is not the path of a table")


def check_ref(ref: str) -> None:
    """A ref of ours is a letter and an identity; anything else could lead out of the table's folder."""
    if ref[:2] not in ("g-", "f-") or not is_ulid(ref[2:]):
        raise ValueError(f"{ref[:80]!r} is not a ref that this engine makes")


def _canonical(body: dict[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(_canonical(body)).hexdigest()


def _seal(body: dict[str, Any]) -> bytes:
    data = _canonical({**body, "checksum": _checksum(body)})
    if len(data) > INTENT_BYTES_MAX:
        raise LimitExceeded(
            f"the plan of this write takes {len(data)} bytes; an intent holds {INTENT_BYTES_MAX}",
            hint="split the change into several commits",
            limit="intent_bytes",
            bound=INTENT_BYTES_MAX,
            actual=len(data),
        )
    return data


def _loads(data: bytes) -> dict[str, Any]:
    _check_nesting(data)

    def unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise ValueError(f"member {key!r} appears twice")
            found[key] = value
        return found

    def refuse(text: str) -> float:
        raise ValueError(f"{text} is not a number of this format")

    loaded = json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_constant=refuse)
    if not isinstance(loaded, dict):
        raise ValueError("it is not a JSON object")
    return loaded


def _check_nesting(data: bytes) -> None:
    if data.count(b"[") + data.count(b"{") <= NESTING_MAX:
        return
    depth = 0
    in_text = escaped = False
    for byte in data:
        if in_text:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_text = False
        elif byte == 0x22:
            in_text = True
        elif byte in b"[{":
            depth += 1
            if depth > NESTING_MAX:
                raise ValueError("it is nested too deeply")
        elif byte in b"]}":
            depth -= 1


def _unreadable(name: str, why: str) -> Corruption:
    return Corruption(
        f"the intent {name} cannot be read: {why}",
        hint="read_only=True still opens the graph; keep a copy of the file, then `omnigraph repair --confirm --force` "
        "moves it aside and puts the tables back",
        object=name,
        reason=why,
    )


# --- requests -----------------------------------------------------------------------------------------------------------


class Intents:
    """The intent files of one graph."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.seen = 0  # how many there were when they were last listed
        self.newest: str | None = None  # the last of them
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Intent | None] = OrderedDict()

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

    def read(self, op: str, meter: Meter | None = None) -> Intent | None:
        """The intent, or None where it is gone: its operation has ended."""
        data = self._store.get(layout.intent_key(op), meter=meter)
        return None if data is None else decode(op, data)

    def first_seen(self, op: str, meter: Meter | None = None) -> Intent | None:
        """The intent as this process first read it: the tables that a ticket names hold for the plan that it becomes."""
        with self._lock:
            if op in self._known:
                return self._known[op]
        found = self.read(op, meter)
        with self._lock:
            self._known[op] = found
            while len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        return found

    def glance(self, op: str, meter: Meter | None = None) -> bytes | None:
        """The file as it is, unread; None where it is gone."""
        return self._store.get(layout.intent_key(op), meter=meter)

    def names(self, meter: Meter | None = None) -> list[tuple[str, str]]:
        """(operation id, change stamp) of every pending intent, oldest first. Fails loudly if it cannot list."""
        found = []
        for entry in self._store.list(layout.INTENTS, meter=meter):
            op = layout.record_ulid(entry.key)
            if op is not None:
                found.append((op, f"{entry.size}:{entry.modified_us}"))
        found.sort()
        self.seen = len(found)
        self.newest = found[-1][0] if found else None
        return found
