"""The neighbours, installed beside the project and never into it: ``pip install --target`` a folder of the user's cache."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

WANTED = {"kuzu": "0.11.3", "deltalake": "1.6.6"}
# What they need beside the packages of the project: pyarrow is the same one on all sides.
NEEDED = {"deltalake": ("arro3-core==0.9.1", "deprecated==1.3.1", "wrapt==2.0.1")}


@dataclass(frozen=True)
class Peers:
    """``path``: for ``PYTHONPATH``. A neighbour that could not be installed is not in ``versions``, and its rows say so."""

    path: Path | None
    versions: dict[str, str] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        return name not in WANTED or name in self.versions


def found() -> Peers:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = Path(os.environ.get("OMNIGRAPH_BENCH_PEERS", cache / "omnigraph-bench-peers"))
    versions = {}
    for name, version in WANTED.items():
        if not (folder / f"{name}-{version}.dist-info").exists():
            order = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), "--no-deps"]
            order += [f"{name}=={version}", *NEEDED.get(name, ())]
            done = subprocess.run(order, capture_output=True, text=True)
            if done.returncode:
                print(f"not run: needs {name} {version} ({done.stderr.strip().splitlines()[-1:]})", file=sys.stderr)
                continue
        versions[name] = version
    return Peers(folder if versions else None, versions)
