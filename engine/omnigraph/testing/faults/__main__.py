"""A fault proxy as a process: ``python -m omnigraph.testing.faults UPSTREAM``; commands come as JSON lines."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict
from typing import Any

from omnigraph.testing.faults.control import dispatch
from omnigraph.testing.faults.proxy import Proxy

LINE_MAX = 16 * 1024 * 1024


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def _serve(upstream: str) -> None:
    killed: defaultdict[int, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(0))

    async def ask(rule_id: int) -> None:
        _say({"kill": rule_id})
        await killed[rule_id].acquire()

    proxy = Proxy(upstream, ask_parent=ask, on_fired=lambda rule_id: _say({"fired": rule_id}))
    port = await proxy.start()
    commands = asyncio.StreamReader(limit=LINE_MAX)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    _say({"port": port})

    async def obey(command: dict[str, Any]) -> None:
        try:
            result = await dispatch(proxy, command["name"], command["arguments"])
        except (ValueError, TypeError, KeyError, TimeoutError) as error:
            _say({"answer": command["call"], "error": f"{type(error).__name__}: {error}"})
        else:
            _say({"answer": command["call"], "result": result})

    running: set[asyncio.Task[None]] = set()
    while line := await commands.readline():
        command = json.loads(line)
        if "killed" in command:
            killed[command["killed"]].release()
            continue
        task = asyncio.create_task(obey(command))
        running.add(task)
        task.add_done_callback(running.discard)
    await proxy.stop()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
