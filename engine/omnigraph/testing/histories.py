"""Histories of real processes, and the checkers that find what no correct store could have answered. Pure.

A history is a list of events, one before each operation (``invoke``) and one after it: ``ok``, ``fail`` (certainly
without effect) or ``unknown``. A process that was killed leaves an operation without an end, which counts as unknown.
Times are seconds of one monotonic clock that all processes share.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

INVOKE, OK, FAIL, UNKNOWN = "invoke", "ok", "fail", "unknown"


@dataclass(frozen=True)
class Event:
    """``value``: what was asked for, and in an ``ok`` event of a read what was answered."""

    process: str
    serial: int
    kind: str
    what: str
    value: Any
    at_s: float


@dataclass(frozen=True)
class Op:
    """An operation with both its ends. ``answer`` is None where there was none."""

    process: str
    serial: int
    what: str
    value: Any
    began_s: float
    ended_s: float
    end: str
    answer: Any = None


def operations_of(events: Iterable[Event]) -> list[Op]:
    """Pair invocations with their ends, in order of invocation."""
    begun: dict[tuple[str, int], Event] = {}
    ended: dict[tuple[str, int], Event] = {}
    for event in events:
        key = (event.process, event.serial)
        side = begun if event.kind == INVOKE else ended
        if key in side:
            raise ValueError(f"operation {key} has two events of one side")
        side[key] = event
    if ended.keys() - begun.keys():
        raise ValueError(f"ends without a beginning: {sorted(ended.keys() - begun.keys())[:3]}")
    found = []
    for key, event in sorted(begun.items(), key=lambda pair: pair[1].at_s):
        end = ended.get(key)
        found.append(
            Op(
                event.process,
                event.serial,
                event.what,
                event.value,
                event.at_s,
                end.at_s if end is not None else float("inf"),
                end.kind if end is not None else UNKNOWN,
                end.value if end is not None else None,
            )
        )
    return found


# --- set: elements are added, reads see all of them ----------------------------------------------------------------------


def check_set(events: Iterable[Event]) -> list[str]:
    """``add`` of one element; ``read`` answers the elements. What was acknowledged is there, once; what failed is not."""
    ops = operations_of(events)
    adds = [op for op in ops if op.what == "add"]
    asked = {op.value: op for op in adds}
    found = []
    for read in (op for op in ops if op.what == "read" and op.end == OK):
        seen = Counter(read.answer)
        twice = sorted(element for element, times in seen.items() if times > 1)
        if twice:
            found.append(f"{_name(read)} saw elements twice: {twice[:5]}")
        strange = sorted(seen.keys() - asked.keys())
        found.extend(f"{_name(read)} saw {element!r}, which no writer added" for element in strange)
        for element in sorted(seen.keys() & asked.keys()):
            add = asked[element]
            if add.end == FAIL:
                found.append(f"{_name(read)} saw {element!r}, whose addition had failed")
            if add.began_s > read.ended_s:
                found.append(f"{_name(read)} saw {element!r} before it was added")
        before = [add.value for add in adds if add.end == OK and add.ended_s < read.began_s]
        found.extend(f"{_name(read)} misses {v!r}, acknowledged before it began" for v in before if v not in seen)
    return found


# --- list-append: each key holds a list in the order of commits ------------------------------------------------------------


def check_list_append(events: Iterable[Event]) -> list[str]:
    """``append`` of one value to the lists of several keys at once; ``read`` answers a mapping key → list.

    Strict serialisability of these: every list read is a prefix of the longest, one order explains all keys, an append
    shows at all of its keys or none, and what ended before something else began comes before it.
    """
    ops = operations_of(events)
    appends = {op.value[0]: op for op in ops if op.what == "append"}
    reads = [op for op in ops if op.what == "read" and op.end == OK]
    found: list[str] = []
    longest: dict[str, Sequence[Any]] = {}
    for read in reads:
        for key, values in read.answer.items():
            if len(values) > len(longest.get(key, ())):
                longest[key] = values
    for read in reads:
        for key, values in read.answer.items():
            if list(values) != list(longest.get(key, ()))[: len(values)]:
                found.append(f"{_name(read)} saw {key} as {_short(values)}, no prefix of {_short(longest[key])}")
        found.extend(_atomic(read, appends))
        found.extend(_recent(read, appends))
    for key, values in longest.items():
        twice = sorted(value for value, times in Counter(values).items() if times > 1)
        if twice:
            found.append(f"{key} holds values twice: {twice[:5]}")
        found.extend(_real_time(key, values, appends))
    found.extend(_one_order(longest))
    found.extend(_monotonic(reads))
    return found


def _atomic(read: Op, appends: Mapping[Any, Op]) -> list[str]:
    found = []
    for value in sorted({value for values in read.answer.values() for value in values}):
        op = appends.get(value)
        if op is None:
            found.append(f"{_name(read)} saw {value!r}, which no writer appended")
            continue
        if op.end == FAIL:
            found.append(f"{_name(read)} saw {value!r}, whose append had failed")
        missing = [key for key in op.value[1] if key in read.answer and value not in read.answer[key]]
        if missing:
            found.append(f"{_name(read)} saw {value!r} in part: it is missing in {missing}")
    return found


def _recent(read: Op, appends: Mapping[Any, Op]) -> list[str]:
    return [
        f"{_name(read)} misses {value!r} in {key}, acknowledged before it began"
        for value, op in appends.items()
        if op.end == OK and op.ended_s < read.began_s
        for key in op.value[1]
        if key in read.answer and value not in read.answer[key]
    ]


def _real_time(key: str, values: Sequence[Any], appends: Mapping[Any, Op]) -> list[str]:
    """In the list's order no element stands before another whose write had ended before its own began."""
    found = []
    latest_begin, who = float("-inf"), None
    for value in values:
        op = appends.get(value)
        if op is None:
            continue
        if op.end == OK and op.ended_s < latest_begin:
            found.append(f"{key} has {who!r} before {value!r}, which had ended before {who!r} began")
        if op.began_s > latest_begin:
            latest_begin, who = op.began_s, value
    return found


