"""A snapshot answers from one state, whatever is written meanwhile, and refuses what it cannot answer."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import omnigraph as og
from omnigraph.commit.engine import Engine
from omnigraph.core.errors import InvalidInput, NotFound, OmnigraphError
from omnigraph.read.places import snapshot_at
from omnigraph.read.snapshot import Snapshot, snapshot_of_branch
from omnigraph.schema import Catalog
from omnigraph.schema.arrow import table_schema
from tests.component.read.material import EVERY_KIND, SOCIAL, catalog_of, cold, knows, new_graph, people, put

NOON = dt.datetime(2024, 5, 6, 12, tzinfo=dt.UTC)
FULL = {
    "id": "t1", "at": NOON, "ats": [NOON, None], "b": b"\x00\xff", "bs": [True, None], "d": 1e300, "f": 0.5, "fs": [0.5],
    "i": -(2**31), "kind": "a", "l": 2**63 - 1, "name": "t1", "ns": [-1], "on": dt.date(1, 1, 1), "ons": [],
    "s": False, "tags": ["", None, "é\"'"], "u": 2**32 - 1, "ul": 2**64 - 1, "v": [1.0, -2.0, 0.5],
}  # fmt: skip
EMPTY = {**dict.fromkeys(FULL), "id": "t2", "name": "t2"}


@pytest.fixture
def social(local_root: str) -> Engine:
    engine = new_graph(local_root)
    put(engine, "Person", people("ada", "bob", "cy"))
    put(engine, "Knows", [knows("e1", "ada", "bob"), knows("e2", "bob", "cy")])
    return engine


@pytest.fixture
def snap(social: Engine) -> Snapshot:
    return snapshot_of_branch(social)


@pytest.fixture
def things(local_root: str) -> Snapshot:
    engine = new_graph(local_root, EVERY_KIND)
    put(engine, "Thing", [FULL, EMPTY])
    return snapshot_of_branch(cold(engine))


# --- what it is ---------------------------------------------------------------------------------------------------------


def test_a_snapshot_names_its_commit_and_its_tables(social: Engine, snap: Snapshot) -> None:
    assert snap.branch == "main"
    assert snap.commit_id == social.latest("main").state.head.commit_id
    assert list(snap.tables) == ["edge:Knows", "node:Company", "node:Person"]
    entry = snap.tables["node:Person"]
    assert (entry.rows, entry.branch) == (3, "main")
    assert entry.uri.startswith(f"{social.uri}/nodes/Person-")
    shown = snap.to_dict()
    assert shown["tables"][2] == {
        "table_key": "node:Person",
        "table_path": entry.uri.removeprefix(f"{social.uri}/"),
        "table_version": entry.version,
        "table_branch": "main",
        "row_count": 3,
    }
    assert (shown["branch"], shown["manifest_version"], shown["internal_schema_version"]) == ("main", 3, 5)
    assert snap.commit_id in repr(snap)
    assert "node:Person" in snap._repr_html_()
    with pytest.raises(TypeError):
        snap.tables["node:Person"] = entry  # type: ignore[index]


def test_a_snapshot_never_changes(social: Engine, snap: Snapshot) -> None:
    before = (snap.export(), snap.count("Person"), snap.get("Person", "dee"), snap.to_dict())
    put(social, "Person", people("dee"))
    assert (snap.export(), snap.count("Person"), snap.get("Person", "dee"), snap.to_dict()) == before
    later = snapshot_of_branch(social)
    assert later.get("Person", "dee") == {"id": "dee", "age": 20, "name": "dee"}
    assert later.count("Person") == 4
    assert snapshot_at(social, snap.commit_id).export() == before[0]


def test_a_cold_open_reads_what_the_live_handle_reads(social: Engine, snap: Snapshot) -> None:
    other = snapshot_of_branch(cold(social))
    assert other.to_dict() == snap.to_dict()
    assert other.export() == snap.export()


def test_a_snapshot_travels_as_its_address(social: Engine, snap: Snapshot) -> None:
    sent = pickle.dumps(snap)
    put(social, "Person", people("dee"))
    found = pickle.loads(sent)
    assert found.commit_id == snap.commit_id
    assert found.export() == snap.export()


# --- rows ---------------------------------------------------------------------------------------------------------------


def test_get_finds_one_row_by_id(snap: Snapshot) -> None:
    assert snap.get("Person", "bob") == {"id": "bob", "age": 21, "name": "bob"}
    assert snap.get("node:Person", "bob") == snap.get("Person", "bob")
    assert snap.get("knows", "e1") == {"id": "e1", "src": "ada", "dst": "bob", "since": None}
    assert snap.get("Person", "nobody") is None
    assert snap.get("Person", "' OR 1=1 --") is None
    with pytest.raises(InvalidInput, match="id is not valid Unicode"):
        snap.get("Person", "\ud800")
    assert snap.get("Company", "none yet") is None


def test_get_finds_each_row_beside_deleted_ones(local_root: str) -> None:
    """A row is taken by its number among the living, an address counts the dead as well."""
    with og.init(local_root, "node Person { name: String @key }\n") as graph:
        names = [f"p{n:02d}" for n in range(40)]
        graph.load([{"type": "Person", "data": {"name": name}} for name in names], mode="append")
        dead = {"p00", "p07", "p08", "p31", "p39"}
        for name in sorted(dead):
            graph.mutate("query gone($n: String) {\n  delete Person where name = $n\n}\n", params={"n": name})
        wanted = {name: None if name in dead else {"id": name, "name": name} for name in names}
        assert {name: graph.snapshot().get("Person", name) for name in names} == wanted
    with og.open(local_root, read_only=True) as graph:
        assert {name: graph.snapshot().get("Person", name) for name in names} == wanted


def test_every_kind_comes_back_as_it_went_in(things: Snapshot) -> None:
    assert things.get("Thing", "t1") == FULL
    assert things.get("Thing", "t2") == EMPTY
    assert list(things.head("Thing")) == [FULL, EMPTY]
    assert things.to_arrow("Thing").to_pylist() == [FULL, EMPTY]


def test_get_takes_the_values_of_a_key(local_root: str) -> None:
    engine = new_graph(local_root, "node Slot { day: Date n: I64 @key(day, n) }\nnode Num { n: I64 @key }\n")
    put(engine, "Slot", [{"id": '["2024-01-02","7"]', "day": dt.date(2024, 1, 2), "n": 7}])
    put(engine, "Num", [{"id": "-5", "n": -5}])
    snap = snapshot_of_branch(engine)
    row = snap.get("Slot", (dt.date(2024, 1, 2), 7))
    assert row is not None
    assert row["n"] == 7
    assert snap.get("Num", -5) == snap.get("Num", "-5") == {"id": "-5", "n": -5}
    for wrong in ((7,), (7, 7), 7, None, 1.5):
        with pytest.raises(InvalidInput):
            snap.get("Slot", wrong)


def test_head_returns_the_first_rows(snap: Snapshot) -> None:
    rows = snap.head("Person", 2)
    assert [row["id"] for row in rows] == ["ada", "bob"]
    assert rows.to_arrow().num_rows == 2
    assert ">ada</td>" in rows._repr_html_()
    assert snap.head("Person", 0) == []
    assert snap.head("Company") == []
    assert len(snap.head("Person")) == 3
    assert pickle.loads(pickle.dumps(rows)) == rows


def test_a_page_of_html_escapes_what_it_shows(local_root: str) -> None:
    engine = new_graph(local_root)
    put(engine, "Person", people("<script>"))
    assert "<script>" not in snapshot_of_branch(engine).head("Person")._repr_html_()


def test_columns_come_in_the_order_asked(snap: Snapshot) -> None:
    assert snap.to_arrow("Person", ["name", "id"]).column_names == ["name", "id"]
    assert snap.to_arrow("Knows").column_names == ["id", "src", "dst", "since"]
    assert snap.to_arrow("Company", ["name"]).schema.names == ["name"]
    assert snap.schema("Person").field("age").type == pa.int32()


def test_batches_stream_in_the_size_asked(snap: Snapshot) -> None:
    stream = snap.to_batches("Person", ["id"], batch_size=2)
    assert isinstance(stream, pa.RecordBatchReader)
    assert stream.schema.names == ["id"]
    assert [batch.num_rows for batch in stream] == [2, 1]
    assert list(snap.to_batches("Company")) == []


def test_the_schema_of_an_empty_type_is_that_of_a_full_one(things: Snapshot, tmp_path: Any) -> None:
    empty = snapshot_of_branch(new_graph(str(tmp_path / "other"), EVERY_KIND))
    assert empty.to_arrow("Thing").schema == things.to_arrow("Thing").schema
    assert empty.to_batches("Thing").schema == things.to_batches("Thing").schema


def test_fragments_say_how_a_table_is_cut(social: Engine) -> None:
    put(social, "Person", people("dee", "eve"))
    found = snapshot_of_branch(social).fragments("Person")
    assert [(f.id, f.rows, f.deleted_rows) for f in found] == [(0, 3, 0), (1, 2, 0)]
    assert all(f.bytes > 0 and len(f.files) == 1 for f in found)
    assert found[0].to_dict()["rows"] == 3
    assert snapshot_of_branch(social).fragments("Company") == ()


# --- filters ------------------------------------------------------------------------------------------------------------

FILTERS: list[tuple[str, Callable[[], pc.Expression], list[str]]] = [
    ("number", lambda: pc.field("i") < 0, ["t1"]),
    ("unsigned", lambda: pc.field("ul") == pa.scalar(2**64 - 1, pa.uint64()), ["t1"]),
    ("null", lambda: pc.field("i").is_null(), ["t2"]),
    ("bytes", lambda: pc.field("b") == pa.scalar(b"\x00\xff", pa.large_binary()), ["t1"]),
    ("bytes null", lambda: pc.field("b").is_null(), ["t2"]),
    ("moment", lambda: pc.field("at") == pa.scalar(NOON, pa.timestamp("us", "UTC")), ["t1"]),
    ("text function", lambda: pc.utf8_upper(pc.field("name")) == "T2", ["t2"]),
    ("nothing", lambda: pc.field("id") == "'; --", []),
]


@pytest.mark.parametrize(
    ("make", "ids"), [(make, ids) for _, make, ids in FILTERS], ids=[name for name, _, _ in FILTERS]
)
def test_a_filter_selects_by_value_whoever_evaluates_it(
    things: Snapshot, make: Callable[[], pc.Expression], ids: list[str]
) -> None:
    assert things.to_arrow("Thing", ["id"], make())["id"].to_pylist() == ids
    assert things.to_arrow("Thing", ["name", "id", "b"], make())["id"].to_pylist() == ids
    assert things.count("Thing", make()) == len(ids)
    assert [row["id"] for batch in things.to_batches("Thing", None, make()) for row in batch.to_pylist()] == ids


def test_a_filter_agrees_with_arrow_on_random_rows(local_root: str) -> None:
    engine = new_graph(local_root, EVERY_KIND)
    schema = table_schema(catalog_of(engine).node("Thing"))
    rows = [
        {"id": f"t{k:03d}", "name": f"t{k:03d}", "u": k % 7, "i": -k if k % 5 else None, "d": k / 3} for k in range(500)
    ]
    put(engine, "Thing", rows[:250])
    put(engine, "Thing", rows[250:])
    table = pa.Table.from_pylist(rows, schema=schema)
    snap = snapshot_of_branch(engine)
    for expression in (
        (pc.field("u") > 3) & (pc.field("i") < -10),
        (pc.field("d") > 50.5) | pc.field("i").is_null(),
        ~(pc.field("u") == 2),
        pc.field("u").isin([1, 2]),
        pc.is_in(pc.field("id"), pa.array(["t001", "t499", "x"])),
    ):
        wanted = table.filter(expression)["id"].to_pylist()
        assert snap.to_arrow("Thing", ["id"], expression)["id"].to_pylist() == wanted


# --- refusals -----------------------------------------------------------------------------------------------------------

REFUSED: list[tuple[str, type[OmnigraphError], str, Callable[[Snapshot], Any]]] = [
    ("unknown type", NotFound, "Company, ", lambda s: s.get("Persn", "x")),
    ("node in another case", NotFound, "person", lambda s: s.count("person")),
    ("unknown key", NotFound, "edge:Person", lambda s: s.head("edge:Person")),
    ("path as type", NotFound, "../x", lambda s: s.to_arrow("../x")),
    ("type of another kind", InvalidInput, "text", lambda s: s.count(None)),  # type: ignore[arg-type]
    ("unknown column", InvalidInput, "id, age, name", lambda s: s.to_arrow("Person", ["nmae"])),
    ("quoted column", InvalidInput, "no column", lambda s: s.to_arrow("Person", ["`id`"])),
    ("no column", InvalidInput, "at least one", lambda s: s.to_arrow("Person", [])),
    ("column twice", InvalidInput, "none twice", lambda s: s.to_arrow("Person", ["id", "id"])),
    ("columns as text", InvalidInput, "list", lambda s: s.to_arrow("Person", "id")),
    ("filter as text", InvalidInput, "expression", lambda s: s.to_arrow("Person", None, "age > 3")),  # type: ignore[arg-type]
    ("filter on an unknown column", InvalidInput, "does not fit", lambda s: s.count("Person", pc.field("x") > 1)),
    ("filter of another kind", InvalidInput, "does not fit", lambda s: s.to_batches("Person", None, pc.field("age") > "x")),
    ("filter that is no condition", InvalidInput, "does not fit", lambda s: s.count("Person", pc.field("age") + 1)),
    ("negative head", InvalidInput, "from 0 on", lambda s: s.head("Person", -1)),
    ("batches of nothing", InvalidInput, "from 1 on", lambda s: s.to_batches("Person", batch_size=0)),
    ("id of another kind", InvalidInput, "id", lambda s: s.get("Knows", 7)),
    ("no types", InvalidInput, "at least one", lambda s: s.export(types=[])),
    ("types as text", InvalidInput, "list", lambda s: s.export(types="Person")),
    ("export of an unknown type", NotFound, "Persons", lambda s: s.export(types=["Persons"])),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "part", "call"),
    [(kind, part, call) for _, kind, part, call in REFUSED],
    ids=[name for name, *_ in REFUSED],
)
def test_a_wrong_question_is_refused_by_name(
    snap: Snapshot, kind: type[OmnigraphError], part: str, call: Callable[[Snapshot], Any]
) -> None:
    with pytest.raises(kind, match=part.replace(".", r"\.")) as caught:
        call(snap)
    assert "\n" not in str(caught.value)


def test_other_branches_are_not_found(social: Engine) -> None:
    with pytest.raises(NotFound, match="branch"):
        snapshot_of_branch(social, "dev")


def test_what_a_snapshot_returns_keeps_reading_when_the_graph_is_closed(snap: Snapshot, social: Engine) -> None:
    stream: Iterator[Any] = iter(snap.to_batches("Person"))
    social.close()
    assert sum(batch.num_rows for batch in stream) == 3
    assert SOCIAL == snap.catalog.source


def test_the_type_or_column_that_was_probably_meant_is_named(local_root: str) -> None:
    calls = {
        "Person": lambda graph, name: graph.snapshot().to_arrow(name),
        "name": lambda graph, name: graph.snapshot().to_arrow("Person", [name]),
    }
    with og.init(local_root, "node Person { name: String @key }") as graph:
        for right, call in calls.items():
            with pytest.raises(og.errors.OmnigraphError) as caught:
                call(graph, right[:-1])
            assert caught.value.hint == f"did you mean {right}?"
            call(graph, right)  # what the hint says works
        with pytest.raises(og.errors.NotFound) as caught:
            graph.optimize(types=["Persn"])
        assert caught.value.hint == "did you mean Person?"
        with pytest.raises(og.errors.NotFound) as caught:
            graph.snapshot().to_arrow("Zebra")
        assert "did you mean" not in str(caught.value.hint)


# --- many types ---------------------------------------------------------------------------------------------------------


def test_what_a_snapshot_asks_of_the_catalog_does_not_grow_with_the_square_of_its_types(
    local_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    og.init(local_root, "\n".join(f"node T{number} {{ k: String @key }}" for number in range(60))).close()
    asked: list[int] = []
    types = Catalog.types
    monkeypatch.setattr(Catalog, "types", lambda catalog: (asked.append(1), types(catalog))[1])
    taken = og.open(local_root).snapshot()
    assert len(taken.tables) == 60
    assert taken.tables is taken.tables
    assert len(asked) <= 2


def test_a_graph_is_read_whatever_the_keywords_of_its_annotations_are_called(local_root: str) -> None:
    """Those that the stored form of a schema uses for identities, too."""
    words = ", ".join(f'{word}="{word}"' for word in ("also", "kwargs", "name", "prop_id", "type_id"))
    og.init(local_root, f'node A @note("x", {words}) {{ k: String @key d: String? @note("y", {words}) }}').close()
    assert list(og.open(local_root).snapshot().tables) == ["node:A"]
