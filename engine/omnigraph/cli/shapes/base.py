"""What all shapes have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
