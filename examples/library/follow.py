"""Load two CSV files, set bad rows aside with their reasons, and list who follows whom in both directions."""

from __future__ import annotations

from pathlib import Path

import omnigraph as og

HERE = Path(__file__).parent
GRAPH = HERE / "follow.omni"
MUTUAL = "SELECT a.src, a.dst FROM Follows a JOIN Follows b ON b.src = a.dst AND b.dst = a.src WHERE a.src < a.dst"


def main() -> None:
    graph = og.open(GRAPH) if GRAPH.exists() else og.init(GRAPH, HERE / "schema.pg")
    files = {
        "Person": og.TableFile(HERE / "people.csv"),
        "Follows": og.TableFile(HERE / "follows.csv", columns={"from": "who", "to": "whom"}),
    }
    with graph:
        receipt = graph.load(files, mode="merge", actor="example", on_bad_row="quarantine")
        snapshot = graph.snapshot()
        print(snapshot.count("Person"), "people;", receipt.rejected.total, "rows set aside")
        for row in receipt.rejected:
            print(" ", row["reasons"][0]["message"])
        with snapshot.duckdb() as sql:
            for one, other in sql.sql(MUTUAL).fetchall():
                print(one, "and", other, "follow each other")


if __name__ == "__main__":
    main()
