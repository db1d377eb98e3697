"""What the source files say: modules, their imports, functions and classes. Read with ``ast``; nothing is imported.

Names that are imported by a string (the lazy exports of a package's ``__init__``) are not seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = (ROOT / "engine" / "omnigraph", ROOT / "omnigraph_pipelines")

AT_IMPORT: Final = "import"
LAZY: Final = "lazy"
TYPING: Final = "typing"

_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Import:
    """One import statement of a module. ``kind``: run when the module is imported, inside a function, or for types only."""

    target: str
    kind: str
    line: int


@dataclass(frozen=True)
class Function:
    name: str
    module: str
    line: int
    lines: int
    parameters: int


@dataclass(frozen=True)
class Module:
    name: str
    path: Path
    lines: int
    imports: tuple[Import, ...]
    functions: tuple[Function, ...]
    classes: tuple[str, ...]

    @property
    def package(self) -> str:
        """Return the package that the table counts this module to: the one below the root, or the root itself."""
        parts = self.name.split(".")
        if len(parts) > 2 or (len(parts) == 2 and self.path.name == "__init__.py"):
            return ".".join(parts[:2])
        return parts[0]

    @property
    def unit(self) -> str:
        """Return what cycles between packages are looked for among: a package, or a module of the root by itself."""
        return ".".join(self.name.split(".")[:2])


@dataclass
class House:
    modules: dict[str, Module] = field(default_factory=dict)

    def packages(self) -> dict[str, list[Module]]:
        found: dict[str, list[Module]] = {}
        for module in self.modules.values():
            found.setdefault(module.package, []).append(module)
        return dict(sorted(found.items()))

    def roots(self) -> list[str]:
        """The top-level modules of the packages."""
        return [name for name in self.modules if "." not in name]


def read(packages: tuple[Path, ...] = PACKAGES) -> House:
    """Read every module of these packages. Imports of anything else are left out."""
    trees: dict[str, tuple[Path, str, ast.Module]] = {}
    for package in packages:
        for path in sorted(package.rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            trees[_module_name(package, path)] = path, text, ast.parse(text, str(path))
    house = House()
    for name, (path, text, tree) in trees.items():
        here = name if path.name == "__init__.py" else name.rpartition(".")[0]
        imports = tuple(sorted(set(_imports(tree, here, set(trees), name)), key=lambda one: (one.line, one.target)))
        house.modules[name] = Module(
            name,
            path,
            len(text.splitlines()),
            imports,
            tuple(_functions(tree, name)),
            tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef)),
        )
    return house


def _module_name(package: Path, path: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# --- imports -----------------------------------------------------------------------------------------------------------


def _imports(tree: ast.Module, here: str, known: set[str], name: str) -> Iterator[Import]:
    todo: list[tuple[ast.AST, str]] = [(tree, AT_IMPORT)]
    while todo:
        node, kind = todo.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            for target in _targets(node, here, known):
                if target != name:
                    yield Import(target, kind, node.lineno)
            continue
        if isinstance(node, ast.If) and _is_for_types(node.test):
            todo += [(child, TYPING) for child in node.body]
            todo += [(child, kind) for child in node.orelse]
            continue
        inner = LAZY if kind == AT_IMPORT and isinstance(node, (*_FUNCTION, ast.Lambda)) else kind
        todo += [(child, inner) for child in ast.iter_child_nodes(node)]


def _is_for_types(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return name == "TYPE_CHECKING"


def _targets(node: ast.Import | ast.ImportFrom, here: str, known: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from _longest_known(alias.name, known)
        return
    base = node.module or ""
    if node.level:
        parent = ".".join(here.split(".")[: len(here.split(".")) - node.level + 1])
        base = f"{parent}.{base}" if base else parent
    for alias in node.names:
        yield from _longest_known(f"{base}.{alias.name}", known)


def _longest_known(name: str, known: set[str]) -> Iterator[str]:
    """Yield the module that a dotted name leads to; a name that is no module of ours leads nowhere."""
    while name:
        if name in known:
            yield name
            return
        name = name.rpartition(".")[0]


# --- functions ---------------------------------------------------------------------------------------------------------


def _functions(tree: ast.Module, module: str) -> Iterator[Function]:
    todo: list[tuple[ast.AST, str, bool]] = [(tree, "", False)]
    while todo:
        node, prefix, in_class = todo.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _FUNCTION):
                lines = (child.end_lineno or child.lineno) - child.lineno + 1
                bound = in_class and not any(_named(one) == "staticmethod" for one in child.decorator_list)
                name = f"{prefix}{child.name}"
                yield Function(name, module, child.lineno, lines, _parameters(child.args) - bound)
                todo.append((child, f"{name}.", False))
            elif isinstance(child, ast.ClassDef):
                todo.append((child, f"{prefix}{child.name}.", True))
            else:
                todo.append((child, prefix, in_class))


def _parameters(given: ast.arguments) -> int:
    """Count named parameters; ``*args`` and ``**kwargs`` count one each."""
    named = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)
    return named + (given.vararg is not None) + (given.kwarg is not None)


def _named(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
