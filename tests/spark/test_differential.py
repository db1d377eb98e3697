"""Random batches through executors and through the engine's own load: the same graph, the same complaints, the same rest."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph_pipelines.spark import SparkExchange, load
from tests.spark.conftest import SCHEMA

DDL = {
    "Person": "name string, age bigint, city string, mail string",
    "Note": "id string, text string, spot array<double>",
    "Knows": "id string, `from` string, `to` string, weight double",
    "Likes": "`from` string, `to` string",
}


def batch(chance: random.Random, clean: bool) -> dict[str, list[dict[str, Any]]]:
    """Rows of some of the types; mostly good ones, unless ``clean``, and then all."""

    def odd(good: Any, *bad: Any) -> Any:
        return chance.choice(bad) if not clean and chance.random() < 0.04 else good

    names = [f"p{n}" for n in range(40)]
    people = [
        {
            "name": odd(name, None),
            "age": odd(chance.randrange(100), -1, 2**40),
            "city": odd(chance.choice(["oslo", "rome", None]), "bonn"),
            "mail": odd(None, "same"),
        }
        for name in chance.sample(names, 25)
    ]
    notes = [
        {"id": f"n{n}", "text": chance.choice(["a", None]), "spot": odd([1.0, float(n)], [1.0])}
        for n in chance.sample(range(12), 8)
    ]
    knows = [
        {
            "id": f"k{n}",
            "from": odd(names[n % 40], "nobody"),
            "to": chance.choice(names),
            "weight": odd(chance.random(), float("nan")),
        }
        for n in chance.sample(range(80), 30)
    ]
    likes = [{"from": names[n], "to": f"n{n % 12}"} for n in chance.sample(range(40), 10)]
    every = {"Person": people, "Note": notes, "Knows": knows, "Likes": likes}
    return {name: rows for name, rows in every.items() if chance.random() < 0.8}


def told(call: Any) -> Any:
    try:
        receipt = call()
    except og.errors.OmnigraphError as error:
        return type(error).__name__, error.message, json.dumps(error.facts)
    counts = {key: {**change.to_dict(), "version": 0} for key, change in receipt.tables.items()}
    return counts, json.dumps(receipt.rejected.to_dict())


STEPS = [
    [("merge", "fail"), ("append", "quarantine"), ("overwrite", "quarantine")],
    [("overwrite", "fail"), ("merge", "quarantine"), ("append", "fail")],
    [("merge", "fail"), ("overwrite", "fail"), ("merge", "quarantine")],
]


@pytest.mark.parametrize("seed", range(len(STEPS)))
def test_random_batches_agree(spark: Any, tmp_path: Path, seed: int) -> None:
    """Every mode, refused and set aside: the same graph, the same words, the same rows in the file of what was set aside."""
    chance = random.Random(seed)
    first: dict[str, list[dict[str, Any]]] = {
        "Person": [{"name": f"p{n}", "age": n, "city": None, "mail": None} for n in range(40)],
        "Note": [{"id": f"n{n}", "text": None, "spot": None} for n in range(12)],
    }
    with og.init(tmp_path / "a", SCHEMA) as one, og.init(tmp_path / "b", SCHEMA) as other:
        for graph in (one, other):
            graph.load({name: pa.Table.from_pylist(rows) for name, rows in first.items()}, mode="append")
        for step, (mode, on_bad_row) in enumerate(STEPS[seed]):
            rows = batch(chance, clean=step == 0)
            rows.pop("Likes", None)  # their ids are made, and so are never the same
            frames = {name: spark.createDataFrame(listed, DDL[name]) for name, listed in rows.items()}
            tables = {name: frame.toArrow() for name, frame in frames.items()}

            def given(side: str, step: int = step, mode: str = mode, on_bad_row: str = on_bad_row) -> dict[str, Any]:
                aside = {"quarantine_to": tmp_path / f"{side}{step}.jsonl"} if on_bad_row == "quarantine" else {}
                return {"mode": mode, "on_bad_row": on_bad_row, **aside}

            place = "driver" if seed == 1 else "spark"
            mine = told(lambda: load(spark, one, frames, validate=place, **given("a")))  # noqa: B023
            theirs = told(lambda: other.load(tables, **given("b")))  # noqa: B023
            assert mine == theirs
            assert one.snapshot().export() == other.snapshot().export()
            left = [tmp_path / f"{side}{step}.jsonl" for side in "ab"]
            assert left[0].exists() == left[1].exists()
            assert not left[0].exists() or left[0].read_bytes() == left[1].read_bytes()
        assert one.verify(deep=True).ok


def test_keys_beyond_memory_are_compared_by_executors(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where that is: on request, and by itself where a table's keys outgrow what this process may take for them."""
    shares: list[int] = []
    run = SparkExchange.run

    def noted(self: Any, spread: Any, items: Any, judge: Any, count: int) -> Any:
        shares.append(count)
        return run(self, spread, items, judge, count)

    monkeypatch.setattr(SparkExchange, "run", noted)
    frame = spark.range(12_000).selectExpr("concat('p', id % 11999) as name")
    with og.init(tmp_path / "a", SCHEMA) as graph:
        said = []
        for options, expected in (
            ({"memory_mb": 2}, 0),
            ({"validate": "driver", "memory_mb": 1}, 0),
            ({"memory_mb": 1}, 1),
        ):
            shares.clear()
            with pytest.raises(og.errors.DataInvalid, match="is also the id of") as refused:
                load(spark, graph, {"Person": frame}, mode="append", **options)
            said.append(refused.value.to_dict())
            assert len(shares) == expected
        assert said[0] == said[1] == said[2]
        assert shares == [5], "one megabyte has room for a fifth of the rows"
        with pytest.raises(og.errors.InvalidInput, match="validate is one of"):
            load(spark, graph, {"Person": frame}, mode="append", validate="nowhere")
