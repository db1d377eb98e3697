"""Threads that share one handle: every mutation lands once, on what the others left."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import omnigraph as og
from omnigraph.testing.content import commits_of, faults_of

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\nnode Note { text: String }\n"
THREADS, EACH = 8, 6


def test_threads_on_one_handle_lose_and_double_nothing(tmp_path: Path) -> None:
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        graph.mutate('query q() { insert Person { name: "hub" } }')

        def work(thread: int) -> list[str | None]:
            done = []
            for number in range(EACH):
                name = f"p{thread}-{number}"
                body = 'insert Person { name: $n } insert Knows { from: "hub", to: $n } insert Note { text: $n }'
                done.append(graph.mutate(f"query q($n: String) {{ {body} }}", params={"n": name}).commit_id)
                text = "query q($n: String) { update Person set { age: 1 } where name = $n }"
                done.append(graph.mutate(text, params={"n": name}).commit_id)
                if number % 2:
                    text = "query q($n: String) { delete Person where name = $n }"
                    receipt = graph.mutate(text, params={"n": name})
                    assert (receipt.affected_nodes, receipt.affected_edges) == (1, 1)
                    done.append(receipt.commit_id)
            return done

        with ThreadPoolExecutor(THREADS) as pool:
            landed = [commit for done in pool.map(work, range(THREADS)) for commit in done]
        assert faults_of(graph._engine) == []
        assert set(landed) <= {row.commit_id for row in commits_of(graph._engine)} and len(set(landed)) == len(landed)
        left = {f"p{thread}-{number}" for thread in range(THREADS) for number in range(0, EACH, 2)}
        snapshot = graph.snapshot()
        assert set(snapshot.to_arrow("Person")["id"].to_pylist()) == left | {"hub"}
        assert sorted(snapshot.to_arrow("Knows")["dst"].to_pylist()) == sorted(left)
        assert snapshot.count("Note") == THREADS * EACH
