"""Every way to load says the same of the batches that once showed a difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.distributed import reduce
from tests.component.distributed import test_parts as parts
from tests.component.distributed.test_parts import SCHEMA, outcome, tables
from tests.component.distributed.test_parts_shared import TIGHT, Wire, by_wire, few_rows_at_once
from tests.corpus.replay import kept

SCHEMAS = {"loose": SCHEMA, "tight": TIGHT}
WAYS = ["held", "passes", "exchange"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("entry", kept("staged_batches"), ids=lambda entry: entry["why"][:40])
def test_a_kept_batch_is_answered_alike(entry: dict[str, Any], way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "exchange":
        by_wire(monkeypatch, Wire())
    if way == "passes":
        few_rows_at_once(monkeypatch, 3)
    parts.same_through_both_doors(SCHEMAS[entry["schema"]], entry["loads"], entry["cut"])


def test_a_batch_with_a_malformed_record_asks_the_graph_nothing(tmp_path: Path) -> None:
    """No id is taken over, nothing is looked up: only what the rows show by themselves is reported."""
    with og.init(tmp_path / "a", TIGHT) as graph:
        first: parts.Rows = {
            "Person": [{"name": "p0"}, {"name": "p1"}],
            "Knows": [{"id": f"k{n}", "from": f"p{n}", "to": f"p{1 - n}"} for n in range(2)],
        }
        graph.load(tables(first), mode="append")
        rows: parts.Rows = {
            "Note": [{"id": "n0", "text": None, "spot": [1.0]}],
            "Knows": [{"id": "k0", "from": "p1", "to": "p6"}, {"id": None, "from": "p0", "to": "p1"}],
        }
        for mode in ("append", "merge", "overwrite"):
            report = graph.check(tables(rows), mode=mode)
            assert [one["code"] for one in report.violations] == ["wrong-length"]
            assert report.reads == ()
            assert report.violations == outcome_violations(graph, rows, mode)


def outcome_violations(graph: og.Graph, rows: parts.Rows, mode: str) -> tuple[Any, ...]:
    with pytest.raises(og.errors.DataInvalid) as raised:
        graph.load(tables(rows), mode=mode)
    assert outcome(lambda: graph.load(tables(rows), mode=mode))[0] == "DataInvalid"
    return tuple(raised.value.violations)


# --- the comparison itself ------------------------------------------------------------------------------------------------

FAULTY: list[Any] = [
    [{"Person": [{"name": "p9"}, {"name": "p9"}]}, "append", "fail"],
    [{"Knows": [{"id": "k9", "from": "p0", "to": "gone"}]}, "append", "fail"],
]


@pytest.mark.parametrize("rule", ["_ids", "_ends"])
def test_planted_a_rule_that_a_partition_leaves_out_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    by_wire(monkeypatch, Wire())
    parts.same_through_both_doors(SCHEMA, FAULTY, 2)
    monkeypatch.setattr(reduce._Partition, rule, lambda *_: None)
    with pytest.raises(AssertionError):
        parts.same_through_both_doors(SCHEMA, FAULTY, 2)
