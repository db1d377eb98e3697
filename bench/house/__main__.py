"""``./run house``: print the table of the house, as text or JSON; ``--write`` puts it into the architecture page."""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.house import page, shape, source, walks


def measure(only: frozenset[str] | None = None) -> dict[str, Any]:
    return {
        "command": "./run house",
        "commit": commit(),
        "python": platform.python_version(),
        "shape": shape.measure(source.read()),
        "walks": walks.run(only),
    }


def commit() -> str:
    """Return the last commit that changed the packages, and whether they have been changed since."""
    folders = [str(folder.relative_to(source.ROOT)) for folder in source.PACKAGES]
    last = _git("log", "-1", "--format=%h", "--", *folders)
    changed = _git("status", "--porcelain", "--", *folders)
    return (last or "an unknown commit") + (", with changes" if changed else "")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=source.ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="./run house", description="What the packages hold, how they import each other, and what a call enters."
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--write", action="store_true", help=f"rewrite the table in {page.PAGE.relative_to(source.ROOT)}"
    )
    parser.add_argument("--only", action="append", choices=walks.WALKS, help="only these walks")
    parser.add_argument("--into", type=Path, default=page.PAGE, help="the page that --write rewrites")
    given = parser.parse_args(arguments)
    if given.write and given.only:
        parser.error("--write needs every walk; leave --only out")
    found = measure(frozenset(given.only) if given.only else None)
    if given.write:
        page.write(found, given.into)
    print(json.dumps(found, indent=1) if given.json else page.tables(found, page.before()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
