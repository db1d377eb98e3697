"""Real processes at little cost: children of a fork server that has imported the engine and used none of it.

A child is a process of its own, with its own memory, clients and threads; it can be killed, stopped and waited for. The
fork server exists because importing the engine takes a second and a crash matrix wants thousands of children.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Mapping
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Any

PRELOAD = "omnigraph.testing.preload"
JOIN_S = 60.0
_OF_NOW = ("AWS_", "OMNIGRAPH_DURABILITY", "OMNIGRAPH_COMMIT_")

_context: ForkServerContext | None = None
_guard = threading.Lock()


def _server() -> ForkServerContext:
    global _context
    with _guard:
        if _context is None:
            _context = multiprocessing.get_context("forkserver")
            _context.set_forkserver_preload([PRELOAD])
        return _context


class Child:
    """One process that runs ``call(say, *args)``; what it says arrives in order, and so does how it ended."""

    def __init__(self, call: Any, *args: Any, env: Mapping[str, str] | None = None) -> None:
        server = _server()
        self._said: Connection
        self._said, theirs = server.Pipe(duplex=False)
        # The fork server's environment is that of its start; how to reach a store, whether to sync, and what
        # to share with other processes, is a matter of now.
        reach = {name: value for name, value in os.environ.items() if name.startswith(_OF_NOW)}
        self._process = server.Process(target=_run, args=(theirs, {**reach, **(env or {})}, call, args), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def hear(self, timeout_s: float = JOIN_S) -> Any:
        """The next thing said; None once the child has ended and everything was heard."""
        if not self._said.poll(timeout_s):
            raise TimeoutError(f"child {self.pid} said nothing for {timeout_s} s")
        try:
            return self._said.recv()
        except (EOFError, OSError):
            return None

    def hear_all(self, timeout_s: float = JOIN_S) -> list[Any]:
        heard = []
        while (line := self.hear(timeout_s)) is not None:
            heard.append(line)
        self.join(timeout_s)
        return heard

    def join(self, timeout_s: float = JOIN_S) -> int | None:
        """The exit code; negative for a signal. Kills what does not end, so that nothing outlives a test."""
        self._process.join(timeout_s)
        if self._process.exitcode is None:
            self.kill()
            raise TimeoutError(f"child {self.pid} did not end within {timeout_s} s")
        return self._process.exitcode

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        self._process.kill()
        self._process.join(JOIN_S)

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        if self.alive:
            self.kill()
        self._said.close()


def _run(say: Connection, env: dict[str, str], call: Any, args: tuple[Any, ...]) -> None:
    os.environ.update(env)
    try:
        call(say.send, *args)
    except Exception:
        traceback.print_exc()  # its exit code says nothing, and a worker that cannot begin would be begun again for ever
        raise
    finally:
        say.close()
        # Threads of the clients are not worth waiting for, and a dying process does not wait for them either.
        os._exit(0)
