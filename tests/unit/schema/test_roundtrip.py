"""Any catalog printed and parsed again declares the same; any stored catalog comes back the same."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.core.errors import InvalidInput
from omnigraph.schema import (
    canonical_text,
    catalog_from_canonical,
    format_schema,
    parse_schema,
    shape_text,
    with_identities,
)
from omnigraph.schema.catalog import Catalog
from tests.unit.schema.strategies import catalogs


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(catalogs())
def test_a_catalog_comes_back_the_same_from_print_and_from_store(catalog: Catalog) -> None:
    numbers = itertools.count(1)
    parsed = parse_schema(format_schema(catalog), mint=lambda: f"id-{next(numbers)}")
    assert shape_text(parsed) == shape_text(catalog)
    assert parse_schema(format_schema(parsed)).hash == parsed.hash
    assert catalog_from_canonical(parsed.source, canonical_text(parsed)) == parsed
    bare = with_identities(parsed, lambda kind, name: "", lambda kind, name, prop: "")
    assert (bare.interfaces, bare.nodes, bare.edges) == (catalog.interfaces, catalog.nodes, catalog.edges)


PIECES = st.sampled_from(
    """node edge interface N M I a b c { } ( ) [ ] , : -> = ? @ .. . - 0 1 12.5 "x" " \\ // /* */ enum Vector String I32
    Blob DateTime key unique index range check card embed implements true model id src é \x00""".split(" ")
)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.one_of(PIECES, st.text(max_size=3)), max_size=25), st.sampled_from(["", " ", "\n"]))
def test_any_text_is_accepted_or_refused_with_a_place(pieces: list[str], glue: str) -> None:
    text = glue.join(pieces)
    try:
        parse_schema(text)
    except InvalidInput as error:
        facts: dict[str, Any] = error.facts
        assert 1 <= facts["line"] <= text.count("\n") + 1
        assert 1 <= facts["column"] <= len(text) + 1
