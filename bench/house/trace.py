"""What a call enters: every Python call inside our packages while it runs, in all threads. Made with ``sys.setprofile``.

``sys.setprofile`` is on every Python that is supported; ``sys.monitoring`` begins with 3.12. Comprehensions and generator
expressions are left out, because newer Pythons run some of them without a frame; a generator that is resumed counts again.
The stack that a call is judged by holds frames of our packages only, and begins anew in each thread.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from bench.house.source import ROOT

_WITHOUT_A_FRAME: Final = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<module>"})


class Tracer:
    """Install it before the threads that it shall see are started. Counts only between ``start`` and ``stop``."""

    def __init__(
        self,
        folders: Sequence[Path],
        evaluators: frozenset[str] = frozenset(),
        layers: Sequence[Sequence[str]] = (),
        *,
        root: Path = ROOT,
    ) -> None:
        self._root = root
        self._folders = tuple(f"{folder}/" for folder in folders)
        self._evaluators = evaluators
        self._rank = {name: rank for rank, names in enumerate(layers) for name in names}
        self._names: dict[CodeType, str | None] = {}
        self._lock = threading.Lock()
        self._on = False
        self._clear()

    def _clear(self) -> None:
        self.files: Counter[str] = Counter()
        self.calls = 0
        self.switches = 0
        self.reentries: Counter[tuple[str, str]] = Counter()
        self.upwards: Counter[tuple[str, str]] = Counter()
        self.depth = 0
        self.hops = 0
        self.judged: Counter[str] = Counter()

    @contextmanager
    def installed(self) -> Iterator[None]:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @contextmanager
    def counting(self) -> Iterator[None]:
        self._clear()
        self._on = True
        try:
            yield
        finally:
            self._on = False

    def found(self) -> dict[str, Any]:
        """Return the figures of the last count."""
        return {
            "files": len(self.files),
            "by_package": dict(sorted(Counter(_package(name) for name in self.files).items())),
            "lines": sum(len((self._root / name).read_text(encoding="utf-8").splitlines()) for name in self.files),
            "calls": self.calls,
            "switches": self.switches,
            "depth": self.depth,
            "hops": self.hops,
            "reentries": sum(self.reentries.values()),
            "reentry_kinds": len(self.reentries),
            "upwards": [[f"{below} → {above}", count] for (below, above), count in sorted(self.upwards.items())],
            "judged": dict(sorted(self.judged.items())),
        }

    # --- one call ------------------------------------------------------------------------------------------------------

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if not self._on or event != "call":
            return
        name = self._file(frame.f_code)
        if name is None:
            return
        stack = [name, *self._callers(frame)]
        with self._lock:
            self._count(frame.f_code, stack)

    def _count(self, code: CodeType, stack: list[str]) -> None:
        """``stack`` holds the files of the frames, the newest first."""
        name = stack[0]
        self.calls += 1
        self.files[name] += 1
        self.depth = max(self.depth, len(stack))
        changes = [one for one, other in zip(stack, [*stack[1:], None], strict=True) if one != other]
        self.hops = max(self.hops, len(changes))
        entry = f"{_module(name)}:{code.co_qualname}"
        if entry in self._evaluators:
            self.judged[entry] += 1
        if len(stack) > 1 and stack[1] != name:
            self.switches += 1
            if name in stack[2:]:
                self.reentries[name, stack[1]] += 1
            below, above = self._layer(stack[1]), self._layer(name)
            if below is not None and above is not None and above < below:
                self.upwards[_module(stack[1]), _module(name)] += 1

    def _callers(self, frame: FrameType) -> Iterator[str]:
        caller = frame.f_back
        while caller is not None:
            name = self._file(caller.f_code)
            if name is not None:
                yield name
            caller = caller.f_back

    def _file(self, code: CodeType) -> str | None:
        try:
            return self._names[code]
        except KeyError:
            ours = code.co_filename.startswith(self._folders) and code.co_name not in _WITHOUT_A_FRAME
            name = str(Path(code.co_filename).relative_to(self._root)) if ours else None
            self._names[code] = name
            return name

    def _layer(self, name: str) -> int | None:
        parts = _module(name).split(".")
        return self._rank.get(parts[1]) if parts[0] == "omnigraph" and len(parts) > 1 else None


def _module(name: str) -> str:
    """Return the module of a file that is named from the root of the repository."""
    parts = Path(name).with_suffix("").parts
    parts = parts[1:] if parts[0] == "engine" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _package(name: str) -> str:
    return ".".join(_module(name).split(".")[:2])
