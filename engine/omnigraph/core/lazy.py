"""Names of a package that are imported when they are first used, so that a command pays only for what it uses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def exports(package: str, homes: Mapping[str, tuple[str, str | None]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package. ``homes``: module and attribute by public name; None for the module itself.

    Give it to the package behind ``if not TYPE_CHECKING``: to a type checker, a module with ``__getattr__`` has every name
    there is, and it would find no mistake."""

    def get(name: str) -> Any:
        try:
            home, attribute = homes[name]
        except KeyError:
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
        module = import_module(home)
        value = module if attribute is None else getattr(module, attribute)
        setattr(sys.modules[package], name, value)
        return value

    return get


def inside(package: str, homes: Mapping[str, str]) -> dict[str, tuple[str, str | None]]:
    """The homes of names that lie in modules of the package itself, each under its own name."""
    return {name: (f"{package}.{home}", name) for name, home in homes.items()}
