"""The figures as tables, and the part of the architecture page that holds them. Measures nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.house.shape import FUNCTION_LINES_MAX, MODULE_LINES_MAX, PARAMETERS_MAX
from bench.house.source import ROOT
from bench.results import FOLDER

PAGE: Final = ROOT / "docs" / "explanation" / "architecture.md"
BEFORE: Final = FOLDER / "house-before.json"
BEGIN, END = "<!-- house: written by `./run house --write` -->", "<!-- house: end -->"

NAMES: Final = {
    "load": "a merge load of five records into four tables",
    "mutate": "one `update` of one node",
    "batch": "a batch of four files through Spark, on the driver",
    "dagster batch": "the same batch as a run of Dagster, both steps",
    "optimize": "an optimize of four tables after eight loads",
    "recover": "the recovery of a writer that died before its swap",
    "read": "a snapshot read with a filter",
}

Found = dict[str, Any]


def before() -> Found | None:
    return json.loads(BEFORE.read_text(encoding="utf-8")) if BEFORE.exists() else None


def tables(now: Found, then: Found | None) -> str:
    """Return all tables as Markdown. ``then``: the figures that these are compared with."""
    shape, old = now["shape"], None if then is None else then["shape"]
    parts = [_stamp(now, then), _sizes(shape, old), _walks(now["walks"], None if then is None else then["walks"])]
    parts += [_upwards(now["walks"]), _packages(shape, old), _named(shape)]
    return "\n\n".join(parts)


def write(now: Found, page: Path = PAGE) -> None:
    """Replace what stands between the markers of the page."""
    text = page.read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no markers {BEGIN} and {END}")
    page.write_text(f"{head}{BEGIN}\n\n{tables(now, before())}\n\n{END}{tail}", encoding="utf-8")


def _stamp(now: Found, then: Found | None) -> str:
    text = f"Now: `{now['command']}` at {now['commit']}, Python {now['python']}."
    if then is not None:
        text += f" Before: `{then['command']}` at {then['commit']}, Python {then['python']}."
    return text


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _cell(cell: Any) -> str:
    return "–" if cell is None else f"{cell:,}" if isinstance(cell, int) else str(cell)


# --- the parts -----------------------------------------------------------------------------------------------------------


def _sizes(now: Found, then: Found | None) -> str:
    rows: list[tuple[str, Any]] = [
        ("modules", lambda one: one["modules"]),
        ("lines", lambda one: one["lines"]),
        ("functions", lambda one: one["functions"]),
        (f"modules over {MODULE_LINES_MAX} lines", lambda one: len(one["modules_over"])),
        (f"functions over {FUNCTION_LINES_MAX} lines", lambda one: _over(one, "lines", FUNCTION_LINES_MAX)),
        (f"functions over {PARAMETERS_MAX} parameters", lambda one: _over(one, "parameters", PARAMETERS_MAX)),
        ("import cycles of modules", lambda one: len(one["cycles"])),
        ("the same, with imports inside functions and for types", lambda one: len(one["cycles_lazy"])),
        ("import cycles of packages", lambda one: len(one["package_cycles"])),
        ("the same, with imports inside functions and for types", lambda one: len(one["package_cycles_lazy"])),
        ("modules in the longest chain of imports", lambda one: len(one["chain"])),
        ("names that two or more public classes have", lambda one: len(one["classes_twice"])),
    ]
    return _markdown(
        ["size", "before", "now"], [[name, None if then is None else of(then), of(now)] for name, of in rows]
    )


def _over(found: Found, what: str, bound: int) -> int:
    return sum(one[what] > bound for one in found["functions_over"])


def _walks(now: Found, then: Found | None) -> str:
    columns = ["walk", "", "files", "lines in them", "calls", "file switches", "re-entries", "calls upwards", "judged"]
    rows: list[list[Any]] = []
    for name, title in NAMES.items():
        for when, found in (("before", (then or {}).get(name)), ("now", now.get(name))):
            if found is not None:
                rows.append([title if when == "before" or not then else "", when, *_walk(found)])
    return _markdown(columns, rows)


def _walk(found: Found) -> list[Any]:
    if "not_run" in found:
        return [f"not run: {found['not_run']}", *[None] * 6]
    return [
        found["files"],
        found["lines"],
        found["calls"],
        found["switches"],
        found["reentries"],
        sum(count for _, count in found["upwards"]),
        sum(found["judged"].values()) or None,
    ]


def _upwards(now: Found) -> str:
    seen: dict[str, list[str]] = {}
    for name, found in now.items():
        for way, count in found.get("upwards", ()):
            seen.setdefault(way, []).append(f"{name} {count}")
    lines = [f"- `{way}`: {', '.join(counts)}" for way, counts in sorted(seen.items())]
    return "\n".join(["Calls from a layer to one above it, now:", "", *(lines or ["- none"])])


def _packages(now: Found, then: Found | None) -> str:
    old = {one["package"]: one for one in (then or {"packages": []})["packages"]}
    new = {one["package"]: one for one in now["packages"]}
    rows: list[list[Any]] = []
    for name in sorted({*old, *new}):
        was, one = old.get(name, {}), new.get(name, {})
        kept = ("modules", "lines", "median", "fan_in", "fan_out", "inner_edges")
        rows.append([f"`{name}`", was.get("modules"), was.get("lines"), *(one.get(column) for column in kept)])
    columns = ["package", "modules before", "lines before", "modules", "lines", "median", "fan-in", "fan-out", "inside"]
    return _markdown(columns, rows)


def _named(now: Found) -> str:
    parts = [
        (f"Modules over {MODULE_LINES_MAX} lines", [f"`{name}` {lines}" for name, lines in now["modules_over"]]),
        (
            f"Functions over {FUNCTION_LINES_MAX} lines or {PARAMETERS_MAX} parameters (lines, parameters)",
            [f"`{one['function']}` {one['lines']}, {one['parameters']}" for one in now["functions_over"]],
        ),
        ("Modules that most others import", [f"`{name}` {count}" for name, count in now["fan_in"]]),
        ("Modules that import most others", [f"`{name}` {count}" for name, count in now["fan_out"]]),
        ("Cycles of modules at import", _cycles(now["cycles"])),
        ("Cycles of modules through imports inside functions or for types", _cycles(now["cycles_lazy"])),
        ("Cycles of packages at import", _cycles(now["package_cycles"])),
        ("Cycles of packages through imports inside functions or for types", _cycles(now["package_cycles_lazy"])),
        ("The longest chain of imports", [" → ".join(f"`{name}`" for name in now["chain"])]),
        (
            "Names of more than one public class",
            [f"`{name}` {len(where)}" for name, where in now["classes_twice"].items()],
        ),
    ]
    return "\n\n".join(f"{title}: {'; '.join(found) or 'none'}." for title, found in parts)


def _cycles(found: Sequence[Sequence[str]]) -> list[str]:
    return [" ↔ ".join(f"`{name}`" for name in group) for group in found]
