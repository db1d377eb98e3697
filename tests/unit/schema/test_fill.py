"""Fills of added properties: what is taken, and that an expression cannot give another value the second time."""

from __future__ import annotations

import datetime as dt
import itertools
import math

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.core.errors import InvalidInput
from omnigraph.schema import parse_schema
from omnigraph.schema.diff import plan_change
from omnigraph.schema.fill_sql import FUNCTIONS, SQL_TYPES, _converts, check_expression
from omnigraph.schema.plan import Fill, StepKind
from tests.unit.schema.material import accepted, counter

OLD = """
node Na { name: String @key  count: I32  size: F32?  mood: enum(x, y)?  seen: Date?  at: DateTime?  ok: Bool?
          tags: [String]?  face: Vector(2)?  photo: Blob?  gone: String? }
node Nb {}
edge Ea: Na -> Nb { weight: F64? }
"""


def filled(declared: str, fill: object, *, owner: str = "Na", text: str | None = None) -> Fill:
    """The fill of a property ``new`` that is added to a type."""
    head = "-> Nb {" if owner == "Ea" else "node Na {"
    new = text or OLD.replace("gone: String?", "").replace(head, f"{head} new: {declared} ")
    made = plan_change(accepted(OLD), parse_schema(new), fill={f"{owner}.new": fill}, mint=counter("new"))
    (step,) = [s for s in made.steps if s.kind is StepKind.ADD_PROPERTY]
    assert step.supported and step.fill is not None and step.cost.requests_a_fragment
    return step.fill


CONSTANTS = [
    ("String", "text", "text"),
    ("String?", "", ""),
    ("enum(x, y)", "x", "x"),
    ("Bool", False, False),
    ("I32", -(2**31), -(2**31)),
    ("U64", 2**64 - 1, 2**64 - 1),
    ("F64", 1, 1.0),
    ("F64", -0.0, 0.0),
    ("F32", 0.5, 0.5),
    ("Date", "2020-02-29", "2020-02-29"),
    ("Date", dt.date(2020, 2, 29), "2020-02-29"),
    ("DateTime", "2020-01-01T02:00:00+02:00", "2020-01-01T00:00:00.000000Z"),
    ("DateTime", dt.datetime(2020, 1, 1, 1, tzinfo=dt.UTC), "2020-01-01T01:00:00.000000Z"),
    ("[I32]", [1, None], [1, None]),
    ("[String]?", [], []),
    ("Vector(2)", (1, 0.5), [1.0, 0.5]),
]


@pytest.mark.parametrize(("declared", "given_", "stored"), CONSTANTS)
def test_a_constant_is_kept_as_a_value_of_its_type(declared: str, given_: object, stored: object) -> None:
    fill = filled(declared, given_)
    assert fill.to_stored() == {"value": stored}
    assert math.copysign(1, fill.given) == 1 if isinstance(fill.given, float) else type(fill.given) is type(stored)


