"""Requirements of an extra at the versions of ``constraints.txt``, each with the digest of the file that pip takes on this platform.

    ./run hashes [EXTRA]        writes requirements-EXTRA.txt, for `pip install --require-hashes --no-deps -r`

Digests cannot stand in ``constraints.txt``: with one of them pip wants one for every requirement, the project's own too.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def found(extra: str) -> list[dict[str, Any]]:
    """What pip would install."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        wanted = ["--dry-run", "--ignore-installed", "--report", report.name, "-c", "constraints.txt", f".[{extra}]"]
        command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "-q", *wanted]
        subprocess.run(command, cwd=ROOT, check=True)
        listed: list[dict[str, Any]] = json.loads(Path(report.name).read_text())["install"]
        return listed


def text(extra: str, packages: list[dict[str, Any]]) -> str:
    lines = []
    for one in packages:
        digest = one["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
        if digest is not None:  # the project itself has none
            lines.append(f"{one['metadata']['name']}=={one['metadata']['version']} --hash=sha256:{digest}")
    where = f"{platform.system()} {platform.machine()} with Python {platform.python_version()}"
    head = f"# What [{extra}] needs on {where}, with the digest of each file. Made by: ./run hashes {extra}\n"
    return head + "\n".join(sorted(lines, key=str.lower)) + "\n"


if __name__ == "__main__":
    [name] = sys.argv[1:] or ["cli"]
    place = ROOT / f"requirements-{name}.txt"
    place.write_text(text(name, found(name)))
    print(f"written: {place.name}")
