"""What a refusal means: whether later commits, or a later schema, may do away with it; and how it is said in short."""

from __future__ import annotations

from typing import Any

import pytest

import omnigraph as og
from omnigraph_pipelines.failures import in_short, may_fit_later

CATALOG = og.parse_schema("node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { since: I32? }")


def refused(*violations: dict[str, Any], total: int | None = None) -> og.errors.DataInvalid:
    return og.errors.DataInvalid("refused", violations=list(violations), total=total or len(violations))


LOST = {"code": "missing-endpoint", "table_key": "edge:Knows", "value": '"x"'}
RANGE = {"code": "range", "table_key": "node:Person"}


@pytest.mark.parametrize(
    ("error", "later"),
    [
        (refused(LOST), True),
        (refused(LOST, LOST, total=34_756), True),
        (refused(LOST, RANGE), False),
        (refused(RANGE), False),
        (refused(), False),
        (refused({"code": "unknown-property", "type": "Person", "property": "age"}), True),
        (refused({"code": "unknown-property", "type": "Person", "property": "shoe"}), False),
        (refused({"code": "unknown-type", "type": "Knows"}), True),
        (refused({"code": "unknown-type", "type": "Knowns"}), False),
        (refused({"code": "unknown-type"}), False),
        (og.errors.NotFound("no such file"), False),
    ],
)
def test_only_what_the_graph_lacks_yet_is_waited_for(error: og.errors.OmnigraphError, later: bool) -> None:
    assert may_fit_later(error, CATALOG) is later


def test_a_refusal_in_short_has_its_count_and_its_reasons() -> None:
    assert in_short(refused(LOST, RANGE, total=34_756)) == "34,756 missing-endpoint, range"
    assert in_short(og.errors.StoreRefused("no")) == "store-refused"
