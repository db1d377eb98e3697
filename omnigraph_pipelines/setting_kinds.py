"""What every part of a graph file is made of: names, durations, values that may come from the environment."""

from __future__ import annotations

import os
import re
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

import omnigraph as og

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
SETTLE_S: Final = 10.0
"""A listing without a marker is complete when it was the same at two ticks this far apart."""


def _name(value: str) -> str:
    if not NAME.match(value) or len(value) > 64:
        raise ValueError("a name has letters, digits and _, at most 64, and does not begin with a digit")
    return value


def _duration(value: str) -> str:
    if not re.fullmatch(r"\d+\s*[smhdw]", value):
        raise ValueError("a duration is a number and one of s, m, h, d, w, such as '7d'")
    return value


def _cron(value: str) -> str:
    if len(value.split()) != 5:
        raise ValueError("a cron expression has five fields, such as '0 2 * * *'")
    return value


Name = Annotated[str, AfterValidator(_name)]
Duration = Annotated[str, AfterValidator(_duration)]
Cron = Annotated[str, AfterValidator(_cron)]
Count = Annotated[int, Field(ge=1)]


class Part(BaseModel):
    """Base of every part of the file."""

    # The text below a field describes it, here and in the schema of the components.
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, populate_by_name=True, use_attribute_docstrings=True
    )


class EnvRef(Part):
    """The value of an environment variable, read when a run needs it and never shown."""

    env: str
    """Name of an environment variable."""

    def value(self) -> str:
        found = os.environ.get(self.env)
        if found is None:
            raise og.errors.InvalidInput(
                f"the environment variable {self.env} is not set",
                hint=f"set {self.env} for the process that runs this",
                variable=self.env,
            )
        return found


Text = str | EnvRef


def text_of(value: Text) -> str:
    return value.value() if isinstance(value, EnvRef) else value
