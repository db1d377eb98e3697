"""The command line ``omnigraph``: arguments in, one façade call, a result out.

Owns argument names, exit codes, prompts and rendering; holds no logic of the graph. The only place that imports typer and
rich, and the only one that prints. Importing this package loads neither: ``main`` does, and says what to install where
they are missing.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

_COLLECT_AFTER = 100_000  # objects made


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. The console script calls this."""
    import os
    import sys

    # Arguments are UTF-8 whatever the locale says; what is not stays marked and is refused where text is needed.
    given = [os.fsencode(text).decode("utf-8", "surrogateescape") for text in sys.argv[1:]] if argv is None else [*argv]
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        return _without_packages(given, error.name or "typer")
    if argv is None:
        _start_quickly()
    from omnigraph.cli.app import run

    code = run(given)
    if argv is None:
        _end_quickly()
    return code


def _start_quickly() -> None:
    """Leave out what starting a process pays for and no command uses. Only for the program itself: a caller of ``main`` in
    Python keeps its modules and its collector.

    Arrow imports pandas where it is installed, which takes longer than most commands, and takes the docstrings of a hundred
    option classes apart to write those of its functions. Numpy starts threads for linear algebra. Pydantic reads the metadata of
    every installed package in search of plugins, and so does OpenTelemetry, whose figures go nowhere unless a variable configures
    it or a program that was started before has set it up. And the collector would pass over the objects of hundreds of modules,
    again and again, while they are made.
    """
    import gc
    import os
    import sys
    from types import ModuleType

    hidden = {"pandas"}
    if "opentelemetry" not in sys.modules and not any(name.startswith("OTEL_") for name in os.environ):
        hidden.add("opentelemetry")
    sys.meta_path.insert(0, _Hidden(hidden))
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    undocumented: Any = ModuleType("pyarrow.vendored.docscrape")
    undocumented.NumpyDocString = lambda text: {"Parameters": ()}
    sys.modules.setdefault("pyarrow.vendored.docscrape", undocumented)
    gc.set_threshold(_COLLECT_AFTER, *gc.get_threshold()[1:])


def _end_quickly() -> None:
    """Keep the interpreter from looking for garbage, several times, among everything that it is about to give back at once. What
    has to be closed is closed by now. DuckDB complains of what lives longer than that search, so where it was used it is made.
    """
    import gc
    import sys

    if "duckdb" not in sys.modules:
        gc.freeze()


class _Hidden:
    """Finds packages missing. (None in ``sys.modules`` would say the same, but compiled importers take that for a module.)"""

    def __init__(self, names: Set[str]) -> None:
        self._names = names

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in self._names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _without_packages(given: Sequence[str], package: str) -> int:
    import json
    import sys

    from omnigraph.core.errors import MissingExtra

    error = MissingExtra(
        f"the command line needs a package that is not installed: {package}",
        hint="run `pip install 'omnigraph-pipelines[cli]'`",
        extra="cli",
    )
    if "--json" in given:
        print(json.dumps({"schema_version": 1, "ok": False, "error": error.to_dict()}, indent=2))
    print(f"error[{error.code}]: {error.message}\nhint: {error.hint}", file=sys.stderr)
    return error.exit_code
