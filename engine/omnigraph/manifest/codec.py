"""Values to stored rows and back.

Reading is strict. Every row of a known kind is written again from the value that was read and compared with what was read,
so an unknown, missing or repeated member, a text that is not canonical and a column that has to be null are all refused.
Every reader here raises ``ValueError`` or ``LookupError`` or ``TypeError``; the caller names the place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

import pyarrow as pa

from omnigraph.core.canonical_json import dumps, loads
from omnigraph.core.ids import is_ulid
from omnigraph.manifest import recent
from omnigraph.manifest import rows as r

_ENCODED = "_encoded"
_PLAIN = "_plain"
_PIN = "_pin"
_T = TypeVar("_T")

BASES_MAX = 16


# --- values to rows -----------------------------------------------------------------------------------------------------


def table_row(pin: r.Pin) -> r.RawRow:
    """The registration of a table."""
    body = {"identity": pin.identity, "incarnation": pin.incarnation, "type_id": pin.type_id}
    return r.RawRow(pin.key, r.TABLE, pin.key, location=pin.location, metadata=dumps(body))


def pin_row(pin: r.Pin) -> r.RawRow:
    """Where a registered table stands. Encoded once for each value: most pins stay for many swaps."""
    return _once(pin, _pin_row)


def _pin_row(pin: r.Pin) -> r.RawRow:
    body = {
        "identity": pin.identity,
        "owner": pin.owner,
        "bases": [[base.ref, base.version, base.needed] for base in pin.bases],
        "fragments": pin.fragments,
        "bytes": pin.bytes,
        "deleted_rows": pin.deleted_rows,
        "unindexed_fragments": pin.unindexed_fragments,
        "recent": recent.to_json(pin.recent),
    }
    return r.RawRow(
        pin.key,
        r.TABLE_VERSION,
        pin.key,
        table_version=pin.version,
        table_branch=pin.ref,
        row_count=pin.rows,
        metadata=dumps(body),
    )


def tombstone_row(tombstone: r.Tombstone) -> r.RawRow:
    body = {"identity": tombstone.identity, "version": tombstone.version, "renamed_to": tombstone.renamed_to}
    name = f"{tombstone.key}$tombstone${tombstone.incarnation}"
    return r.RawRow(name, r.TABLE_TOMBSTONE, tombstone.key, metadata=dumps(body))


def schema_row(schema: r.SchemaRow) -> r.RawRow:
    body = {"source": schema.source, "canonical": schema.canonical, "hash": schema.hash, "id": schema.id}
    return r.RawRow("schema", r.SCHEMA, metadata=dumps(body))


def head_row(head: r.Head) -> r.RawRow:
    body = {
        "head": head.commit_id,
        "epoch": head.epoch,
        "owner": head.owner,
        "mark": head.mark,
        "boundary": head.boundary,
        "name": head.name,
        "parent": None if head.parent is None else dict(vars(head.parent)),
        "closed": None if head.closed is None else dict(vars(head.closed)),
        "unsynced_since": head.unsynced_since,
    }
    return r.RawRow(f"graph_head:{head.identity}", r.GRAPH_HEAD, metadata=dumps(body))


def history_row(row: r.HistoryRow) -> r.RawRow:
    """History never changes, and each swap writes the tail again: a row is encoded once for each value."""
    return _once(row, _history_row)


def history_rows(rows: Iterable[r.HistoryRow]) -> list[r.RawRow]:
    """The same for many, most of which have been encoded."""
    return [vars(row).get(_ENCODED) or history_row(row) for row in rows]


def _history_row(row: r.HistoryRow) -> r.RawRow:
    if isinstance(row, r.AbortRow):
        abort = {"plan": row.plan, "actor": row.actor, "base": row.base, "created_at_us": row.created_at_us}
        return r.RawRow(
            row.id,
            r.PLAN_ABORT,
            table_version=row.version,
            table_branch=row.ref,
            seq=row.seq,
            metadata=dumps(abort),
        )
    commit = row.row if isinstance(row, r.MergedRow) else row
    return r.RawRow(
        commit.commit_id,
        r.MERGED_COMMIT if isinstance(row, r.MergedRow) else r.GRAPH_COMMIT,
        table_version=row.version,
        table_branch=commit.ref,
        seq=row.seq,
        metadata=dumps(_commit_body(commit)),
        idempotency_key=commit.idempotency_key,
    )


def _commit_body(row: r.CommitRow) -> dict[str, Any]:
    return {
        "parents": list(row.parents),
        "plan": row.plan,
        "actor": row.actor,
        "created_at_us": row.created_at_us,
        "ref": row.ref,
        "manifest_version": row.manifest_version,
        "kind": row.kind,
        "tables": {key: vars(change) for key, change in row.tables.items()},
        "request": row.request,
        "content": row.content,
        "schema": row.schema,
        "merge": row.merge,
        "reverts": None if row.reverts is None else list(row.reverts),
        "recovered_by": row.recovered_by,
        "recovered_at_us": row.recovered_at_us,
    }


_COUNTS = ("inserted", "updated", "deleted", "unchanged")


def _once(value: _T, encode: Callable[[_T], r.RawRow]) -> r.RawRow:
    found: r.RawRow | None = vars(value).get(_ENCODED)
    if found is None:
        found = encode(value)
        vars(value)[_ENCODED] = found  # no field: a changed copy of the value does not take it along
    return found


# --- rows to values -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8192)
def parse_pin(registration: r.RawRow, version: r.RawRow) -> r.Pin:
    """A table from its registration and the row that says where it stands."""
    plain = _plain_pin(registration, version)
    if plain is not None:
        return plain
    what, where = _body(registration), _body(version)
    found = r.Pin(
        key=registration.table_key,
        identity=_text(what["identity"]),
        incarnation=_count(what["incarnation"]),
        type_id=_text(what["type_id"]),
        location=_text(registration.location),
        ref=_ref(version.table_branch),
        version=_count(version.table_version),
        rows=_count(version.row_count),
        fragments=_count(where["fragments"]),
        bytes=_count(where["bytes"]),
        deleted_rows=_count(where["deleted_rows"]),
        unindexed_fragments=_count(where["unindexed_fragments"]),
        owner=_text(where["owner"]),
        bases=tuple(map(_base, _list(where["bases"]))),
        recent=recent.from_json(where["recent"]),
    )
    if where["identity"] != found.identity:
        raise ValueError(f"the pin of {found.key!r} is of table {where['identity']!r}, registered is {found.identity}")
    if len(found.bases) > BASES_MAX:
        raise ValueError(f"the pin of {found.key!r} has {len(found.bases)} bases")
    _same(registration, table_row(found))
    vars(found)[_ENCODED] = version
    return _checked(found, version, _pin_row)


# Most rows of a large graph look like this. Such a text says its values without being parsed, and is canonical: nothing in
# it needs escaping, no number begins with a zero. Any other text takes the long way.
_PLAIN_TEXT = r'"([^"\\\x00-\x1f]*)"'
_PLAIN_COUNT = r"(0|[1-9][0-9]{0,17})"
_PLAIN_TABLE = re.compile(rf'{{"identity":{_PLAIN_TEXT},"incarnation":{_PLAIN_COUNT},"type_id":{_PLAIN_TEXT}}}')
_PLAIN_PIN = re.compile(
    rf'{{"bases":\[\],"bytes":{_PLAIN_COUNT},"deleted_rows":{_PLAIN_COUNT},"fragments":{_PLAIN_COUNT},'
    rf'"identity":{_PLAIN_TEXT},"owner":{_PLAIN_TEXT},"recent":null,"unindexed_fragments":{_PLAIN_COUNT}}}'
)
# One match a line, empty where it is not plain.
_PLAIN_TABLES, _PLAIN_PINS = (re.compile(f"^(?:{one.pattern}|.*)$", re.M) for one in (_PLAIN_TABLE, _PLAIN_PIN))


def identities(rows: Sequence[r.RawRow]) -> list[str]:
    """``identity_of`` for rows of one kind, whose texts are taken apart in one go: a large graph has thousands."""
    fresh = [row for row in rows if _PLAIN not in vars(row)]
    if len(fresh) > 1:
        tables = fresh[0].object_type == r.TABLE
        found = (_PLAIN_TABLES if tables else _PLAIN_PINS).findall("\n".join([row.metadata or "" for row in fresh]))
        if len(found) == len(fresh):  # else a text has a line break, and is not canonical
            for row, groups in zip(fresh, found, strict=True):
                vars(row)[_PLAIN] = () if not groups[0] else groups if tables else _identity_first(groups)
    return [plain[0] if (plain := vars(row).get(_PLAIN)) else identity_of(row) for row in rows]


def _identity_first(groups: tuple[str, ...]) -> tuple[str, ...]:
    size, deleted, fragments, identity, owner, unindexed = groups
    return (identity, size, deleted, fragments, owner, unindexed)


def pin_of(registration: r.RawRow, version: r.RawRow) -> r.Pin:
    """``parse_pin``, remembered with the row: those of schema and base are kept for many versions, and are thousands."""
    known: tuple[r.RawRow, r.Pin] | None = vars(version).get(_PIN)
    if known is None or known[0] is not registration:
        plain = _plain_pin(registration, version)
        known = vars(version)[_PIN] = (registration, plain or parse_pin(registration, version))
    return known[1]


def _plain_pin(registration: r.RawRow, version: r.RawRow) -> r.Pin | None:
    """What ``parse_pin`` returns, for two plain rows that agree; None for others, whatever is the matter with them."""
    what, where = vars(registration).get(_PLAIN), vars(version).get(_PLAIN)
    what = _plain(registration) if what is None else what
    where = _plain(version) if where is None else where
    if len(what) != 3 or len(where) != 6:
        return None
    identity, incarnation, type_id = what
    of, size, deleted, fragments, owner, unindexed = where
    key, location = registration.table_key, registration.location
    if location is None or of != identity or version.table_version is None or version.row_count is None:
        return None
    if (registration.object_id, registration.object_type) != (key, r.TABLE):
        return None
    if (version.object_id, version.object_type, version.table_key) != (key, r.TABLE_VERSION, key):
        return None
    if registration.table_version is not None or registration.row_count is not None or version.location is not None:
        return None
    for row in (registration, version):
        if row.seq is not None or row.idempotency_key is not None:
            return None
    if registration.table_branch is not None:
        return None
    found = r.Pin.__new__(
        r.Pin
    )  # what a frozen class does itself takes three times as long: it sets each field by a call
    vars(found).update(
        key=key,
        identity=identity,
        incarnation=int(incarnation),
        type_id=type_id,
        location=location,
        ref=None if version.table_branch is None else _ref(version.table_branch),
        version=version.table_version,
        rows=version.row_count,
        fragments=int(fragments),
        bytes=int(size),
        deleted_rows=int(deleted),
        unindexed_fragments=int(unindexed),
        owner=owner,
        bases=(),
        recent=None,
    )
    vars(found)[_ENCODED] = version
    return found


def _plain(row: r.RawRow) -> tuple[str, ...]:
    """What the text of a plain ``table`` or ``table_version`` row says, its identity first; nothing for any other row."""
    found: tuple[str, ...] | None = vars(row).get(_PLAIN)
    if found is None:
        match = (_PLAIN_TABLE if row.object_type == r.TABLE else _PLAIN_PIN).fullmatch(row.metadata or "")
        if match is None:
            found = ()
        elif row.object_type == r.TABLE:
            found = match.groups()
        else:
            found = _identity_first(match.groups())
        vars(row)[_PLAIN] = found  # asked for twice: which table it is, and what of it
    return found


def identity_of(row: r.RawRow) -> str:
    """The table identity that a ``table`` or ``table_version`` row names."""
    plain = _plain(row)
    return plain[0] if plain else _text(_body(row)["identity"])


def parse_tombstone(row: r.RawRow) -> r.Tombstone:
    body = _body(row)
    found = r.Tombstone(
        row.table_key,
        int(row.object_id.rsplit("$", 1)[1]),
        _text(body["identity"]),
        _count(body["version"]),
        _optional(_text, body["renamed_to"]),
    )
    return _checked(found, row, tombstone_row)


def parse_schema(row: r.RawRow) -> r.SchemaRow:
    body = _body(row)
    found = r.SchemaRow(*(_text(body[name]) for name in ("source", "canonical", "hash", "id")))
    return _checked(found, row, schema_row)


def parse_head(row: r.RawRow) -> r.Head:
    body = _body(row)
    parent, closed = body["parent"], body["closed"]
    found = r.Head(
        identity=row.object_id.removeprefix("graph_head:"),
        commit_id=_text(body["head"]),
        epoch=_count(body["epoch"]),
        owner=_optional(_text, body["owner"]),
        mark=_optional(_text, body["mark"]),
        boundary=_count(body["boundary"]),
        name=_text(body["name"]),
        parent=None
        if parent is None
        else r.Parent(
            _text(parent["identity"]),
            _ref(parent["ref"]),
            _count(parent["manifest_version"]),
            _text(parent["commit"]),
        ),
        closed=None if closed is None else r.Closed(_count(closed["at_us"]), _optional(_text, closed["actor"])),
        unsynced_since=_optional(_count, body["unsynced_since"]),
    )
    return _checked(found, row, head_row)


@lru_cache(maxsize=1024)
def parse_history(row: r.RawRow) -> r.HistoryRow:
    """History never changes, and each reload of a state reads the newest rows again."""
    found = _parse_history(row)
    _same(row, _history_row(found))
    vars(found)[_ENCODED] = row
    return found


def _parse_history(row: r.RawRow) -> r.HistoryRow:
    body = _body(row)
    version, seq = _count(row.table_version), _count(row.seq)
    if row.object_type == r.PLAN_ABORT:
        return r.AbortRow(
            id=row.object_id,
            plan=_text(body["plan"]),
            actor=_optional(_text, body["actor"]),
            base=_count(body["base"]),
            created_at_us=_count(body["created_at_us"]),
            version=version,
            seq=seq,
            ref=_ref(row.table_branch),
        )
    if row.object_type == r.GRAPH_COMMIT:
        return _parse_commit(row, body, seq, version)
    return r.MergedRow(_parse_commit(row, body, 0, 0), version, seq)


def _parse_commit(row: r.RawRow, body: Mapping[str, Any], seq: int, version: int) -> r.CommitRow:
    reverts = body["reverts"]
    return r.CommitRow(
        commit_id=row.object_id,
        plan=_text(body["plan"]),
        parents=tuple(map(_text, _list(body["parents"]))),
        actor=_optional(_text, body["actor"]),
        created_at_us=_count(body["created_at_us"]),
        ref=_ref(body["ref"]),
        manifest_version=_count(body["manifest_version"]),
        kind=_one_of(r.KINDS, body["kind"]),
        tables={key: _change(change) for key, change in body["tables"].items()},
        idempotency_key=_optional(_text, row.idempotency_key),
        request=_optional(_text, body["request"]),
        content=_optional(_text, body["content"]),
        schema=_optional(_schema_steps, body["schema"]),
        merge=_optional(_merge, body["merge"]),
        reverts=None if reverts is None else tuple(map(_text, _list(reverts))),
        recovered_by=_optional(_text, body["recovered_by"]),
        recovered_at_us=_optional(_count, body["recovered_at_us"]),
        seq=seq,
        version=version,
    )


def _change(body: Mapping[str, Any]) -> r.TableChange:
    return r.TableChange(
        _text(body["identity"]),
        _ref(body["ref"]),
        _count(body["version"]),
        _one_of(r.VIAS, body["via"]),
        *(_optional(_count, body[name]) for name in _COUNTS),
    )


_STEP = frozenset({"step", "type", "property", "from", "to", "fill", "lost"})
_STEPS = (
    "add_type drop_type rename_type add_property drop_property rename_property nullable required widen rule".split()
)
_MERGE = frozenset({"identity", "ref", "manifest_version", "commit", "bases"})


def _schema_steps(body: Mapping[str, Any]) -> Mapping[str, Any]:
    if body.keys() != {"from", "to", "steps"}:
        raise ValueError("the schema change of a commit has other members than from, to and steps")
    for step in _list(body["steps"]):
        if step.keys() != _STEP:
            raise ValueError("a step of a schema change has other members than the format names")
        _one_of(_STEPS, step["step"])
        fill = step["fill"]
        if fill is not None and set(fill) not in ({"value"}, {"property"}, {"sql"}):
            raise ValueError("the fill of a schema step is neither a value nor a property nor SQL")
        _optional(_count, step["lost"])
    return body


def _merge(body: Mapping[str, Any]) -> Mapping[str, Any]:
    if body.keys() != _MERGE:
        raise ValueError("the merge of a commit has other members than the format names")
    _ref(body["ref"])
    _count(body["manifest_version"])
    for one in (body["identity"], body["commit"], *_list(body["bases"])):
        _text(one)
    return body


def _base(body: Any) -> r.BaseVersion:
    ref, version, needed = _list(body)
    if not isinstance(needed, bool):
        raise TypeError(f"needed is {needed!r}")
    return r.BaseVersion(_ref(ref), _count(version), needed)


def _body(row: r.RawRow) -> dict[str, Any]:
    loaded = loads(row.metadata or "")
    if not isinstance(loaded, dict):
        raise ValueError(f"metadata of {row.object_type} {row.object_id[:80]!r} is no object")
    return loaded


def _checked(found: _T, row: r.RawRow, encode: Callable[[_T], r.RawRow]) -> _T:
    _same(row, encode(found))
    return found


def _same(read: r.RawRow, written: r.RawRow) -> None:
    if read != written:
        raise ValueError(f"the row {read.object_type} {read.object_id[:80]!r} is not in its canonical form")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} is no number of 0 or more")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value


def _ref(value: Any) -> str | None:
    if value is not None and not (isinstance(value, str) and value[:2] in ("g-", "f-") and is_ulid(value[2:])):
        raise ValueError(f"{str(value)[:80]!r} is not a ref that this engine makes")
    return value


def _one_of(known: Iterable[str], value: Any) -> str:
    if value not in known:
        raise ValueError(f"{str(value)[:80]!r} is none of {', '.join(known)}")
    return str(value)


def _optional(read: Callable[[Any], _T], value: Any) -> _T | None:
    return None if value is None else read(value)


# --- Arrow --------------------------------------------------------------------------------------------------------------


_CELLS = attrgetter(*r.ARROW_SCHEMA.names)


def schema_for(rows: Iterable[r.RawRow]) -> pa.Schema:
    """The columns of a version, and how Lance compresses the fragments that are written on it. Every reader reads both."""
    longest = max([len(row.metadata or "") for row in rows], default=0)
    return r.COMPRESSED_SCHEMA if longest > r.LONG_CHARS else r.ARROW_SCHEMA


def to_arrow(rows: Iterable[r.RawRow], schema: pa.Schema = r.ARROW_SCHEMA) -> pa.Table:
    listed = zip(*map(_CELLS, rows), strict=True)
    arrays = [pa.array(cells, field.type) for cells, field in zip(listed, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def from_arrow(table: pa.Table) -> list[r.RawRow]:
    return from_columns(columns(table))


def columns(table: pa.Table) -> list[list[Any]]:
    """The cells of each column, in the order of the format."""
    found = [table.column(name) for name in r.ARROW_SCHEMA.names]
    return [one.to_pylist() if one.null_count < len(one) else [None] * len(one) for one in found]


def from_columns(cells: Sequence[Sequence[Any]]) -> list[r.RawRow]:
    return list(map(r.RawRow, *cells))
