"""Names of a package that are imported when they are first used. A package that is missing is named with its extra."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def exports(package: str, homes: Mapping[str, tuple[str, str | None]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package. ``homes``: module and attribute by public name; None for the module itself.

    The engine has such a function too, which is no public name of it."""

    def get(name: str) -> Any:
        try:
            home, attribute = homes[name]
        except KeyError:
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
        try:
            module = import_module(home)
        except ModuleNotFoundError as error:
            from omnigraph_pipelines.extras import missing_extra

            raise missing_extra(f"{package}.{name}", error) from error
        value = module if attribute is None else getattr(module, attribute)
        setattr(sys.modules[package], name, value)
        return value

    return get
