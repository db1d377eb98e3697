"""A writer that is killed on its way, by the failpoint that its environment names. Run by ``bench.house.walks``."""

from __future__ import annotations

import sys

import omnigraph as og

if __name__ == "__main__":
    with og.open(sys.argv[1]) as graph:
        graph.load(sys.argv[2], mode="merge")
