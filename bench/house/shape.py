"""Figures of the source: sizes, imports between packages, cycles, chains, names that stand twice. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any, Final

from bench.house.source import AT_IMPORT, LAZY, TYPING, Function, House

MODULE_LINES_MAX: Final = 400
FUNCTION_LINES_MAX: Final = 60
PARAMETERS_MAX: Final = 7
TOP: Final = 8

Graph = dict[str, set[str]]


def measure(house: House) -> dict[str, Any]:
    """Return all figures as plain values."""
    now = edges(house, AT_IMPORT)
    every = edges(house, AT_IMPORT, LAZY, TYPING)
    for root in house.roots():
        # The root names everything for type checkers, and nothing imports a thing by it.
        every[root] = edges(house, AT_IMPORT, LAZY)[root]
    now_cycles, every_cycles = cycles(now), cycles(every)
    between_now, between_every = between_packages(house, now), between_packages(house, every)
    functions = [function for module in house.modules.values() for function in module.functions]
    return {
        "packages": packages(house, every),
        "modules": len(house.modules),
        "lines": sum(module.lines for module in house.modules.values()),
        "functions": len(functions),
        "classes": len(public_classes(house)),
        "modules_over": modules_over(house),
        "functions_over": functions_over(functions),
        "cycles": now_cycles,
        "cycles_lazy": [one for one in every_cycles if one not in now_cycles],
        "package_cycles": cycles(between_now),
        "package_cycles_lazy": [one for one in cycles(between_every) if one not in cycles(between_now)],
        "chain": longest_chain(now),
        "classes_twice": classes_twice(house),
        "fan_in": _top(reversed_(every)),
        "fan_out": _top(every),
    }


def edges(house: House, *kinds: str) -> Graph:
    """Return which modules each module imports, by imports of these kinds."""
    return {name: {one.target for one in module.imports if one.kind in kinds} for name, module in house.modules.items()}


def reversed_(graph: Graph) -> Graph:
    found: Graph = {name: set() for name in graph}
    for name, targets in graph.items():
        for target in targets:
            found[target].add(name)
    return found


def between_packages(house: House, graph: Graph) -> Graph:
    found: Graph = {module.unit: set() for module in house.modules.values()}
    for name, targets in graph.items():
        here = house.modules[name].unit
        found[here] |= {house.modules[target].unit for target in targets} - {here}
    return found


# --- packages ----------------------------------------------------------------------------------------------------------


def packages(house: House, graph: Graph) -> list[dict[str, Any]]:
    """Return a row for each package. Fan-in: modules outside that import it; fan-out: modules outside that it imports."""
    into = reversed_(graph)
    rows = []
    for name, modules in house.packages().items():
        sizes = [module.lines for module in modules]
        inside = {module.name for module in modules}
        rows.append(
            {
                "package": name,
                "modules": len(modules),
                "lines": sum(sizes),
                "median": round(statistics.median(sizes)),
                "fan_in": len({one for name in inside for one in into[name]} - inside),
                "fan_out": len({one for name in inside for one in graph[name]} - inside),
                "inner_edges": sum(len(graph[name] & inside) for name in inside),
            }
        )
    return rows


def _top(graph: Mapping[str, set[str]]) -> list[list[Any]]:
    found = sorted(((len(targets), name) for name, targets in graph.items()), key=lambda one: (-one[0], one[1]))
    return [[name, count] for count, name in found[:TOP]]


# --- sizes and names -----------------------------------------------------------------------------------------------------


def modules_over(house: House) -> list[list[Any]]:
    found = [[module.name, module.lines] for module in house.modules.values() if module.lines > MODULE_LINES_MAX]
    return sorted(found, key=lambda one: (-one[1], one[0]))


def functions_over(functions: Iterable[Function]) -> list[dict[str, Any]]:
    """Return functions that are too long or take too many parameters, the longest first."""
    found = [
        {"function": f"{one.module}.{one.name}", "lines": one.lines, "parameters": one.parameters}
        for one in functions
        if one.lines > FUNCTION_LINES_MAX or one.parameters > PARAMETERS_MAX
    ]
    return sorted(found, key=lambda one: (-int(one["lines"]), str(one["function"])))


def public_classes(house: House) -> dict[str, list[str]]:
    """Return the modules of each class of a module's top level whose name has no leading underscore."""
    found: dict[str, list[str]] = {}
    for module in house.modules.values():
        for name in module.classes:
            if not name.startswith("_"):
                found.setdefault(name, []).append(module.name)
    return found


def classes_twice(house: House) -> dict[str, list[str]]:
    return {name: sorted(where) for name, where in sorted(public_classes(house).items()) if len(where) > 1}


# --- cycles and chains -------------------------------------------------------------------------------------------------------


def cycles(graph: Graph) -> list[list[str]]:
    """Return every strongly connected set of more than one, sorted (Tarjan's algorithm)."""
    found: list[list[str]] = []
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph[node]):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            at = stack.index(node)
            group, stack[at:] = stack[at:], []
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(found)


def longest_chain(graph: Graph) -> list[str]:
    """Return the longest way along imports that meets no module twice; modules of a cycle are left out of it."""
    in_cycles = {name for group in cycles(graph) for name in group}
    best: dict[str, list[str]] = {}

    def visit(node: str) -> list[str]:
        if node not in best:
            ways = [visit(target) for target in sorted(graph[node]) if target not in in_cycles]
            best[node] = [node, *max(ways, key=len, default=[])]
        return best[node]

    return max((visit(node) for node in sorted(graph) if node not in in_cycles), key=len, default=[])
