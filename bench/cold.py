"""A process that has nothing open yet: opens a graph and writes, one command at a time from its standard input.

Run by ``bench.wire``. Each line is a JSON command and each answer a JSON line, so that the parent can look at the proxy
between them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import Any


class ColdProcess:
    """A child that imports everything afresh. ``ask`` runs one command in it."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "bench.cold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ask("ready")

    def ask(self, name: str, *arguments: Any) -> Any:
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write(json.dumps([name, *arguments]) + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"the child ended while it was asked to {name}")
        return json.loads(line)

    def __enter__(self) -> ColdProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.close()
        self._child.wait(60)
        self._child.stdout.close()


def main() -> None:
    import omnigraph as og
    from bench import costs

    ops = {op.name: op for op in (*costs.PLAIN_OPS, *costs.CONSTRAINED_OPS)}
    graph: og.Graph | None = None
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        answer: Any = None
        match name:
            case "ready":
                pass
            case "open":
                if graph is not None:
                    graph.close()
                graph = og.open(arguments[0], read_only=arguments[1])
            case "snapshot":
                assert graph is not None
                graph.snapshot(at=arguments[0])
            case "write":
                assert graph is not None
                answer = costs.Writer(graph, arguments[1]).run(ops[arguments[0]]).to_dict()
        print(json.dumps(answer), flush=True)
    if graph is not None:
        graph.close()


if __name__ == "__main__":
    main()
