"""The order between sources: which must be done before which. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def circle_in(after: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return one circle as ``(a, b, a)``: a waits for b, b waits for a. Empty if there is none."""
    done: set[str] = set()
    for start in after:
        stack: list[tuple[str, int]] = [(start, 0)]
        while stack:
            name, nth = stack.pop()
            path = [one for one, _ in stack]
            if name in path:
                return (*path[path.index(name) :], name)
            before = after.get(name, ())
            if name in done or nth >= len(before):
                done.add(name)
                continue
            stack += [(name, nth + 1), (before[nth], 0)]
    return ()


def in_order(names: Sequence[str], after: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names so that each stands behind those it waits for, and else as given. ``after`` has no circle."""
    found: list[str] = []
    stack = [(name, False) for name in reversed(names)]
    while stack:
        name, is_ready = stack.pop()
        if name in found:
            continue
        if is_ready:
            found.append(name)
        else:
            stack.append((name, True))
            stack += [(before, False) for before in reversed(after.get(name, ()))]
    wanted = set(names)
    return [name for name in found if name in wanted]
