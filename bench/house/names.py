"""Public classes, and the words that their names are built from. Read from the syntax tree; nothing is imported.

A class is *public* if a program can get hold of it through public names alone: it is exported, or stands in a field, a parameter
or a result of a public class or function. Errors are public, all of them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from bench.house.source import House, Module

# Modules whose public names a program may import, and those of which every class is raised.
EXPORTS: Final = ("omnigraph", "omnigraph.distributed", "omnigraph_pipelines", "omnigraph_pipelines.spark")
ERRORS: Final = "omnigraph.core.errors"

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z]+|[A-Z]+\d*")
_ROWS = re.compile(r"^\| ([a-z0-9, ]+) \|", re.M)

Name = tuple[str, str]


def words(name: str) -> list[str]:
    """Split a class name: ``StagedPart`` is ``staged`` and ``part``."""
    return [word.lower() for word in _WORD.findall(name)]


def glossary(page: str, heading: str) -> set[str]:
    """Return the words in the first column of the tables below a heading."""
    section = re.split(r"^## ", page.partition(f"\n## {heading}\n")[2], flags=re.M)[0]
    return {word.strip() for cell in _ROWS.findall(section) for word in cell.split(",")} - {"word"}


def public(house: House, exports: tuple[str, ...] = EXPORTS, errors: str = ERRORS) -> set[Name]:
    """Return (module, class) of every public class."""
    known = _Known(house)
    todo = [(name, one) for name in exports for one in known.exported(name)]
    if errors in house.modules:
        todo += [(errors, name) for name in house.modules[errors].classes if not name.startswith("_")]
    seen: set[Name] = set()
    while todo:
        found = known.resolve(*todo.pop())
        if found is None or found in seen or found[1].startswith("_"):
            continue
        seen.add(found)
        todo += known.mentioned(found)
    return {one for one in seen if known.is_class(one)}


class _Known:
    """Definitions and imports of every module, by name."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._trees: dict[str, ast.Module] = {}
        self._definitions: dict[str, dict[str, ast.stmt]] = {}
        self._imports: dict[str, dict[str, Name]] = {}

    def _read(self, module: str) -> None:
        if module in self._definitions:
            return
        one: Module = self._house.modules[module]
        tree = ast.parse(one.path.read_text(encoding="utf-8"))
        self._trees[module] = tree
        self._definitions[module] = {
            node.name: node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)
        }
        self._imports[module] = dict(_names_imported(tree))

    def exported(self, module: str) -> list[str]:
        """Return the keys of ``_PUBLIC``, the table of lazy exports, or the names of ``__all__``."""
        if module not in self._house.modules:
            return []
        self._read(module)
        for node in self._trees[module].body:
            if not isinstance(node, ast.Assign | ast.AnnAssign):
                continue
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            name = target.id if isinstance(target, ast.Name) else ""
            if name == "_PUBLIC" and isinstance(node.value, ast.Dict):
                lazy = dict(_lazy(node.value))
                self._imports[module].update(lazy)
                return list(lazy)
            if name == "__all__" and isinstance(node.value, ast.List):
                return [str(item.value) for item in node.value.elts if isinstance(item, ast.Constant)]
        return []

    def resolve(self, module: str, name: str) -> Name | None:
        """Follow imports from a name to where it is defined; None if that is not in our packages."""
        for _ in range(10):
            if module not in self._house.modules:
                return None
            self._read(module)
            if name in self._definitions[module]:
                return module, name
            if name not in self._imports[module]:
                return None
            module, name = self._imports[module][name]
        return None

    def is_class(self, name: Name) -> bool:
        return isinstance(self._definitions[name[0]][name[1]], ast.ClassDef)

    def mentioned(self, name: Name) -> Iterator[Name]:
        """Yield the names in the public annotations of a class or a function."""
        module, own = name
        for annotation in _annotations(self._definitions[module][own]):
            for node in ast.walk(annotation):
                if isinstance(node, ast.Name):
                    yield module, node.id
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    for text in re.findall(r"[A-Za-z_]\w*", node.value):
                        yield module, text


def _lazy(table: ast.Dict) -> Iterator[tuple[str, Name]]:
    for key, value in zip(table.keys, table.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(value, ast.Tuple):
            parts = [item.value for item in value.elts if isinstance(item, ast.Constant)]
            if len(parts) == 2 and all(isinstance(part, str) for part in parts):
                yield str(key.value), (str(parts[0]), str(parts[1]))


def _names_imported(tree: ast.Module) -> Iterator[tuple[str, Name]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, (node.module, alias.name)


def _annotations(node: ast.stmt) -> Iterator[ast.expr]:
    if isinstance(node, ast.FunctionDef):
        arguments = node.args
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if one.annotation is not None:
                yield one.annotation
        if node.returns is not None:
            yield node.returns
    elif isinstance(node, ast.ClassDef):
        for inner in node.body:
            if isinstance(inner, ast.AnnAssign) and not (
                isinstance(inner.target, ast.Name) and inner.target.id[0] == "_"
            ):
                yield inner.annotation
            elif isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                yield from _annotations(inner)