def _one_order(longest: Mapping[str, Sequence[Any]]) -> list[str]:
    """The orders of all keys together have no cycle."""
    after: dict[Any, set[Any]] = {}
    for values in longest.values():
        for first, second in itertools.pairwise(values):
            after.setdefault(first, set()).add(second)
    state: dict[Any, int] = {}
    for start in after:
        stack: list[tuple[Any, list[Any]]] = [(start, sorted(after.get(start, ())))]
        if state.get(start):
            continue
        state[start] = 1
        while stack:
            node, rest = stack[-1]
            if not rest:
                state[node] = 2
                stack.pop()
                continue
            following = rest.pop()
            if state.get(following) == 1:
                return [f"no one order explains all keys: {following!r} and {node!r} precede each other"]
            if not state.get(following):
                state[following] = 1
                stack.append((following, sorted(after.get(following, ()))))
    return []


def _monotonic(reads: Sequence[Op]) -> list[str]:
    """A read that begins after another has ended sees at least as much of each key."""
    found = []
    seen: dict[str, tuple[int, float, Op]] = {}
    for read in sorted(reads, key=lambda op: op.ended_s):
        for key, values in read.answer.items():
            before = seen.get(key)
            if before is not None and before[1] < read.began_s and len(values) < before[0]:
                found.append(f"{_name(read)} saw less of {key} than {_name(before[2])} had seen before")
            if before is None or len(values) > before[0]:
                seen[key] = (len(values), read.ended_s, read)
    return found


# --- bank: money moves between accounts, the total stays --------------------------------------------------------------------


def check_bank(events: Iterable[Event], *, total: int, accounts: int) -> list[str]:
    """``read`` answers a mapping account → balance."""
    found = []
    for read in (op for op in operations_of(events) if op.what == "read" and op.end == OK):
        if len(read.answer) != accounts:
            found.append(f"{_name(read)} saw {len(read.answer)} accounts, not {accounts}")
        if sum(read.answer.values()) != total:
            found.append(f"{_name(read)} saw {sum(read.answer.values())} in all accounts, not {total}")
    return found


def check_bank_end(events: Iterable[Event], *, start: Mapping[str, int], end: Mapping[str, int]) -> list[str]:
    """Without unknown outcomes the last balances are the first ones and every acknowledged transfer, each once."""
    transfers = [op for op in operations_of(events) if op.what == "transfer"]
    if any(op.end == UNKNOWN for op in transfers):
        return []
    wanted = dict(start)
    for op in transfers:
        if op.end == OK:
            source, target, amount = op.value
            wanted[source] -= amount
            wanted[target] += amount
    return [f"{name}: {end.get(name)}, not {wanted[name]}" for name in sorted(wanted) if end.get(name) != wanted[name]]


# --- ring: every insertion keeps one ring -----------------------------------------------------------------------------------


def check_ring(events: Iterable[Event]) -> list[str]:
    """``insert`` of a member; ``read`` answers a mapping member → next. It is one ring of everything acknowledged."""
    ops = operations_of(events)
    inserts = [op for op in ops if op.what == "insert"]
    found = []
    for read in (op for op in ops if op.what == "read" and op.end == OK):
        following: Mapping[str, str] = read.answer
        if not following:
            found.append(f"{_name(read)} saw no ring at all")
            continue
        start = min(following)
        member, passed = start, set()
        while member in following and member not in passed:
            passed.add(member)
            member = following[member]
        if member != start or len(passed) != len(following):
            found.append(
                f"{_name(read)} saw no ring: from {start!r} it passes {len(passed)} of {len(following)} members"
            )
        for op in inserts:
            if op.end == OK and op.ended_s < read.began_s and op.value not in following:
                found.append(f"{_name(read)} misses {op.value!r}, acknowledged before it began")
            if op.end == FAIL and op.value in following:
                found.append(f"{_name(read)} saw {op.value!r}, whose insertion had failed")
    return found


def _name(op: Op) -> str:
    return f"{op.what} {op.serial} of {op.process}"


def _short(values: Sequence[Any]) -> str:
    shown = ", ".join(map(repr, values[:6]))
    return f"[{shown}{', …' if len(values) > 6 else ''}]"
