"""A headless Chromium, driven by its own debugging protocol: what a page says once it has drawn itself, and how it looks."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

LIMIT_S = 300.0


def find_browser() -> str | None:
    return next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)


def until(holds: Callable[[], Any], what: str) -> Any:
    pause = threading.Event()
    deadline = time.monotonic() + LIMIT_S
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not so after {LIMIT_S:.0f} s: {what}"
        pause.wait(0.25)
    return found


@contextmanager
def browser(program: str) -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [
                program,
                "--headless=new",
                "--no-sandbox",  # it refuses to start as root with one
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                f"--user-data-dir={profile}",
                "--remote-debugging-port=0",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            told = Path(profile) / "DevToolsActivePort"
            port = until(lambda: told.exists() and told.read_text().splitlines()[:1], "the browser listens")[0]
            pages = until(lambda: _pages(port), "the browser has a page")
            with connect(pages[0]["webSocketDebuggerUrl"], max_size=None, open_timeout=LIMIT_S) as line:
                yield Browser(line)
        finally:
            process.kill()
            process.wait()


def _pages(port: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=60) as answer:
        return [page for page in json.load(answer) if page["type"] == "page"]


class Browser:
    """One page."""

    def __init__(self, line: ClientConnection) -> None:
        self._line = line
        self._sent = 0

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._sent += 1
        self._line.send(json.dumps({"id": self._sent, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._line.recv(timeout=LIMIT_S))
            if answer.get("id") == self._sent:
                assert "error" not in answer, answer
                found: dict[str, Any] = answer["result"]
                return found

    def _value(self, expression: str) -> Any:
        return self._call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def open(self, url: str, *words: str, size: tuple[int, int] = (1280, 900)) -> None:
        """Go there, and return when all of the words are on the page."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False
        )
        self._call("Page.navigate", url=url)
        self.wait_for(*words)

    def wait_for(self, *words: str) -> None:
        def missing() -> list[str]:
            text = str(self._value("document.body ? document.body.innerText : ''"))
            return [word for word in words if word not in text]

        until(lambda: not missing(), f"{words} are on the page")

    def click(self, text: str, *, newest: bool = False) -> None:
        """The innermost element that says just this; ``newest``: the first button of a list that does."""
        kinds, which = ("button", "shift") if newest else ("button, a, label, span, div", "pop")
        script = (
            "(() => { const found = [...document.querySelectorAll('"
            f"{kinds}')].filter(e => e.innerText && e.innerText.trim() === {json.dumps(text)}).{which}();"
            " if (!found) return false; found.scrollIntoView({block: 'start'}); found.click(); return true; })()"
        )
        until(lambda: self._value(script), f"{text!r} can be clicked")

    def shoot(self, file: Path, clip: tuple[int, int] | None = None) -> None:
        """Keep what the page looks like; ``clip``: width and height of what is kept of it, from its upper left."""
        more = {} if clip is None else {"clip": {"x": 0, "y": 0, "width": clip[0], "height": clip[1], "scale": 1}}
        file.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png", **more)["data"]))
