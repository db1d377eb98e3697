"""JSON schema of models, made from their type hints. Used to publish the schema; no command imports this module."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from omnigraph.wire.model import ABSENT, AtLeast, members

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


class Definitions:
    """Schemas of models by their names, each made once. Two models of one name are a mistake of the declarations."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, Any]] = {}
        self._kinds: dict[str, type] = {}

    def ref(self, kind: type) -> dict[str, Any]:
        """A reference to the schema of ``kind``, which is made if it is not there yet."""
        name = kind.__name__
        if self._kinds.setdefault(name, kind) is not kind:
            raise ValueError(f"two models have the name {name}: {kind.__module__}, {self._kinds[name].__module__}")
        if name not in self.made:
            self.made[name] = {}  # a model may have members of its own kind
            self.made[name] = self._object(kind)
        return {"$ref": f"#/$defs/{name}"}

    def _object(self, kind: type) -> dict[str, Any]:
        shown = {name: self.of(hint) for name, hint, _ in members_of(kind)}
        found: dict[str, Any] = {
            "additionalProperties": bool(getattr(kind, "open_ended", False)),
            "properties": shown,
            "required": [name for name, _, required in members_of(kind) if required],
            "type": "object",
        }
        said = kind.__dict__.get("__doc__")
        if said and not said.startswith(f"{kind.__name__}("):
            found = {"description": _first_sentence(inspect.cleandoc(said)), **found}
        return found

    def of(self, hint: Any) -> dict[str, Any]:
        """The schema of values that a hint describes."""
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            least = next((one.least for one in arguments[1:] if isinstance(one, AtLeast)), None)
            return self.of(arguments[0]) if least is None else {**self.of(arguments[0]), "minimum": least}
        if origin is Literal:
            return _literal(arguments)
        if origin in (Union, UnionType):
            choices = [self.of(one) for one in arguments]
            if all(choice.keys() == {"type"} for choice in choices):
                return {"type": [choice["type"] for choice in choices]}
            return {"anyOf": choices}
        if hint is Any or hint is object:
            return {}
        if hint in _PLAIN:
            return {"type": _PLAIN[hint]}
        if hint is datetime:
            return {"type": "string", "format": "date-time"}
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(arguments[1]) or True}
        if origin is tuple and arguments[-1] is not Ellipsis:
            shown = [self.of(one) for one in arguments]
            return {"type": "array", "prefixItems": shown, "minItems": len(shown), "maxItems": len(shown)}
        if isinstance(origin, type) and issubclass(origin, Sequence):
            return {"type": "array", "items": self.of(arguments[0])}
        if isinstance(hint, type) and is_dataclass(hint):
            return self.ref(hint)
        raise TypeError(f"no JSON schema for {hint!r}")


def members_of(kind: type) -> list[tuple[str, Any, bool]]:
    """Members of a model's document: name, type hint, and whether it is always there."""
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for name, attribute, wire in members(kind):
        hint = hints.get(attribute)
        if hint is None:
            getter = inspect.getattr_static(kind, attribute).fget
            hint = get_type_hints(getter, include_extras=True)["return"]
        found.append((name, hint, wire != ABSENT["wire"]))
    return found


def document(ok: bool, member: str, content: dict[str, Any], version: int) -> dict[str, Any]:
    """The one document that a command prints around ``content``."""
    return {
        "type": "object",
        "properties": {"schema_version": {"const": version}, "ok": {"const": ok}, member: content},
        "required": ["schema_version", "ok", member],
        "additionalProperties": False,
    }


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0].removesuffix(".") + "."


def _literal(values: tuple[Any, ...]) -> dict[str, Any]:
    kinds = {_PLAIN[type(value)] for value in values}
    shown: dict[str, Any] = {"const": values[0]} if len(values) == 1 else {"enum": list(values)}
    return {**shown, "type": kinds.pop()} if len(kinds) == 1 else shown
