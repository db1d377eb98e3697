"""Parts of reference pages that are made from the code: limits, figures, options, the names of the Python interface.

``python -m tests.docs.generated`` writes them between their marks; a test compares.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import omnigraph
from omnigraph import distributed
from omnigraph.core.limits import Limits
from omnigraph.core.metrics import INSTRUMENTS
from omnigraph.graph import Graph
from omnigraph.store import s3_options
from tests.docs.pages import DOCS

# Values that the interface hands out beside what it names and what the façade's own methods return by name.
_MORE = {
    "StagingTable": "omnigraph.distributed.staging_txn",
    "TableEntry": "omnigraph.wire.data",
    "TableChange": "omnigraph.wire.receipt",
    "RejectedRows": "omnigraph.wire.receipt",
    "StorageCost": "omnigraph.core.meter",
    "PendingIntent": "omnigraph.wire.recovery",
    "BranchParent": "omnigraph.wire.branches",
    "Checkpoint": "omnigraph.wire.cleanup",
    "CleanupReport": "omnigraph.wire.cleanup",
}
_LINE_CHARS = 90
_PLACES = (
    "omnigraph.wire",
    "omnigraph.read",
    "omnigraph.write",
    "omnigraph.distributed",
    "omnigraph.upkeep",
    "omnigraph.branch",
)


def limits() -> str:
    lines = ["| name | default | of what |", "|---|---|---|"]
    lines += [f"| `{one.name}` | {one.default:,} | {one.metadata['what']} |" for one in dataclasses.fields(Limits)]
    return "\n".join(lines)


def metrics() -> str:
    lines = ["| name | kind | unit | attributes | of what |", "|---|---|---|---|---|"]
    for one in INSTRUMENTS:
        attributes = ", ".join(f"`{name}`" for name in one.attributes) or "–"
        lines.append(f"| `{one.name}` | {one.kind} | `{one.unit}` | {attributes} | {one.meaning} |")
    return "\n".join(lines)


def options() -> str:
    lines = ["| option | other names |", "|---|---|"]
    for name, others in s3_options._ALIASES.items():
        lines.append(f"| `{name}` | {', '.join(f'`{other}`' for other in others) or '–'} |")
    return "\n".join(lines)


def python_interface() -> str:
    parts = ["## Module `omnigraph`", ""]
    for name in sorted(omnigraph.__all__):
        value = getattr(omnigraph, name)
        if inspect.isfunction(value):
            parts += _callable(f"omnigraph.{name}", value, "###")
        elif inspect.ismodule(value):
            parts += [f"### `omnigraph.{name}`", "", _first(value), ""]
        elif not inspect.isclass(value):
            parts += [f"### `omnigraph.{name}`", "", f"`{value!r}`", ""]
    parts += ["## Module `omnigraph.distributed`", "", _first(distributed), ""]
    for name in distributed.__all__:
        if inspect.isfunction(value := getattr(distributed, name)):
            parts += _callable(f"omnigraph.distributed.{name}", value, "###")
    parts += ["## `Graph`", "", _first(Graph), ""]
    for name, member in _members(Graph):
        parts += _member(f"graph.{name}", member, "###")
    for name, kind in sorted(_classes().items()):
        if kind is not Graph:
            parts += _class(name, kind)
    return "\n".join(parts).rstrip()


def _classes() -> dict[str, type]:
    """Every class that a public method of the façade returns, found by its annotations."""
    tree = ast.parse(Path(inspect.getsourcefile(Graph) or "").read_text())
    modules = {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    found = dict(_MORE)
    for _, member in _members(Graph):
        function = member.fget if isinstance(member, property) else member
        for word in re.findall(r"[A-Z]\w+", str(getattr(function, "__annotations__", {}).get("return", ""))):
            if modules.get(word, "").startswith(_PLACES):
                found[word] = modules[word]
    named = {
        name: value
        for package in (omnigraph, distributed)
        for name in package.__all__
        if inspect.isclass(value := getattr(package, name))
    }
    return named | {name: getattr(importlib.import_module(module), name) for name, module in found.items()}


def _members(kind: type) -> list[tuple[str, Any]]:
    names = [name for name in vars(kind) if not name.startswith("_")]
    return [(name, vars(kind)[name]) for name in names]


def _class(name: str, kind: type) -> list[str]:
    parts = [f"## `{name}`", ""]
    if _own_doc(kind):
        parts += [_first(kind), ""]
    rows = []
    # pydantic's models keep their fields elsewhere than dataclasses do.
    annotations = {
        field: note
        for field, note in inspect.get_annotations(kind).items()
        if not field.startswith("_") and not str(note).startswith(("ClassVar", "int = field"))
    }
    for field, note in annotations.items():
        rows.append(f"| `{field}` | `{_cell(_type(note))}` |")
    for member_name, member in _members(kind):
        if member_name in annotations or isinstance(member, type | Enum):
            continue
        if isinstance(member, property):
            note = (member.fget.__annotations__ if member.fget else {}).get("return", "")
            rows.append(f"| `{member_name}` | `{_cell(_type(note))}`{_cell(_said(member))} |")
        elif callable(_function(member)):
            function = _function(member)
            said = _cell(_said(function).removeprefix(". ")) or "–"
            rows.append(f"| `{_cell(member_name + _signature(function))}` | {said} |")
    if hasattr(kind, "to_dict") and "to_dict" not in vars(kind):
        rows.append("| `to_dict() -> dict[str, Any]` | – |")
    return [*parts, "| member | type, or what it does |", "|---|---|", *rows, ""]


def _function(member: Any) -> Any:
    return member.__func__ if isinstance(member, classmethod | staticmethod) else member


def _member(name: str, member: Any, level: str) -> list[str]:
    if isinstance(member, property):
        note = (member.fget.__annotations__ if member.fget else {}).get("return", "")
        return [f"{level} `{name}`", "", f"`{_type(note)}`{_said(member)}", ""]
    return _callable(name, member, level)


def _callable(name: str, function: Callable[..., Any], level: str) -> list[str]:
    signature = _signature(function)
    return [
        f"{level} `{name}`",
        "",
        "```text",
        f"{name}{signature}",
        "```",
        "",
        *([_first(function), ""] if function.__doc__ else []),
    ]


def _signature(function: Callable[..., Any]) -> str:
    given: list[str] = []
    star = False
    found = inspect.signature(function)
    for parameter in found.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            given.append("*")
            star = True
        text = parameter.name
        if parameter.annotation is not parameter.empty:
            text += f": {_type(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            text += f" = {'DEFAULT_LIMITS' if isinstance(parameter.default, Limits) else repr(parameter.default)}"
        given.append(text)
    back = "" if found.return_annotation is found.empty else f" -> {_type(found.return_annotation)}"
    line = f"({', '.join(given)}){back}"
    return line if len(line) <= _LINE_CHARS else "(\n    " + ",\n    ".join(given) + f",\n){back}"


def _type(note: Any) -> str:
    text = note if isinstance(note, str) else getattr(note, "__name__", str(note))
    return text or "Any"


def _own_doc(kind: type) -> bool:
    return bool(kind.__doc__) and not (kind.__doc__ or "").startswith(f"{kind.__name__}(")


def _first(value: Any) -> str:
    """The first paragraph of a docstring, as Markdown."""
    text = inspect.cleandoc(value.__doc__ or "").split("\n\n")[0]
    return re.sub(r":\w+:`([^`]*)`", r"`\1`", text.replace("``", "`"))


def _said(value: Any) -> str:
    text = " ".join(_first(value).split()) if value.__doc__ else ""
    return f". {text}" if text else ""


def _cell(text: str) -> str:
    """Text for a cell of a table: one line, without its mark of columns."""
    return " ".join(text.split()).replace("( ", "(").replace(",)", ")").replace("|", "\\|")


# --- pages --------------------------------------------------------------------------------------------------------------

PARTS: dict[str, tuple[Path, Callable[[], str]]] = {
    "limits": (DOCS / "reference" / "limits.md", limits),
    "options": (DOCS / "reference" / "configuration.md", options),
    "metrics": (DOCS / "reference" / "metrics.md", metrics),
    "python": (DOCS / "reference" / "python.md", python_interface),
}


def _marks(name: str) -> tuple[str, str]:
    return (
        f"<!-- made from the code by `python -m tests.docs.generated`: {name} -->",
        f"<!-- end of {name} -->",
    )


def inside(name: str) -> str:
    """What the page has between its marks."""
    page, _ = PARTS[name]
    begin, end = _marks(name)
    return page.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0].strip()


def write(name: str) -> bool:
    page, make = PARTS[name]
    begin, end = _marks(name)
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    assert found and closed, f"{page} has no marks of {name}"
    text = f"{before}{begin}\n\n{make()}\n\n{end}{after}"
    changed = text != page.read_text(encoding="utf-8")
    page.write_text(text, encoding="utf-8")
    return changed


def main() -> int:
    for name in PARTS:
        print(f"{name}: {'written' if write(name) else 'up to date'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