BAD_CONSTANTS = [
    ("String", 1),
    ("String", "\ud800"),
    ("enum(x, y)", "z"),
    ("Bool", 1),
    ("I32", True),
    ("I32", 1.0),
    ("I32", 2**31),
    ("U32", -1),
    ("U64", 2**64),
    ("F64", math.nan),
    ("F64", math.inf),
    ("F64", "1"),
    ("F64", 10**400),
    ("F32", 3.5e38),
    ("Date", "2020-02-30"),
    ("Date", dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
    ("DateTime", "soon"),
    ("DateTime", dt.date(2020, 1, 1)),
    ("[I32]", 1),
    ("[I32]", ["1"]),
    ("Vector(2)", [1.0]),
    ("Vector(2)", [1.0, None]),
    ("I32?", None),
    ("Blob?", "bytes"),
    ("I32", {}),
    ("I32", {"property": "count", "sql": "count"}),
    ("I32", {"value": 1}),
    ("I32", {"property": 1}),
]


@pytest.mark.parametrize(("declared", "given_"), BAD_CONSTANTS)
def test_a_fill_that_is_no_value_of_its_type_is_refused(declared: str, given_: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        filled(declared, given_)
    assert caught.value.facts["fill"] == "Na.new" and "\n" not in caught.value.message


# --- another property ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "other"),
    [
        ("I32", "count"),
        ("I64", "count"),
        ("I32?", "count"),
        ("F64?", "size"),
        ("enum(x, y, z)?", "mood"),
        ("String", "name"),
        ("[String]?", "tags"),
        ("Vector(2)?", "face"),
        ("String?", "gone"),
    ],
)
def test_another_property_fills_by_its_identity(declared: str, other: str) -> None:
    fill = filled(declared, {"property": other})
    assert fill.to_stored() == {"property": accepted(OLD).node("Na").property(other).prop_id}


@pytest.mark.parametrize(
    ("declared", "other", "said"),
    [
        ("F64", "size", "cannot hold"),
        ("I32?", "name", "cannot hold"),
        ("F64?", "count", "cannot hold"),
        ("enum(x)?", "mood", "cannot hold"),
        ("enum(x, y)?", "gone", "cannot hold"),
        ("Vector(3)?", "face", "cannot hold"),
        ("String?", "new", "no property `new`"),
        ("String?", "nothing", "no property `nothing`"),
    ],
)
def test_a_property_that_does_not_fit_is_refused(declared: str, other: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        filled(declared, {"property": other})
    assert said in caught.value.message


def test_a_fill_reads_the_row_under_its_names_before_the_change() -> None:
    text = OLD.replace("gone: String?", 'kept: String? @rename_from("gone") new: String?')
    assert filled("String?", {"property": "gone"}, text=text).kind == "property"
    with pytest.raises(InvalidInput, match="before the change"):
        filled("String?", {"property": "kept"}, text=text)
    with pytest.raises(InvalidInput, match="no column"):
        filled("String?", {"sql": "kept"}, text=text)


@pytest.mark.parametrize(
    "name", ["Na.count", "Na.nothing", "Nothing.new", "Na", "Na.", ".new", "Nc.new", "", "Ia.new", 7]
)
def test_a_fill_of_what_is_not_added_is_refused(name: object) -> None:
    new = OLD.replace("node Na {", "node Na { new: I32? ") + "node Nc { new: I32 } interface Ia { new: I32 }"
    with pytest.raises(InvalidInput):
        plan_change(accepted(OLD), parse_schema(new), fill={name: 1}, mint=counter("new"))  # type: ignore[dict-item]


def test_fill_is_a_mapping() -> None:
    with pytest.raises(InvalidInput, match="mapping"):
        plan_change(accepted(OLD), parse_schema(OLD), fill=[("Na.new", 1)])  # type: ignore[arg-type]


# --- SQL ----------------------------------------------------------------------------------------------------------------

GOOD_SQL = [
    ("I32", "count + 1"),
    ("I64", "count::BIGINT * 2 -- twice"),
    ("String", "upper(name) || '-' || CAST(count AS VARCHAR)"),
    ("String", "CASE WHEN count > 3 AND ok THEN 'much' ELSE coalesce(gone, 'x') END"),
    ("Bool", "name LIKE 'a%' OR count IN (1, 2) OR seen IS NULL OR count BETWEEN 1 AND 3"),
    ("String", "id"),
    ("String", "regexp_replace(\"name\", 'a', 'b', 'g')"),
    ("I32", "date_part('year', seen)"),
    ("Date?", "date_trunc('month', seen)"),
    ("F64", "round(sqrt(abs(size)), 2)"),
    ("Date", "DATE '2020-01-01'"),
    ("[String]?", "list_concat(tags, [name])"),
    ("String?", "tags[1]"),
    ("F64?", "nullif(size, 0.5)"),
    ("DateTime?", '"at"'),
    ("DateTime?", "seen"),
    ("F64?", "NULL"),
    ("[String]", "[count]"),
    ("Vector(2)?", "face"),
    ("I32", "'5'"),
]


@pytest.mark.parametrize(("declared", "sql"), GOOD_SQL)
def test_an_expression_over_the_row_is_taken_as_it_is_written(declared: str, sql: str) -> None:
    assert filled(declared, {"sql": sql}).to_stored() == {"sql": sql}


def test_the_ends_of_an_edge_can_be_read() -> None:
    assert filled("String", {"sql": "src || dst || id"}, owner="Ea").kind == "sql"
    with pytest.raises(InvalidInput, match="no column"):
        filled("String", {"sql": "src"})


@pytest.mark.parametrize("name", ["ab", "aB", "id", "iD"])
def test_names_that_differ_in_case_only_cannot_be_read(name: str) -> None:
    old = accepted("node Na { ab: I32 aB: I32 iD: I32 other: I32 }")
    new = parse_schema("node Na { ab: I32 aB: I32 iD: I32 other: I32 new: I32? }")
    with pytest.raises(InvalidInput, match="no column"):
        plan_change(old, new, fill={"Na.new": {"sql": name}})
    assert plan_change(old, new, fill={"Na.new": {"sql": "other"}}).supported


BAD_SQL = [
    ("now()", "`now`"),
    ("NOW()", "`now`"),
    ("main.now()", ""),
    ("current_date", "no column"),
    ("current_timestamp", "no column"),
    ("localtimestamp", "no column"),
    ("today()", "`today`"),
    ("get_current_timestamp()", "not on the list"),
    ("random()", "`random`"),
    ("count + random()", "`random`"),
    ("CASE WHEN ok THEN 1 ELSE random() END", "`random`"),
    ("gen_random_uuid()", "not on the list"),
    ("uuid()", "not on the list"),
    ("setseed(0.5)", "not on the list"),
    ("nextval('s')", "not on the list"),
    ("txid_current()", "not on the list"),
    ("current_setting('TimeZone')", "not on the list"),
    ("getenv('HOME')", "not on the list"),
    ("current_user", "no column"),
    ("version()", "not on the list"),
    ("hash(name)", "not on the list"),
    ("read_text('/etc/passwd')", "not on the list"),
    ('age("at")', "not on the list"),
    ("(SELECT 1)", "subquery"),
    ("EXISTS (SELECT 1)", "subquery"),
    ("count IN (SELECT 1)", "subquery"),
    ("sum(count)", "`sum`"),
    ("row_number() OVER ()", "window"),
    ("list_transform(tags, t -> random())", "not on the list"),
    ("list_sum([random()])", "not on the list"),
    ("name COLLATE nocase = 'a'", "collate"),
    ("$1", "parameter"),
    ("?", "parameter"),
    ("*", "star"),
    ("COLUMNS('a')", ""),
    ("photo", "no column"),
    ("new", "no column"),
    ("Na.name", "no column"),
    ("nothing", "no column"),
    ("NAME", "no column"),
    ("CAST(name AS TIMESTAMPTZ)", "cast"),
    ("CAST(name AS TIME WITH TIME ZONE)", "cast"),
    ("CAST(name AS BLOB)", "cast"),
    ("CAST(name AS made_up)", "cast"),
    ("1) FROM (SELECT 1", "more than one"),
    ("1), (2", "more than one"),
    ("1) WHERE (1 = 1", "more than one"),
    ("1) UNION SELECT (2", "more than one"),
    ("1) LIMIT (1", "more than one"),
    ("1) ORDER BY (random()", "more than one"),
    ("1) GROUP BY (1", "more than one"),
    ("1); SELECT (2", "more than one"),
    ("1); DROP TABLE x; SELECT (2", ""),
    ("1) AS (x", "not an SQL expression"),
    ("", "not one expression"),
    ("count, count", "not one expression"),
    ("-- nothing", "not one expression"),
    ("1 +", "not an SQL expression"),
    ("\0", "not valid text"),
    ("'\ud800'", "not valid text"),
    ("upper(count, 1)", "does not fit"),
    ("tags", "does not fit"),
    ("seen", "does not fit"),
    ("to_days(count)", "does not fit"),
    ("[1]", "does not fit"),
    ("(" * 5000 + "1" + ")" * 5000, ""),
    ("+".join(["1"] * 5000), ""),
]


@pytest.mark.parametrize(("sql", "said"), BAD_SQL, ids=[sql[:30] for sql, _ in BAD_SQL])
def test_an_expression_that_may_differ_or_reads_more_than_the_row_is_refused(sql: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        filled("F64", {"sql": sql})
    assert said in caught.value.message and caught.value.facts["fill"] == "Na.new"
    assert "\n" not in caught.value.message and len(caught.value.message) < 400 and caught.value.hint


def test_every_function_on_the_list_is_one_that_duckdb_calls_consistent() -> None:
    """DuckDB says of each scalar function whether it gives the same for the same; built-in macros say nothing."""
    macros = {"list_reverse", "nullif", "split_part"}
    with duckdb.connect(":memory:") as connection:
        rows = connection.execute(
            "SELECT function_name, function_type, stability FROM duckdb_functions() WHERE function_type <> 'table'"
        ).fetchall()
    known: dict[str, set[tuple[str, str | None]]] = {}
    for name, kind, stability in rows:
        known.setdefault(name, set()).add((kind, stability))
    for name in FUNCTIONS:
        assert known[name] == ({("macro", None)} if name in macros else {("scalar", "CONSISTENT")}), name
    unstable = {
        n
        for n, found in known.items()
        if ("scalar", "VOLATILE") in found or ("scalar", "CONSISTENT_WITHIN_QUERY") in found
    }
    assert {"random", "now"} <= unstable and not unstable & FUNCTIONS


def test_every_type_that_can_be_filled_has_an_sql_type() -> None:
    from omnigraph.schema.catalog import ScalarKind

    assert set(SQL_TYPES) == set(ScalarKind) - {ScalarKind.BLOB}


SAMPLES = {
    **dict.fromkeys(["BOOLEAN", "INTEGER", "BIGINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL(5,2)"], "1"),
    **dict.fromkeys(["DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"], "'2020-01-01'"),
    "INTERVAL": "'1 day'",
    "INTEGER[]": "[1, 2]",
    "VARCHAR[]": "['1', '2']",
    "FLOAT[2]": "[1, 2]",
}


def test_a_result_is_taken_only_where_duckdb_can_convert_it() -> None:
    with duckdb.connect(":memory:") as connection:
        for given_, wanted in itertools.product(
            SAMPLES, {*SAMPLES, "VARCHAR"} - {"INTERVAL", "DECIMAL(5,2)", "TIMESTAMP"}
        ):
            query = f"SELECT CAST({SAMPLES[given_]}::{given_} AS {wanted})"
            if _converts(given_, wanted):
                connection.execute(query).fetchall()
            elif not given_.endswith("]") and not wanted.endswith(
                "]"
            ):  # DuckDB makes lists of texts and back; we do not
                with pytest.raises(duckdb.Error):
                    connection.execute(query).fetchall()


PIECES = st.sampled_from(
    "count name id now() random() ( ) ( ) , + - * || 'x' 1 2.5 :: AS VARCHAR CASE WHEN THEN END SELECT FROM ; -- /* */ "
    'upper( IN NOT NULL [ ] { } : ? $1 " AND IS BETWEEN EXISTS OVER DATE'.split()
)


DUCKDB = duckdb.connect(":memory:")  # opening one takes longer than an example


@settings(max_examples=100, deadline=None)
@given(st.lists(PIECES, max_size=8))
def test_any_text_is_taken_or_refused_and_nothing_unstable_is_taken(pieces: list[str]) -> None:
    old = accepted(OLD).node("Na")
    text = " ".join(pieces)
    try:
        check_expression("Na.new", text, old.property("gone").type, old)
    except InvalidInput:
        return
    query = f"SELECT (\n{text}\n) FROM (SELECT 1 AS count, 'n' AS name, 'i' AS id)"
    assert DUCKDB.execute(query).fetchall() == DUCKDB.execute(query).fetchall()
    bare = text.replace("'", " ").lower()
    assert "random()" not in bare.split("--")[0].split("/*")[0] and "select" not in bare.split("--")[0].split("/*")[0]
