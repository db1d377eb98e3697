"""One side of a comparison in a process of its own: orders come as lines of JSON, answers go as lines of JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.peers import sides


def main() -> None:
    name, root = sys.argv[1], Path(sys.argv[2])
    side: Any = sides.make(name, root)
    out = sys.stdout
    sys.stdout = sys.stderr  # what a neighbour prints is no answer
    for line in sys.stdin:
        facts = json.loads(line)
        answer = getattr(side, facts.pop("order"))(**facts)
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
