"""A store that speaks S3, in a process of its own: moto behind a plain threaded HTTP server.

Owns starting, finding and ending that process. The child takes any free port, says which on its standard output once it
listens, and ends when its standard input closes, so that no emulator outlives the process that wanted it, however that
one died. Requests that change something are served one at a time: a conditional create has exactly one winner by
construction, which is what a real store promises.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

START_S = 60  # importing moto on a busy machine takes seconds, not a minute
STOP_S = 10
READY = "listening on "

# What both clients need in their environment to talk to an emulator; moto accepts any credentials.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "emulated",
    "AWS_SECRET_ACCESS_KEY": "emulated",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def environment(endpoint: str) -> dict[str, str]:
    """The environment in which boto3 and Lance talk to ``endpoint``."""
    return {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint}


class S3Emulator:
    """A running emulator. ``endpoint`` is its URL; use it as a context manager, or call ``stop``."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "omnigraph.testing.emulator"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **CREDENTIALS},
        )
        self.endpoint = f"http://127.0.0.1:{self._read_port()}"

    @property
    def pid(self) -> int:
        return self._child.pid

    def create_bucket(self, name: str) -> None:
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
        with urllib.request.urlopen(request, timeout=START_S):
            pass

    def stop(self) -> None:
        if self._child.stdin is not None:
            self._child.stdin.close()
        try:
            self._child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(STOP_S)
        if self._child.stdout is not None:
            self._child.stdout.close()

    def __enter__(self) -> S3Emulator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _read_port(self) -> int:
        assert self._child.stdout is not None
        overdue = threading.Timer(START_S, self._child.kill)
        overdue.start()
        try:
            line = self._child.stdout.readline()
        finally:
            overdue.cancel()
        if not line.startswith(READY):
            self._child.kill()
            raise RuntimeError(f"the S3 emulator did not start; install the extra `testing`; said={line!r}")
        return int(line[len(READY) :])


# --- the child ----------------------------------------------------------------------------------------------------------

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


def one_change_at_a_time(application: Application) -> Application:
    turn = threading.Lock()

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # A listing walks over all keys, and fails if one goes away under it.
        lists = environ["REQUEST_METHOD"] == "GET" and "/" not in environ["PATH_INFO"].strip("/")
        if environ["REQUEST_METHOD"] in _READING and not lists:
            # moto closes the bytes of an object that is replaced or deleted, and a read of it fails. A real store answers with
            # what was there before or after, so the read is made again between two changes.
            with contextlib.suppress(ValueError):
                return application(environ, start_response)
        with turn:
            return list(application(environ, start_response))

    return serve


def main() -> None:
    from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    class Handler(MotoRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body leave in two writes; without this each answer waits for a delayed acknowledgement.
        disable_nagle_algorithm = True

        def log(self, *_: Any) -> None:
            """Silent: the proxy in front keeps the log."""

    server = make_server(
        "127.0.0.1", 0, one_change_at_a_time(create_backend_app("s3")), threaded=True, request_handler=Handler
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{READY}{server.server_port}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
