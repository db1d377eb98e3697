"""What a notebook shows of a graph is text: nothing that somebody wrote into it becomes markup."""

from __future__ import annotations

from pathlib import Path

import omnigraph as og

SCHEMA = "node Person { name: String @key  age: I32? }\n"
MARKUP = "<script>alert('x')</script><img src=x onerror=y>"


def test_no_name_or_value_becomes_markup(tmp_path: Path) -> None:
    root = tmp_path / "<script>g.omni"
    bad = [{"type": "Person", "data": {"name": MARKUP, "age": MARKUP}}]
    with og.init(root, SCHEMA, actor=MARKUP) as graph:
        receipt = graph.load([{"type": "Person", "data": {"name": MARKUP}}], mode="append")
        rejected = graph.load(bad, mode="append", on_bad_row="quarantine")
        graph.checkpoints.create("one")
        shown = [
            receipt,
            rejected,
            graph.check(bad, mode="append"),
            graph.snapshot(),
            graph.snapshot().head("Person"),
            graph.commits(),
            graph.commit(receipt.commit_id or ""),
            graph.status(deep=True),
            graph.intents(),
            graph.recover(grace_s=0),
            graph.verify(deep=True),
            graph.repair(),
            graph.plan_compaction(),
            graph.plan_cleanup(keep=1, min_age="0s"),
            graph.optimize(),
            graph.cleanup(keep=1, min_age="0s", confirm=True),
            graph.checkpoints.list(),
        ]
        for one in shown:
            html = one._repr_html_() if hasattr(one, "_repr_html_") else ""
            assert "<script" not in html and "<img" not in html, type(one)
        assert sum(hasattr(one, "_repr_html_") for one in shown) >= 14, [
            type(one) for one in shown if not hasattr(one, "_repr_html_")
        ]
