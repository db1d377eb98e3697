"""Words of a command line that are taken as they are come to what typer makes of them."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from typer.core import TyperCommand

from omnigraph.cli import app, tree
from omnigraph.cli.plain_values import plain_value

WORDS = (
    "",
    "main",
    "append",
    "APPEND",
    "quarantine",
    "0",
    "1.5",
    "-1",
    "nan",
    "true",
    "ä",
    "\udcff",
    "a=b",
    "none",
    "commit",
)


def commands() -> list[Any]:
    return [app._command(command) for command in tree.COMMANDS]


def by_typer(parameter: Any, value: Any) -> Any:
    context: Any = typer.Context(TyperCommand("any"))
    return type(parameter).process_value(parameter, context, value)


def values_for(parameter: Any) -> list[Any]:
    found: list[Any] = [None, parameter.default, *WORDS]
    if parameter.multiple or parameter.nargs == -1:
        found += [(), [], ("main",), ["a", "b"], ("1", "x"), (1, 2)]
    return found


@pytest.mark.parametrize("command", commands(), ids=lambda command: command.name)
def test_a_plain_value_is_what_typer_makes_of_it(command: Any) -> None:
    taken = 0
    for parameter in command.params:
        callback, parameter.callback = parameter.callback, None
        try:
            for value in values_for(parameter):
                plain = plain_value(parameter, value)
                if plain is ...:
                    continue
                taken += 1
                made = by_typer(parameter, value)
                assert plain == made and type(plain) is type(made), (parameter.name, value)
        finally:
            parameter.callback = callback
    assert taken > len(command.params)


def test_what_has_to_be_converted_or_refused_is_left_to_typer() -> None:
    parameters = {one.name: one for one in app._command(tree.find("load")).params}  # type: ignore[arg-type]
    assert plain_value(parameters["deadline"], "5") is ...
    assert plain_value(parameters["deadline"], parameters["deadline"].default) == parameters["deadline"].default
    assert plain_value(parameters["mode"], "appendix") is ...
    assert plain_value(parameters["mode"], None) is ...  # it is required
    assert plain_value(parameters["quarantine_to"], "file") is ...
    assert plain_value(parameters["null"], ("a", 1)) is ...
