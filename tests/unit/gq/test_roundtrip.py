"""Generate a tree, print it, parse it: the same tree. And literals, by the thousand, mean what was written."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.gq import InsertNode, bind_mutation, format_queries, format_query, parse_queries, parse_query
from omnigraph.gq.printer import format_expr
from omnigraph.gq.tree import (
    Aggregate,
    AliasOf,
    Assign,
    Binding,
    BoolLiteral,
    Clause,
    DateLiteral,
    DateTimeLiteral,
    Delete,
    Expr,
    Filter,
    FloatLiteral,
    Hops,
    Insert,
    IntLiteral,
    ListLiteral,
    Mutation,
    Nearest,
    NotExists,
    Now,
    Ordering,
    Param,
    Predicate,
    Projection,
    PropertyMatch,
    PropertyOf,
    Query,
    QueryFile,
    RankFusion,
    Read,
    StringLiteral,
    TextClause,
    TextSearch,
    Traversal,
    Update,
    Variable,
)
from omnigraph.schema import PropType, ScalarKind
from tests.unit.gq.material import NOW_US, catalog

# Words of the grammar are names as well; only these mean a literal where a bare name could stand.
WORDS = ["query", "match", "return", "order", "limit", "as", "asc", "desc", "not", "contains", "insert", "set", "where", "now", "date", "count"]  # fmt: skip

names = st.one_of(st.sampled_from(WORDS), st.from_regex(r"[a-z_][A-Za-z0-9_]{0,11}", fullmatch=True))
type_names = st.from_regex(r"[A-Z][A-Za-z0-9_]{0,11}", fullmatch=True)
texts = st.text(st.characters(codec="utf-8"), max_size=20)
digits = st.from_regex(r"[0-9]{1,25}", fullmatch=True)

literals: st.SearchStrategy[Expr] = st.recursive(
    st.one_of(
        st.builds(IntLiteral, st.integers(0, 10**30)),
        st.builds(FloatLiteral, st.builds(lambda a, b: f"{a}.{b}", digits, digits)),
        st.builds(StringLiteral, texts),
        st.builds(BoolLiteral, st.booleans()),
        st.builds(DateLiteral, texts),
        st.builds(DateTimeLiteral, texts),
    ),
    lambda items: st.builds(ListLiteral, st.lists(items, max_size=4).map(tuple)),
    max_leaves=8,
)
variables = st.builds(Variable, names)
values = st.one_of(literals, variables, st.builds(Now))
assigns = st.lists(st.builds(Assign, names, values), max_size=5).map(tuple)
comparisons = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
predicates = st.builds(Predicate, names, comparisons, values)
statements = st.one_of(
    st.builds(Insert, type_names, assigns),
    st.builds(Update, type_names, assigns, predicates),
    st.builds(Delete, type_names, predicates),
)
mutations = st.builds(Mutation, st.lists(statements, min_size=1, max_size=5).map(tuple))

properties = st.builds(PropertyOf, names, names)
# A bare `true` or `false` is a literal, and `not {` opens a clause.
aliases = names.filter(lambda name: name not in ("true", "false")).map(AliasOf)


def compound(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    nearest = st.builds(Nearest, names, names, inner)
    bm25 = st.builds(TextSearch, st.just("bm25"), inner, inner)
    return st.one_of(
        nearest,
        bm25,
        st.builds(TextSearch, st.sampled_from(["search", "fuzzy", "match_text"]), inner, inner),
        st.builds(TextSearch, st.just("fuzzy"), inner, inner, inner),
        st.builds(RankFusion, st.one_of(nearest, bm25), st.one_of(nearest, bm25), st.one_of(st.none(), inner)),
        st.builds(Aggregate, st.sampled_from(["count", "sum", "avg", "min", "max"]), inner),
    )


exprs: st.SearchStrategy[Expr] = st.recursive(st.one_of(values, properties, aliases), compound, max_leaves=6)
searches = st.builds(TextSearch, st.sampled_from(["search", "fuzzy", "match_text"]), exprs, exprs)


def is_writable(found: Filter) -> bool:
    """``$a contains $b`` is a traversal: no filter can be written that way."""
    both = isinstance(found.left, Variable) and isinstance(found.right, Variable)
    return not (both and found.op == "contains")


simple_clauses: st.SearchStrategy[Clause] = st.one_of(
    st.builds(Binding, names, type_names, st.lists(st.builds(PropertyMatch, names, values), max_size=3).map(tuple)),
    st.builds(
        Traversal,
        names,
        names,
        names,
        st.one_of(st.none(), st.builds(Hops, st.integers(0, 99), st.one_of(st.none(), st.integers(0, 99)))),
    ),
    st.builds(Filter, exprs, st.one_of(comparisons, st.just("contains")), exprs).filter(is_writable),
    st.builds(TextClause, searches),
)
clauses: st.SearchStrategy[Clause] = st.recursive(
    simple_clauses,
    lambda inner: st.builds(NotExists, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    max_leaves=5,
)
reads = st.builds(
    Read,
    st.lists(clauses, min_size=1, max_size=4).map(tuple),
    st.lists(st.builds(Projection, exprs, st.one_of(st.none(), names)), min_size=1, max_size=4).map(tuple),
    st.lists(st.builds(Ordering, exprs, st.booleans()), max_size=3).map(tuple),
    st.one_of(st.none(), st.integers(0, 10**12)),
)

scalars = st.sampled_from([kind for kind in ScalarKind if kind is not ScalarKind.VECTOR])
param_types = st.one_of(
    st.builds(PropType, scalars, nullable=st.booleans(), is_list=st.booleans()),
    st.builds(
        PropType, st.just(ScalarKind.VECTOR), nullable=st.booleans(), dim=st.one_of(st.just(2**31 - 1), st.integers(1, 4096))
    ),
)  # fmt: skip
queries = st.builds(
    Query,
    names,
    st.lists(st.builds(Param, names, param_types), max_size=4).map(tuple),
    st.one_of(mutations, reads),
    st.one_of(st.none(), texts),
    st.one_of(st.none(), texts),
)


@given(queries)
def test_a_printed_query_parses_to_the_same_tree(query: Query) -> None:
    text = format_query(query)
    assert parse_queries(text).queries == (query,)


@given(st.lists(queries, max_size=3).map(lambda found: QueryFile(tuple(found))))
def test_a_printed_file_parses_to_the_same_trees_and_prints_the_same(file: QueryFile) -> None:
    text = format_queries(file)
    parsed = parse_queries(text)
    assert parsed == file
    assert format_queries(parsed) == text


@given(queries, st.integers(0, 2**32))
def test_layout_and_comments_change_nothing(query: Query, seed: int) -> None:
    rng = random.Random(seed)
    fillers = [" ", "\n", "\t", "\r\n", " // note }\n", "/* $x ** */", "/**/"]
    words = format_query(query).split(" ")
    # Blanks inside of strings are content: texts with one keep their place.
    is_inside = False
    parts: list[str] = []
    for word in words:
        plain = word.replace("\\\\", "").replace('\\"', "")
        parts.append(word)
        is_inside ^= plain.count('"') % 2 == 1
        parts.append(" " if is_inside else " " + rng.choice(fillers))
    assert parse_queries("".join(parts)).queries == (query,)


# --- literals -----------------------------------------------------------------------------------------------------------

_ALPHABET = "ab'\"\\\n\r\t\0 ;-/*{}()[]$@%éЖ中𝄞\u2028\ufeff\x1b"


def _text(rng: random.Random) -> str:
    return "".join(rng.choice(_ALPHABET) for _ in range(rng.randrange(12)))


def _instant(rng: random.Random) -> datetime:
    return datetime(1, 1, 1, tzinfo=UTC) + timedelta(microseconds=rng.randrange(9_998 * 365 * 86_400 * 10**6))


def _case(rng: random.Random) -> tuple[str, str, object]:
    """A property, a literal for it and the value that it must become."""
    match rng.randrange(8):
        case 0:
            text = _text(rng)
            return "bio", format_expr(StringLiteral(text)), text
        case 1:
            number = rng.randrange(2 ** rng.randrange(1, 65))
            return "huge", str(number), number
        case 2:
            digits = f"{rng.randrange(10 ** rng.randrange(1, 20))}.{rng.randrange(10 ** rng.randrange(1, 20))}"
            return "weight", digits, float(digits)
        case 3:
            return "active", *rng.choice([("true", True), ("false", False)])
        case 4:
            day = _instant(rng).date()
            return "born", f'date("{day.isoformat()}")', day
        case 5:
            instant = _instant(rng)
            return "joined", f'datetime("{instant.isoformat()}")', instant
        case 6:
            items = [_text(rng) for _ in range(rng.randrange(4))]
            return "tags", format_expr(ListLiteral(tuple(map(StringLiteral, items)))), tuple(items)
        case _:
            numbers = [rng.randrange(2**63) for _ in range(rng.randrange(4))]
            return "scores", str(numbers), tuple(numbers)


def check_literals(count: int, seed: int) -> None:
    rng = random.Random(seed)
    done = 0
    while done < count:
        cases = [_case(rng) for _ in range(min(50, count - done))]
        body = "".join(f'insert Person {{ name: "n", {name}: {text} }}\n' for name, text, _ in cases)
        query = parse_query(f"query q() {{ {body} }}")
        for statement, (name, text, expected) in zip(
            bind_mutation(query, None, catalog(), NOW_US).statements, cases, strict=True
        ):
            assert isinstance(statement, InsertNode)
            assert statement.values[name] == expected, (seed, name, text)
            assert statement.values["name"] == "n"
        assert parse_queries(format_query(query)).queries == (query,)
        done += len(cases)


def test_generated_literals_come_back_as_written() -> None:
    check_literals(3_000, seed=int(os.environ.get("OMNIGRAPH_TEST_SEED", "7")))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_hundred_thousand_generated_literals_come_back_as_written() -> None:
    check_literals(100_000, seed=int(os.environ.get("OMNIGRAPH_TEST_SEED", "11")))
