"""SQL expressions as fills: which ones give the same value for the same row whenever they are evaluated.

The rule: one expression over the columns of one row, made of constants, columns, operators, CASE, CAST and functions of
the list below. What is not on a list is refused: the clock, randomness, settings and the environment, sequences, files,
subqueries, aggregates, windows, lambdas, parameters, collations. DuckDB's parser gives the tree; nothing is evaluated
while it is judged. Afterwards the expression is bound to an empty table, which finds wrong types. The evaluator
sets the time zone of the session to UTC.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from omnigraph.core.errors import InvalidInput
from omnigraph.core.limits import DEFAULT_LIMITS
from omnigraph.schema.catalog import EdgeType, PropType, ScalarKind, TableType

SQL_TYPES = {
    ScalarKind.STRING: "VARCHAR",
    ScalarKind.BOOL: "BOOLEAN",
    ScalarKind.I32: "INTEGER",
    ScalarKind.I64: "BIGINT",
    ScalarKind.U32: "UINTEGER",
    ScalarKind.U64: "UBIGINT",
    ScalarKind.F32: "FLOAT",
    ScalarKind.F64: "DOUBLE",
    ScalarKind.DATE: "DATE",
    ScalarKind.DATETIME: "TIMESTAMP WITH TIME ZONE",
    ScalarKind.VECTOR: "FLOAT",
}

# Scalar functions whose result depends on their arguments alone. Each is one name of DuckDB's.
FUNCTIONS = frozenset(
    """
    + - * / // % || ~~ !~~ ~~* !~~* ^ **
    abs ceil ceiling exp floor greatest least ln log log10 log2 mod pow power round sign sqrt trunc
    array_length array_position base64 bit_length concat concat_ws contains date_diff date_part date_trunc day dayofweek
    dayofyear ends_with epoch epoch_ms epoch_us format from_base64 hex hour instr isodow lcase left len
    length list_concat list_contains list_distinct list_extract list_position list_reverse list_slice list_sort list_value
    lower lpad ltrim make_date make_timestamp md5 microsecond millisecond minute month nullif ord position prefix printf
    quarter regexp_extract regexp_full_match regexp_matches regexp_replace repeat replace reverse right rpad rtrim second
    sha256 split_part starts_with str_split strftime string_split strip_accents strlen strpos strptime substr substring
    suffix to_days to_hours to_minutes to_months to_seconds to_years translate trim try_strptime ucase unicode upper week
    year
    """.split()
)
_CLASSES = frozenset(
    ["BETWEEN", "CASE", "CAST", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "OPERATOR", "TYPE"]
)
_CAST_TYPES = frozenset(
    """
    bigint bool boolean date datetime decimal double float float4 float8 hugeint int int1 int2 int4 int8 integer interval
    numeric real smallint string text timestamp tinyint ubigint uinteger usmallint utinyint varchar
    """.split()
)
# Members of a SELECT without FROM, WHERE or anything else beside its one expression.
_PLAIN_SELECT = frozenset(["type", "cte_map", "select_list", "from_table", "aggregate_handling"])
_DEPTH_MAX = 200
_NUMBERS = (
    "BOOLEAN DECIMAL DOUBLE FLOAT TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT"
)
_FAMILIES = (frozenset(_NUMBERS.split()), frozenset(["DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"]))


def check_expression(name: str, text: str, wanted: PropType, before: TableType) -> None:
    """Refuse an expression that is not deterministic, reads anything but the row, or does not give a ``wanted``."""
    DEFAULT_LIMITS.check("source_text_bytes", len(text.encode("utf-8", "surrogatepass")), where=f"fill of {name}")
    columns = readable_columns(before)
    try:
        expression = _parse(name, text)
        for node in _expressions(expression, 0):
            problem = _problem(node, columns)
            if problem is not None:
                raise _invalid(name, problem)
    except RecursionError:
        raise _invalid(name, "the expression is nested too deeply") from None
    _bind(name, text, wanted, columns)


def readable_columns(before: TableType) -> dict[str, str]:
    """The SQL types of the columns that an expression may name: all but blobs and names that differ in case only."""
    found = {"id": "VARCHAR"}
    if isinstance(before, EdgeType):
        found |= {"src": "VARCHAR", "dst": "VARCHAR"}
    found |= {p.name: sql_type(p.type) for p in before.properties if p.type.scalar is not ScalarKind.BLOB}
    # SQL ignores case: of two names that differ in nothing else it would silently read one.
    folded = Counter(name.lower() for name in before.columns)
    return {name: sql for name, sql in found.items() if folded[name.lower()] == 1}


def sql_type(prop_type: PropType) -> str:
    base = SQL_TYPES[prop_type.scalar]
    if prop_type.scalar is ScalarKind.VECTOR:
        return f"{base}[{prop_type.dim}]"
    return f"{base}[]" if prop_type.is_list else base


def _parse(name: str, text: str) -> dict[str, Any]:
    """The tree of the one expression. The line end keeps a comment at the end from swallowing the bracket."""
    import duckdb

    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise _invalid(name, "not valid text") from None
    if b"\0" in encoded:
        raise _invalid(name, "not valid text")
    with duckdb.connect(":memory:") as connection:
        row = connection.execute("SELECT json_serialize_sql(?)", [f"SELECT ({text}\n)"]).fetchone()
    assert row is not None
    tree = json.loads(row[0])
    if tree.get("error"):
        raise _invalid(name, f"not an SQL expression: {' '.join(str(tree.get('error_message')).split())[:200]}")
    statements = tree["statements"]
    node = statements[0]["node"]
    used = {member for member, value in node.items() if not _is_blank(value)}
    extra = used - _PLAIN_SELECT
    plain = node["type"] == "SELECT_NODE" and node["from_table"].get("type") == "EMPTY"
    has_with = not _is_blank(node.get("cte_map"))
    if len(statements) != 1 or extra or not plain or has_with or len(node["select_list"]) != 1:
        raise _invalid(name, "more than one expression")
    found: dict[str, Any] = node["select_list"][0]
    if found.get("alias") or found.get("function_name") == "row":  # `()` and `(1, 2)` are rows
        raise _invalid(name, "not one expression")
    return found


def _is_blank(value: object) -> bool:
    """Whether a member of the tree says nothing: empty, or made of nothing but what is empty."""
    if isinstance(value, dict):
        return all(_is_blank(v) for v in value.values())
    if isinstance(value, list):
        return all(_is_blank(v) for v in value)
    return value is None or value is False or value == ""


def _expressions(value: object, depth: int) -> Iterator[dict[str, Any]]:
    """Every part of the tree that has a class, the outermost first."""
    if depth > _DEPTH_MAX * 3:  # an expression takes up to three levels of the tree
        raise RecursionError
    if isinstance(value, dict):
        if "class" in value:
            yield value
        for inner in value.values():
            yield from _expressions(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _expressions(inner, depth + 1)


def _problem(node: dict[str, Any], columns: dict[str, str]) -> str | None:
    kind = node["class"]
    if kind == "FUNCTION":
        return _function_problem(node)
    if kind == "COLUMN_REF":
        names = node["column_names"]
        if len(names) == 1 and names[0] in columns:
            return None
        return f"`{'.'.join(names)[:128]}` is no column of the row that can be read"
    if kind in ("TYPE", "CAST"):
        return _cast_problem(node)
    if kind not in _CLASSES:
        return f"{kind.lower().replace('_', ' ')} is not allowed in a fill"
    return None


def _cast_problem(node: dict[str, Any]) -> str | None:
    """The type of a cast is an expression of its own; older trees name it inside the cast."""
    if node["class"] == "CAST" and isinstance(node.get("type_expr"), dict):
        return None  # its parts are judged one by one
    name = node.get("type_name") if node["class"] == "TYPE" else (node.get("cast_type") or {}).get("id")
    known = str(name or "").lower()
    return None if known in _CAST_TYPES else f"a cast to {known[:40] or 'this type'} is not on the list"


def _function_problem(node: dict[str, Any]) -> str | None:
    name = str(node["function_name"]).lower()
    path = (node.get("qualified_name") or {}).get("path") or [name]
    special = node.get("filter"), (node.get("order_bys") or {}).get("orders"), node.get("distinct")
    if name not in FUNCTIONS or len(path) != 1 or node.get("schema") or node.get("catalog"):
        return f"the function `{name[:60]}` is not on the list of deterministic functions of a row"
    return "a filter, an order or DISTINCT inside a function is not allowed in a fill" if any(special) else None


def _bind(name: str, text: str, wanted: PropType, columns: dict[str, str]) -> None:
    """Let DuckDB find what does not fit: unknown arguments, a result that cannot become the property's type."""
    import duckdb

    table = ", ".join(f'NULL::{sql} AS "{column}"' for column, sql in columns.items())
    with duckdb.connect(":memory:", config={"enable_external_access": "false"}) as connection:
        try:
            row = connection.execute(f"DESCRIBE SELECT (\n{text}\n) FROM (SELECT {table})").fetchone()
        except duckdb.Error as error:
            reason = " ".join(str(error).split("\n", 1)[0].split())[:200] or type(error).__name__
            raise _invalid(name, f"the expression does not fit the row: {reason}") from None
    assert row is not None
    if not _converts(str(row[1]), sql_type(wanted)):
        raise _invalid(name, f"the expression does not fit: it gives {str(row[1])[:60]}, the property is {wanted}")


def _converts(given: str, wanted: str) -> bool:
    """Whether a cast exists. DuckDB itself says so only when it meets a value; a value may still be out of range."""
    is_list, is_wanted_list = given.endswith("]"), wanted.endswith("]")
    if given.strip('"') == "NULL":
        return True
    if is_list or is_wanted_list:
        return is_list and is_wanted_list and _converts(given[: given.rindex("[")], wanted[: wanted.rindex("[")])
    families = [next((f for f in _FAMILIES if t.split("(")[0] in f), None) for t in (given, wanted)]
    return wanted == "VARCHAR" or given == "VARCHAR" or (families[0] is not None and families[0] == families[1])


def _invalid(name: str, problem: str) -> InvalidInput:
    return InvalidInput(
        f"fill of {name}: {problem}",
        hint="write an expression over the columns of the row as they were before the change, without clock, randomness, "
        "subqueries and aggregates",
        fill=name,
    )
