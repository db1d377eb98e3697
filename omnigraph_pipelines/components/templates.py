"""Templates in the attributes of a component. A value that is no template stays what the YAML says.

Dagster's own rendering turns a text of digits into a number, wherever it comes from. Here an expression alone keeps the kind that
it has, so ``{{ env.KEY_ID }}`` is a text, and an expression within a text gives a text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import omnigraph as og

_ALONE: Final = re.compile(r"\s*\{\{((?:(?!\}\}).)*)\}\}\s*", re.DOTALL)


def rendered(value: Any, scope: Mapping[str, Any], at: tuple[str | int, ...] = ()) -> Any:
    """Return a value of the YAML with its templates filled in. ``at``: its place, for the message."""
    if isinstance(value, Mapping):
        return {key: rendered(one, scope, (*at, key)) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rendered(one, scope, (*at, number)) for number, one in enumerate(value)]
    if not isinstance(value, str) or not ("{{" in value or "{%" in value):
        return value
    from jinja2 import Environment, StrictUndefined, TemplateError

    made = Environment(undefined=StrictUndefined, autoescape=False)
    alone = _ALONE.fullmatch(value)
    where = ".".join(str(one) for one in at)
    try:
        if alone is None:
            return made.from_string(value).render(**scope)
        found = made.compile_expression(alone.group(1), undefined_to_none=False)(**scope)
    except og.errors.OmnigraphError:
        raise
    except (TemplateError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise _failed(where, f"{type(error).__name__}: {error}") from None
    except Exception as error:  # Dagster's scopes raise errors of their own, such as for a variable that is not set
        raise _failed(where, str(error)) from error
    if isinstance(found, StrictUndefined):
        raise _failed(where, found._undefined_message)
    return found


def _failed(where: str, reason: str) -> og.errors.InvalidInput:
    return og.errors.InvalidInput(
        f"{where}: the template cannot be filled in: {' '.join(reason.split())[:300]}",
        hint="check the names in the template; `env.NAME` needs the variable in the environment of the process that loads this",
        path=where,
    )
