"""A headless Chromium: what a page says once it has drawn itself, and how it looks."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

LIMIT_S = 300
# Milliseconds of the page's own time; it stands still while the page waits for the network.
PAGE_TIME_MS = 20_000


def find_browser() -> str | None:
    return next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)


class Browser:
    def __init__(self, program: str) -> None:
        self._program = program

    def _run(self, *arguments: str) -> str:
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run(
                [
                    self._program,
                    "--headless=new",
                    "--no-sandbox",  # it refuses to start as root with one
                    "--disable-gpu",
                    "--disable-dev-shm-usage",
                    "--hide-scrollbars",
                    f"--user-data-dir={profile}",
                    f"--virtual-time-budget={PAGE_TIME_MS}",
                    *arguments,
                ],
                check=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=LIMIT_S,
                text=True,
            )
        return done.stdout

    def text(self, url: str) -> str:
        """The page as it is drawn, tags and all."""
        return self._run("--window-size=1500,1000", "--dump-dom", url)

    def shoot(self, url: str, file: Path, size: tuple[int, int]) -> None:
        self._run(f"--window-size={size[0]},{size[1]}", f"--screenshot={file}", url)
