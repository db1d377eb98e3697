"""One side of a comparison in a process of its own: orders come as lines of JSON, answers go as lines of JSON."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from bench.peers import sides

# Beyond it a side is ended: it would take the memory of the others, and the machine with it.
MOST_BYTES = 8 << 30


def _end_beyond_memory() -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    while True:
        held = int(Path("/proc/self/statm").read_text().split()[1]) * page
        if held > MOST_BYTES:
            print(f"{sys.argv[1]}: ended, it held {held / 1e9:.1f} GB", file=sys.stderr, flush=True)
            os._exit(3)
        time.sleep(0.05)  # often enough: a side fills a few hundred megabytes between two looks


def main() -> None:
    if sys.platform == "linux":
        threading.Thread(target=_end_beyond_memory, daemon=True).start()
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
