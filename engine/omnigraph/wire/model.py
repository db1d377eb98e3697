"""The base of every model, and the one way from a value to what JSON can hold."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Self, cast

from omnigraph.core.shown import Shown

# Metadata of fields: which documents leave out where they are None, and which only programs in Python see.
ABSENT: Final[Mapping[str, str]] = {"wire": "absent"}
INSIDE: Final[Mapping[str, str]] = {"wire": "inside"}


@dataclass(frozen=True)
class AtLeast:
    """The smallest value that a number may have."""

    least: int


Count = Annotated[int, AtLeast(0)]


class Model(Shown):
    """Base of dataclasses whose members are their fields, in their order, and then the properties named in ``derived``."""

    derived: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """The members as plain JSON values."""
        found = {}
        for name, attribute, wire in members(cast(Any, type(self))):
            value = getattr(self, attribute)
            if value is not None or wire != ABSENT["wire"]:
                found[name] = plain(value)
        return found

    @classmethod
    def extending(cls, base: Model, **more: Any) -> Self:
        """The document that has the fields of ``base``, and ``more``."""
        return cls(**{item.name: getattr(base, item.name) for item in fields(cast(Any, base))}, **more)


@cache
def members(kind: type) -> tuple[tuple[str, str, str | None], ...]:
    """Name in documents, name in Python and mark of every member that documents have. A field may be called otherwise by
    ``metadata={"name": …}``: where its name is a word of Python."""
    own = [(item.metadata.get("name", item.name), item.name, item.metadata.get("wire")) for item in fields(kind)]
    derived = [(name, name, None) for name in getattr(kind, "derived", ())]
    return tuple(one for one in [*own, *derived] if one[2] != INSIDE["wire"])


def plain(value: Any) -> Any:
    """A value as JSON holds it."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    to_dict = getattr(value, "to_dict", None)
    if to_dict is not None:
        return to_dict()
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, AbstractSet):
        return [plain(one) for one in sorted(value)]
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, bytes | bytearray):
        return "base64:" + base64.b64encode(value).decode()
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if isoformat is not None else str(value)
