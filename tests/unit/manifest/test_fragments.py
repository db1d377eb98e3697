"""Rows of a manifest line as stored: what is read has to be what this release writes, in the fragment where it belongs."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core.canonical_json import NESTING_MAX, dumps, loads
from omnigraph.core.errors import Corruption
from omnigraph.manifest import codec, digests, fragments, recent
from omnigraph.manifest import rows as r
from omnigraph.manifest.state import Foreign, State
from tests.unit.manifest.material import (
    BRANCH,
    MAIN,
    Line,
    abort,
    branch_line,
    change_of,
    commit,
    main_line,
    merged,
    pin,
    reread,
    schema,
    ulid,
)

STEP = {
    "step": "add_property",
    "type": ulid(1),
    "property": ulid(2),
    "from": None,
    "to": "x",
    "fill": {"value": 3},
    "lost": None,
}
FULL = commit(
    ulid(90),
    tables={"node:T1": change_of(pin(1), via="adopt", inserted=None, updated=None, deleted=None, unchanged=None)},
    idempotency_key='it\'s "a" key\n',
    request="5d",
    content="e3",
    schema={"from": "sha256:a", "to": "sha256:b", "steps": [STEP]},
    merge={"identity": BRANCH, "ref": f"g-{BRANCH}", "manifest_version": 4, "commit": ulid(5), "bases": [ulid(6)]},
    reverts=(ulid(7), ulid(8)),
    recovered_by="bob",
    recovered_at_us=9,
)


def grown() -> State:
    """A line with everything: moved pins, bases, recent keys, tombstones, all kinds of history."""
    line = Line(main_line(4))
    old = line.state.tables["node:T3"]
    line.swap(
        tombstones=(r.Tombstone(old.key, 1, old.identity, 1, "node:New"),),
        pins={"node:New": replace(old, key="node:New")},
    )
    bases = (r.BaseVersion(f"f-{ulid(4)}", 2, True), r.BaseVersion(None, 1, False))
    one = replace(line.state.tables["node:T1"], version=3, ref=f"f-{ulid(5)}", owner=BRANCH, bases=bases)
    two = replace(line.state.tables["node:T2"], version=2, recent=recent.extended(None, {4: ["a", "b"]}))
    line.swap(pins={one.key: one, two.key: two}, history=(merged(ulid(80)), FULL))
    head = replace(line.state.head, epoch=2, owner="h/b/7/1", mark=ulid(6), boundary=1, unsynced_since=3)
    return line.swap(head=head, history=(abort(ulid(91), plan=ulid(92)),))


STATE = grown()


def stored(state: State = STATE) -> dict[str, list[r.RawRow]]:
    return {
        "schema": fragments.schema_rows(state),
        "base": fragments.base_rows(state),
        "current": fragments.current_rows(state),
    }


def joined(parts: dict[str, list[r.RawRow]]) -> State:
    return fragments.join(list(parts.values()), version=STATE.version, ref=None)


def test_everything_that_a_line_can_hold_reads_back() -> None:
    assert reread(STATE) == STATE
    for row in STATE.tail:
        assert codec.parse_history(codec.history_row(row)) == row


def test_every_column_and_member_is_what_the_format_says() -> None:
    rows = {
        row.object_id: row for part in stored().values() for row in part if row.object_type not in (r.TABLE, r.SCHEMA)
    }
    columns = {
        row.object_type: {n for n in r.ARROW_SCHEMA.names[2:] if getattr(row, n) not in (None, "")}
        for row in rows.values()
    }
    members = {row.object_type: set(json.loads(row.metadata or "")) for row in rows.values()}
    change = {"inserted", "updated", "deleted", "unchanged", "identity", "ref", "version", "via"}
    a_commit = (
        "parents plan actor created_at_us ref manifest_version kind tables request content schema merge reverts"
        " recovered_by recovered_at_us"
    )
    assert members == {
        r.TABLE_TOMBSTONE: set("identity version renamed_to".split()),
        r.TABLE_VERSION: set("identity owner bases fragments bytes deleted_rows unindexed_fragments recent".split()),
        r.GRAPH_HEAD: set("head epoch owner mark boundary name parent closed unsynced_since".split()),
        r.GRAPH_COMMIT: set(a_commit.split()),
        r.MERGED_COMMIT: set(a_commit.split()),
        r.PLAN_ABORT: set("plan actor base created_at_us".split()),
    }
    assert columns[r.GRAPH_COMMIT] == {"table_version", "seq", "metadata", "idempotency_key"}
    assert columns[r.MERGED_COMMIT] == {"table_version", "table_branch", "seq", "metadata"}
    table = json.loads(rows[ulid(90)].metadata or "")["tables"]["node:T1"]
    assert set(table) == change
    assert rows["node:T3$tombstone$1"].table_key == "node:T3"
    assert rows[f"graph_head:{MAIN}"].table_key == ""
    assert json.loads(rows["node:T1"].metadata or "")["bases"] == [[f"f-{ulid(4)}", 2, True], [None, 1, False]]


def test_rows_that_did_not_change_are_not_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = fragments.current_rows(STATE), fragments.current_rows(replace(STATE, version=STATE.version + 1))
    kinds = {r.TABLE_VERSION, *r.HISTORY}
    assert all(a is b for a, b in zip(first, second, strict=True) if a.object_type in kinds)
    again = joined(stored())
    for encoder in ("_pin_row", "_history_row"):
        monkeypatch.setattr(codec, encoder, None)
    assert fragments.current_rows(again) == first and fragments.base_rows(again) == fragments.base_rows(STATE)


# --- refused ------------------------------------------------------------------------------------------------------------


def edited(part: str, kind: str, change: Callable[[r.RawRow], r.RawRow]) -> dict[str, list[r.RawRow]]:
    parts = stored()
    at = max(n for n, row in enumerate(parts[part]) if row.object_type == kind)
    parts[part][at] = change(parts[part][at])
    return parts


def member(part: str, kind: str, name: str, value: Any) -> dict[str, list[r.RawRow]]:
    return edited(part, kind, lambda row: replace(row, metadata=dumps({**json.loads(row.metadata or ""), name: value})))


def text(part: str, kind: str, change: Callable[[str], str]) -> dict[str, list[r.RawRow]]:
    return edited(part, kind, lambda row: replace(row, metadata=change(row.metadata or "")))


def more(part: str, row: r.RawRow) -> dict[str, list[r.RawRow]]:
    parts = stored()
    parts[part].append(row)
    return parts


def less(part: str, kind: str) -> dict[str, list[r.RawRow]]:
    parts = stored()
    parts[part] = [row for row in parts[part] if row.object_type != kind]
    return parts


def backwards(body: str) -> str:
    return json.dumps(dict(reversed(json.loads(body).items())), separators=(",", ":"))


OTHER = pin(2, version=9)
REFUSED = {
    "no head": less("current", r.GRAPH_HEAD),
    "two heads": more("current", codec.head_row(r.Head(BRANCH, ulid(1)))),
    "no schema": less("schema", r.SCHEMA),
    "two schemas": more("schema", codec.schema_row(schema("B"))),
    "pinned without being registered": less("schema", r.TABLE),
    "registered without a pin": less("base", r.TABLE_VERSION),
    "one registration more": more("schema", codec.table_row(pin(50))),
    "one base pin more": more("base", codec.pin_row(pin(50))),
    "two base pins of one table": more("base", codec.pin_row(OTHER)),
    "two moved pins of one table": more("current", codec.pin_row(OTHER)),
    "a moved pin of nothing registered": more("current", codec.pin_row(pin(50))),
    "a pin under the key of another": more("current", codec.pin_row(pin(0, key="node:T1"))),
    "one key registered twice": more("schema", codec.table_row(pin(0, identity=ulid(300)))),
    "one identity registered twice": more("schema", codec.table_row(pin(0, key="node:T9"))),
    "a registration in current": more("current", codec.table_row(pin(50))),
    "a schema in current": more("current", codec.schema_row(schema("A"))),
    "a head in schema": more("schema", codec.head_row(STATE.head)),
    "a pin in schema": more("schema", codec.pin_row(OTHER)),
    "history in base": more("base", codec.history_row(commit(ulid(99), seq=9, version=4))),
    "a tombstone in base": more("base", codec.tombstone_row(STATE.tombstones[0])),
    "metadata that is no JSON": text("current", r.GRAPH_COMMIT, lambda _: "{"),
    "metadata that is no object": text("current", r.GRAPH_COMMIT, lambda _: "[]"),
    "no metadata": edited("current", r.PLAN_ABORT, lambda row: replace(row, metadata=None)),
    "blanks": text("current", r.PLAN_ABORT, lambda t: t.replace(":", ": ", 1)),
    "a member twice": text("current", r.PLAN_ABORT, lambda t: t.replace("{", '{"actor":"ada",', 1)),
    "members in another order": text("current", r.PLAN_ABORT, backwards),
    "an escape that JSON does not need": text("current", r.PLAN_ABORT, lambda t: t.replace("ada", "\\u0061da")),
    "a head with a member more": member("current", r.GRAPH_HEAD, "shiny", 1),
    "a commit with a member more": member("current", r.GRAPH_COMMIT, "shiny", 1),
    "a merged commit with a member more": member("current", r.MERGED_COMMIT, "shiny", 1),
    "an abort with a member more": member("current", r.PLAN_ABORT, "shiny", 1),
    "a pin with a member more": member("base", r.TABLE_VERSION, "shiny", 1),
    "a registration with a member more": member("schema", r.TABLE, "shiny", 1),
    "a tombstone with a member more": member("schema", r.TABLE_TOMBSTONE, "shiny", 1),
    "a schema with a member more": member("schema", r.SCHEMA, "shiny", 1),
    "a commit with a member less": text("current", r.GRAPH_COMMIT, lambda t: t.replace('"actor":"ada",', "")),
    "a pin with a member less": text("base", r.TABLE_VERSION, lambda t: t.replace('"bytes":0,', "")),
    "a column that has to be null": edited("current", r.GRAPH_COMMIT, lambda row: replace(row, row_count=1)),
    "an abort with a key": edited("current", r.PLAN_ABORT, lambda row: replace(row, idempotency_key="k")),
    "a key in the metadata": member("current", r.GRAPH_COMMIT, "idempotency_key", "k"),
    "ref in column and metadata differ": edited(
        "current", r.GRAPH_COMMIT, lambda row: replace(row, table_branch=f"g-{BRANCH}")
    ),
    "a ref that is none": member("current", r.GRAPH_COMMIT, "ref", "main"),
    "a table's ref that is none": edited("base", r.TABLE_VERSION, lambda row: replace(row, table_branch="../x")),
    "no version": edited("base", r.TABLE_VERSION, lambda row: replace(row, table_version=None)),
    "no number": edited("current", r.GRAPH_COMMIT, lambda row: replace(row, seq=None)),
    "a number as text": member("current", r.GRAPH_HEAD, "epoch", "2"),
    "true for a number": member("current", r.GRAPH_HEAD, "epoch", True),
    "a number below zero": member("base", r.TABLE_VERSION, "bytes", -1),
    "a fraction": member("base", r.TABLE_VERSION, "bytes", 1.5),
    "an unknown kind of commit": member("current", r.GRAPH_COMMIT, "kind", "party"),
    "an unknown way of change": member(
        "current", r.GRAPH_COMMIT, "tables", {"node:T1": {**vars(change_of(pin(1))), "via": "luck"}}
    ),
    "a merge with a member more": member("current", r.GRAPH_COMMIT, "merge", {**(FULL.merge or {}), "x": 1}),
    "a schema change with a member less": member("current", r.GRAPH_COMMIT, "schema", {"from": "a", "to": "b"}),
    "an unknown schema step": member(
        "current", r.GRAPH_COMMIT, "schema", {"from": "a", "to": "b", "steps": [{**STEP, "step": "guess"}]}
    ),
    "a fill of two sorts": member(
        "current",
        r.GRAPH_COMMIT,
        "schema",
        {"from": "a", "to": "b", "steps": [{**STEP, "fill": {"value": 1, "sql": "x"}}]},
    ),
    "a parent with a member more": member("current", r.GRAPH_HEAD, "parent", {"identity": ulid(1)}),
    "closed without an actor": member("current", r.GRAPH_HEAD, "closed", {"at_us": 1}),
    "17 bases": member("base", r.TABLE_VERSION, "bases", [[None, 1, True]] * 17),
    "a base that is no triple": member("base", r.TABLE_VERSION, "bases", [[None, 1]]),
    "needed as a number": member("base", r.TABLE_VERSION, "bases", [[None, 1, 1]]),
    "recent with a member more": member("base", r.TABLE_VERSION, "recent", {"fragments": [1], "keys": "", "x": 1}),
    "a tombstone of incarnation 01": edited(
        "schema", r.TABLE_TOMBSTONE, lambda row: replace(row, object_id="node:T3$tombstone$01")
    ),
    "too deep": member("current", r.GRAPH_COMMIT, "schema", json.loads("[" * 40 + "]" * 40)),
    "a number that is not finite": text(
        "current", r.GRAPH_COMMIT, lambda t: t.replace('"fill":{"value":3}', '"fill":{"value":NaN}')
    ),
}


@pytest.mark.parametrize("parts", REFUSED.values(), ids=REFUSED.keys())
def test_rows_that_no_swap_writes_are_corruption(parts: dict[str, list[r.RawRow]]) -> None:
    with pytest.raises(Corruption) as caught:
        joined(parts)
    assert caught.value.facts["version"] == STATE.version
    assert "\n" not in str(caught.value)


def test_every_refusal_is_of_rows_that_do_differ() -> None:
    for name, parts in REFUSED.items():
        assert parts != stored(), name


def test_one_fragment_may_hold_everything_in_the_first_version_only() -> None:
    rows = fragments.single_rows(branch_line())
    assert fragments.join([rows], version=1, ref=f"g-{BRANCH}") == branch_line()
    with pytest.raises(Corruption):
        fragments.join([rows], version=2, ref=f"g-{BRANCH}")
    with pytest.raises(Corruption):
        fragments.join([[row for row in rows if row.object_type != r.SCHEMA]], version=1, ref=None)


def test_an_archive_holds_history_and_nothing_else() -> None:
    rows = [codec.history_row(row) for row in STATE.tail]
    assert fragments.history(fragments.archived(reversed(rows))) == STATE.tail
    for wrong in ([], [*rows, codec.head_row(STATE.head)], [r.RawRow("x", "of_the_future")]):
        with pytest.raises(Corruption):
            fragments.archived(wrong)


# --- rows of unknown kinds ----------------------------------------------------------------------------------------------


def strange(name: str) -> r.RawRow:
    return r.RawRow(name, "of_the_future", "node:T1", "here", 7, "b", 8, 9, '{"a": 1}', "k")


def test_rows_of_unknown_kinds_stay_in_the_fragment_where_they_were_found() -> None:
    parts = {name: [*rows, strange(name)] for name, rows in stored().items()}
    line = Line(joined(parts))
    assert line.state.foreign == Foreign((strange("schema"),), (strange("base"),), (strange("current"),))
    line.swap(history=(commit(ulid(95)),))
    line.swap(schema=schema("B"))
    now = reread(line.state)
    assert now == line.state
    assert {
        name: [row for row in rows if row.object_type == "of_the_future"] for name, rows in stored(now).items()
    } == {name: [strange(name)] for name in ("schema", "base", "current")}


def test_rows_of_unknown_kinds_in_the_first_fragment_of_a_line_are_not_lost() -> None:
    first = fragments.join([[*fragments.single_rows(main_line()), strange("x")]], version=1, ref=None)
    line = Line(first)
    line.swap()
    assert reread(line.state).foreign.current == (strange("x"),)


# --- digests ------------------------------------------------------------------------------------------------------------

raw_rows = st.builds(
    r.RawRow,
    *[st.text(st.characters(exclude_categories=("Cs",)), max_size=9)] * 3,
    location=st.none() | st.text(st.characters(exclude_categories=("Cs",)), max_size=9),
    table_version=st.none() | st.integers(0, (1 << 64) - 1),
    table_branch=st.none() | st.text(max_size=3, alphabet='ab"\\\n\x7f\u2028é'),
    row_count=st.none() | st.integers(0, 9),
    seq=st.none() | st.integers(0, 9),
    metadata=st.none() | st.just('{"a":"\\"é"}'),
    idempotency_key=st.none() | st.text(max_size=3, alphabet='ab"\\/\t\x00'),
)


@given(st.lists(raw_rows, max_size=4))
def test_a_digest_is_of_the_canonical_json_of_all_columns(rows: list[r.RawRow]) -> None:
    listed = [{name: getattr(row, name) for name in r.ARROW_SCHEMA.names} for row in rows]
    wanted = xxhash.xxh3_128(dumps(listed).encode()).hexdigest()
    assert digests.digest(rows) == wanted
    assert digests.digest_of_columns([[row[name] for row in listed] for name in r.ARROW_SCHEMA.names]) == wanted


def test_a_digest_tells_order_and_every_column() -> None:
    rows = [codec.history_row(row) for row in STATE.tail]
    found = {digests.digest(rows), digests.digest(rows[::-1]), digests.digest(rows[1:]), digests.digest([])}
    for name in r.ARROW_SCHEMA.names:
        other = 5 if name in ("table_version", "row_count", "seq") else "y"
        found.add(digests.digest([replace(rows[0], **{name: other}), *rows[1:]]))
    assert len(found) == 4 + len(r.ARROW_SCHEMA.names)


@pytest.mark.parametrize(
    "text_",
    [None, "", "[]", "{", '{"a.lance": "' + "0" * 32 + '"}', '{"a.lance":"0"}', '{"a.lance":3}', "{}",
     '{"a.lance":"' + "0" * 32 + '","b.lance":"' + "0" * 32 + '"}'],
)  # fmt: skip
def test_digests_that_do_not_fit_the_files_are_refused(text_: str | None) -> None:
    found = {} if text_ is None else {r.DIGESTS_KEY.encode(): text_.encode()}
    with pytest.raises((ValueError, TypeError)):
        digests.parse(found, ["a.lance"])


def test_digests_come_back_from_the_metadata() -> None:
    made = {f"{n}.lance": f"{n:032x}" for n in range(3)}
    stamped = {key.encode(): value.encode() for key, value in digests.metadata(made).items()}
    assert stamped[r.VERSION_KEY.encode()] == b"5"
    assert digests.parse(stamped, list(made)) == made


# --- recent -------------------------------------------------------------------------------------------------------------

ids = st.lists(st.text(max_size=6), max_size=70, unique=True)


@given(st.dictionaries(st.integers(0, 30), ids, max_size=5), st.text(max_size=6))
def test_an_id_that_may_not_be_held_is_in_none_of_the_fragments(staged: dict[int, list[str]], other: str) -> None:
    made = recent.extended(None, staged)
    covered = () if made is None else made.fragments
    assert set(covered) == {number for number, listed in staged.items() if len(listed) <= recent.FRAGMENT_ROWS_MAX}
    for number in covered:
        assert made is not None and all(made.may_hold(one) for one in staged[number])
    everything = {one for number in covered for one in staged[number]}
    if made is not None and other not in everything:
        assert not made.may_hold(other)
    assert recent.from_json(json.loads(dumps(recent.to_json(made)))) == made


def test_the_keys_of_recent_are_sorted_hashes_of_eight_bytes_little_endian() -> None:
    made = recent.extended(None, {7: ["a", "b", "c"]})
    assert made is not None
    hashes = [int.from_bytes(made.keys[n : n + 8], "little") for n in range(0, 24, 8)]
    assert hashes == sorted(xxhash.xxh3_64_intdigest(one.encode()) for one in "abc")


def test_fragments_beyond_the_bounds_are_left_out() -> None:
    full = recent.extended(None, {n: [f"{n}/{k}" for k in range(64)] for n in range(16)})
    assert full is not None and len(full.keys) == 8 * recent.KEYS_MAX and len(full.fragments) == 16
    assert recent.extended(full, {16: ["one more"]}) == full
    assert recent.extended(None, {1: [str(k) for k in range(65)]}) is None


def test_fragments_that_an_index_covers_leave() -> None:
    made = recent.extended(None, {1: ["a"], 2: ["b"]})
    left = recent.without(made, {1})
    assert left is not None and left.fragments == (2,) and left.may_hold("b")
    assert recent.without(made, {1, 2}) is None and recent.without(None, {1}) is None


def test_the_longest_values_go_first_where_all_together_are_too_long() -> None:
    values = {f"t{n}": r.Recent((1,), b"x" * 8 * n) for n in (1, 2, 3)}
    total = sum(one.text_bytes for one in values.values())
    assert recent.over_limit({**values, "none": None}, total) == frozenset()
    assert recent.over_limit(values, total - 1) == {"t3"}
    assert recent.over_limit(values, 0) == set(values)


BAD_RECENT = {
    "no fragments": {"fragments": [], "keys": ""},
    "fragments that fall": {"fragments": [2, 1], "keys": ""},
    "a fragment twice": {"fragments": [1, 1], "keys": ""},
    "a fragment as text": {"fragments": ["1"], "keys": ""},
    "half a key": {"fragments": [1], "keys": base64.b64encode(b"1234").decode()},
    "keys that fall": {"fragments": [1], "keys": base64.b64encode(b"\2" * 8 + b"\1" * 8).decode()},
    "a key twice": {"fragments": [1], "keys": base64.b64encode(b"\1" * 16).decode()},
    "no base64": {"fragments": [1], "keys": "?"},
    "no text": {"fragments": [1], "keys": 5},
    "too many keys": {
        "fragments": [1],
        "keys": base64.b64encode(b"".join(n.to_bytes(8, "little") for n in range(1_025))).decode(),
    },
    "a list": [],
}


@pytest.mark.parametrize("body", BAD_RECENT.values(), ids=BAD_RECENT.keys())
def test_recent_keys_that_nobody_writes_are_refused(body: object) -> None:
    with pytest.raises(ValueError):
        recent.from_json(body)


# --- canonical JSON -----------------------------------------------------------------------------------------------------


def test_canonical_json_has_one_text_for_a_value() -> None:
    assert dumps({"b": [1, None, True], "a": 'é\n"'}) == '{"a":"é\\n\\"","b":[1,null,true]}'
    with pytest.raises(ValueError):
        dumps(float("nan"))


@pytest.mark.parametrize(
    "wrong", ['{"a":1,"a":2}', "NaN", "[Infinity]", "-Infinity", "1e999", "{", "", "[" * 33 + "]" * 33, "[" * 100_000]
)
def test_json_that_nobody_writes_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError):
        loads(wrong)


def test_json_of_the_permitted_nesting_is_read() -> None:
    assert loads("[" * NESTING_MAX + "]" * NESTING_MAX)
    assert loads("[" + "[]," * 50 + "[]]") == [[]] * 51
