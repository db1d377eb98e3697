"""Handles on a proxy: in a thread of this process, or in a process of its own. Both have the same methods.

In a thread it is at hand at once and its callbacks are plain functions; in a process it leaves the interpreter of the
code under measurement alone, which is what a bench wants.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from omnigraph.testing.faults import exchange
from omnigraph.testing.faults.exchange import Exchange
from omnigraph.testing.faults.proxy import Proxy
from omnigraph.testing.faults.rules import Kind, Rule

START_S = 30
WAIT_S = 30  # for a rule to fire, for the last request to end; a test that waits longer is wrong

T = TypeVar("T")
OnKill = Callable[[], None]


class SetRule:
    """A rule that has been set: how often it fired, and the way to let go what it holds."""

    def __init__(self, control: Control, rule_id: int, rule: Rule, on_kill: OnKill | None) -> None:
        self._control = control
        self._fired = threading.Semaphore(0)
        self.rule_id = rule_id
        self.rule = rule
        self.on_kill = on_kill

    @property
    def fired(self) -> int:
        count: int = self._control._call("fired", self.rule_id)
        return count

    def wait_fired(self, timeout_s: float = WAIT_S) -> None:
        """Returns once per firing; raises TimeoutError if it does not come."""
        if not self._fired.acquire(timeout=timeout_s):
            raise TimeoutError(f"no request met the rule within {timeout_s} s: {self.rule}")

    def release(self) -> None:
        self._control._call("release", self.rule_id)


class Control(ABC):
    """What both handles can do."""

    endpoint: str

    def __init__(self) -> None:
        self._set: dict[int, SetRule] = {}
        self._guard = threading.Lock()

    # --- faults -----------------------------------------------------------------------------------------------------------

    def rule(self, rule: Rule, *, on_kill: OnKill | None = None) -> SetRule:
        """Set a rule. ``on_kill`` belongs to a kill: it must end the child and return when that one is dead."""
        if (rule.action.kind is Kind.KILL) != (on_kill is not None):
            raise ValueError("a kill, and nothing else, wants on_kill")
        with self._guard:
            rule_id: int = self._call("rule", rule.to_dict())
            handle = self._set[rule_id] = SetRule(self, rule_id, rule, on_kill)
        return handle

    def calm(self) -> None:
        """Drop all rules, let go what they hold, and forward again after a kill."""
        self._call("calm")

    def slow(self, latency_s: float = 0.0, in_flight_max: int | None = None) -> None:
        """Every request takes this much longer, and no more than so many are under way at the store at once."""
        self._call("slow", latency_s, in_flight_max)

    def drain(self, timeout_s: float = WAIT_S) -> None:
        """Wait until no request is under way."""
        self._call("drain", timeout_s)

    # --- figures ----------------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Empty the log; ordinals begin at one again. Rules and latency stay."""
        self._call("reset")

    @property
    def log(self) -> list[Exchange]:
        return [Exchange(**line) for line in self._call("log")]

    @property
    def in_flight_peak(self) -> int:
        peak: int = self._call("peak")
        return peak

    def counts(self) -> dict[str, int]:
        return exchange.counts(self.log)

    def operations(self) -> dict[str, int]:
        return exchange.operations(self.log)

    @property
    def hops(self) -> int:
        return exchange.hops(self.log)

    @property
    def mutations(self) -> int:
        """Mutating requests since the log was reset: the number of cuts that a crash matrix has to make."""
        return sum(line.mutating for line in self.log)

    # --- ends -------------------------------------------------------------------------------------------------------------

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def _call(self, name: str, *arguments: Any) -> Any: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _handle(self, rule_id: int) -> SetRule:
        # Under the guard: a rule may fire before ``rule`` has returned.
        with self._guard:
            return self._set[rule_id]

    def _note_fired(self, rule_id: int) -> None:
        self._handle(rule_id)._fired.release()

    def _do_kill(self, rule_id: int) -> None:
        on_kill = self._handle(rule_id).on_kill
        assert on_kill is not None
        on_kill()


