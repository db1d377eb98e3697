"""Words of a command line that need no conversion, taken as they are.

Typer converts each parameter, given or not, with a validator of pydantic that it builds for it. A command has thirty
parameters of which few are given, and most of those are texts: building the validators takes longer than an import of typer.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from types import EllipsisType
from typing import Any


def take_plain_values(command: Any) -> Any:
    """The same command of typer; its parameters leave to typer only what ``plain_value`` cannot tell."""
    of_typer = command.get_params

    def get_params(context: Any) -> list[Any]:
        parameters: list[Any] = of_typer(context)
        for parameter in parameters:
            if "process_value" not in vars(parameter):
                parameter.process_value = _quicker(parameter)
        return parameters

    command.get_params = get_params
    return command


def _quicker(parameter: Any) -> Callable[[Any, Any], Any]:
    of_typer = parameter.process_value

    def process_value(context: Any, value: Any) -> Any:
        plain = plain_value(parameter, value)
        if plain is ...:
            return of_typer(context, value)
        return plain if parameter.callback is None else parameter.callback(context, parameter, plain)

    return process_value


def plain_value(parameter: Any, value: Any) -> Any | EllipsisType:
    """What typer would make of the value, or ``...`` where typer has to be asked."""
    several = parameter.multiple or parameter.nargs == -1
    wanted = parameter.type_descriptor.annotation
    if value is None:
        return ... if parameter.required else () if several else None
    if several:
        texts = wanted == list[str] and type(value) in (list, tuple) and set(map(type, value)) == {str}
        return list(value) if texts else ...
    if wanted is str:
        return value if type(value) is str else ...
    if not isinstance(wanted, type):
        return ...
    if type(value) is wanted and value is parameter.default:
        return value
    if issubclass(wanted, StrEnum) and value in set(wanted):
        return wanted(value)
    return ...
