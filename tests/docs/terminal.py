"""The picture of a terminal on the front page, made of what the commands print: ``python -m tests.docs.terminal``.

Owns which commands are shown. A write is killed half-way for it, as on the page.
"""

from __future__ import annotations

import html
import io
import os
import re
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path

from tests.docs.pages import DOCS, ROOT, _named

PICTURE = DOCS / "images" / "terminal.svg"
COLUMNS = 100
_DIES = {"OMNIGRAPH_FAILPOINTS": "publish.before_swap=kill"}
_MORE = "omnigraph load social.omni --data more.jsonl --mode append"
_BEFORE = (
    "omnigraph init social.omni --schema social.pg",
    "omnigraph load social.omni --data social.jsonl --mode merge --as ada",
)
_SHOWN: tuple[tuple[str, dict[str, str]], ...] = (
    (_MORE, _DIES),
    ("omnigraph status social.omni", {}),
    ("omnigraph recover social.omni", {}),
)
_TEXT = re.compile(r'<text [^>]*\by="([\d.]+)"[^>]*>([^<]*)</text>')


def picture() -> str:
    """The picture, of a session that is run now."""
    from rich.console import Console
    from rich.text import Text

    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        for source in (DOCS / "tutorial").glob("*.*"):
            (here / source.name).write_bytes(source.read_bytes())
        for command in _BEFORE:
            _run(command, here, {})
        said = []
        for command, more in _SHOWN:
            out = _named(_run(command, here, more), here)
            said.append(f"\x1b[1;32m$\x1b[0m {command}\n{out or 'Killed'}\n")
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(Text.from_ansi("\n".join(said)))
    drawn = console.export_svg(title="omnigraph", unique_id="terminal")
    drawn = re.sub(r"<!--.*?-->\s*|@font-face \{.*?\}\s*", "", drawn, flags=re.S)  # nothing is fetched from anywhere
    return re.sub(r"[ \t]+$", "", drawn, flags=re.M)


def texts(svg: str) -> str:
    """The lines of a picture."""
    found = [(float(y), html.unescape(text).replace("\xa0", " ")) for y, text in _TEXT.findall(svg)]
    lines = ["".join(text for _, text in line).rstrip() for _, line in groupby(found, key=lambda one: one[0])]
    return "\n".join(line for line in lines if line)


def _run(command: str, here: Path, more: dict[str, str]) -> str:
    _, *words = command.split()
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "OMNIGRAPH_")) and k != "NO_COLOR"}
    looks = {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT / "engine")}
    done = subprocess.run(
        [sys.executable, "-m", "omnigraph.cli", *words, "--quiet"],
        cwd=here,
        env={**inherited, **looks, **more},
        capture_output=True,
        text=True,
        timeout=110,
        check=not more,
    )
    return done.stdout


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