async def dispatch(proxy: Proxy, name: str, arguments: list[Any]) -> Any:
    """One command to a proxy, in its loop; the answer is plain JSON."""
    match name:
        case "rule":
            return proxy.add_rule(Rule.from_dict(arguments[0]))
        case "fired":
            return proxy.fired(arguments[0])
        case "release":
            proxy.release(arguments[0])
        case "calm":
            proxy.calm()
        case "slow":
            proxy.slow(*arguments)
        case "drain":
            await asyncio.wait_for(proxy.drained(), arguments[0])
        case "reset":
            proxy.reset()
        case "log":
            return [line.to_dict() for line in proxy.log]
        case "peak":
            return proxy.in_flight_peak
        case _:
            raise ValueError(f"unknown command: {name}")
    return None


class FaultProxy(Control):
    """A proxy in a thread of this process."""

    def __init__(self, upstream: str) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._thread.start()
        self._proxy, port = self._run(self._start(upstream))
        self.endpoint = f"http://127.0.0.1:{port}"

    @property
    def log(self) -> list[Exchange]:
        return self._run(self._copy_log())

    def stop(self) -> None:
        if self._loop.is_closed():
            return
        self._run(self._proxy.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_S)
        self._loop.close()

    async def _start(self, upstream: str) -> tuple[Proxy, int]:
        proxy = Proxy(upstream, ask_parent=self._ask, on_fired=self._fired_in_loop)
        return proxy, await proxy.start()

    async def _copy_log(self) -> list[Exchange]:
        return list(self._proxy.log)

    async def _ask(self, rule_id: int) -> None:
        await asyncio.to_thread(self._do_kill, rule_id)

    def _fired_in_loop(self, rule_id: int) -> None:
        # Never block the loop: ``rule`` may hold the guard while it waits for the loop.
        self._loop.run_in_executor(None, self._note_fired, rule_id)

    def _call(self, name: str, *arguments: Any) -> Any:
        return self._run(dispatch(self._proxy, name, list(arguments)))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S + START_S)


class FaultProxyProcess(Control):
    """A proxy in a process of its own: commands and answers are JSON lines on its standard input and output."""

    def __init__(self, upstream: str) -> None:
        super().__init__()
        self._child = subprocess.Popen(
            [sys.executable, "-m", "omnigraph.testing.faults", upstream],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._write_lock = threading.Lock()
        self._answers: dict[int, Any] = {}
        self._arrived = threading.Condition()
        self._next_call = 1
        self._ended = False
        assert self._child.stdout is not None
        first = json.loads(self._child.stdout.readline() or "{}")
        if "port" not in first:
            self._child.kill()
            raise RuntimeError("the fault proxy did not start")
        self.endpoint = f"http://127.0.0.1:{first['port']}"
        self._reader = threading.Thread(target=self._read, name="fault-proxy-control", daemon=True)
        self._reader.start()

    def stop(self) -> None:
        if self._child.stdin is not None and not self._child.stdin.closed:
            self._child.stdin.close()
        try:
            self._child.wait(START_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(START_S)
        self._reader.join(START_S)
        if self._child.stdout is not None:
            self._child.stdout.close()

    def _call(self, name: str, *arguments: Any) -> Any:
        with self._write_lock:
            call_id = self._next_call
            self._next_call += 1
            self._send({"call": call_id, "name": name, "arguments": arguments})
        with self._arrived:
            arrived = self._arrived.wait_for(lambda: call_id in self._answers or self._ended, WAIT_S + START_S)
            if not arrived or call_id not in self._answers:
                raise TimeoutError(f"the fault proxy did not answer: {name}")
            answer = self._answers.pop(call_id)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def _send(self, line: dict[str, Any]) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(line) + "\n")
        self._child.stdin.flush()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for text in self._child.stdout:
            line = json.loads(text)
            if "answer" in line:
                with self._arrived:
                    self._answers[line["answer"]] = line
                    self._arrived.notify_all()
            else:
                # On a thread of its own: it may wait for ``rule``, which waits for an answer that is read here.
                threading.Thread(target=self._event, args=(line,), daemon=True).start()
        with self._arrived:
            self._ended = True
            self._arrived.notify_all()

    def _event(self, line: dict[str, Any]) -> None:
        if "fired" in line:
            self._note_fired(line["fired"])
            return
        self._do_kill(line["kill"])
        with self._write_lock:
            self._send({"killed": line["kill"]})
