"""The schema of a component's attributes, made from the models of the settings.

An editor completes and describes what a graph file may say, and ``dg check yaml`` finds a wrong key with its line. Any value may
be a template, whatever its kind. What needs more than one value is checked when the component loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import GenericAlias, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from omnigraph_pipelines.setting_kinds import Part

Template = Annotated[str, Field(pattern=r"\{[{%]", description="A template, rendered when the component loads.")]

# An error of Dagster's prints the value that it is about. Whatever these are, the settings check them, which print no value.
_SECRET = frozenset({"storage_options", "conf"})


@cache
def schema_of(part: type[Part]) -> Any:
    """Return a model with the fields, kinds, bounds and descriptions of a part of a graph file.

    Parts and lists have one kind each: where there is a choice, a check of the YAML can only name the line of the whole.
    """
    fields: dict[str, Any] = {}
    for name, info in part.model_fields.items():
        kind: Any = Any if name in _SECRET else _with_templates(info.annotation)
        if info.metadata:
            kind = Annotated[(kind, *info.metadata)]
        if not _is_container(info.annotation) and kind is not Any:
            kind = kind | Template
        default: Any = ... if info.is_required() else None
        fields[name] = (kind, Field(default, description=info.description, alias=info.alias))
    config = ConfigDict(extra="forbid", strict=True, populate_by_name=True, title=part.__name__)
    return create_model(f"{part.__name__}Attributes", __config__=config, __doc__=part.__doc__, **fields)


def _is_container(kind: Any) -> bool:
    """Return whether a value of the kind is a mapping or a list in YAML."""
    kind = _without_none(kind)
    return get_origin(kind) in (tuple, dict) or (isinstance(kind, type) and issubclass(kind, Part))


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        left = [one for one in get_args(kind) if one is not type(None)]
        return left[0] if len(left) == 1 else kind
    return kind


def _with_templates(kind: Any) -> Any:
    """Return a kind with its parts replaced by their schemas; sequences are lists, as in YAML."""
    if _is_container(kind):
        kind = _without_none(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Part):
        return schema_of(kind)
    if origin is Annotated:
        return Annotated[(_with_templates(arguments[0]), *arguments[1:])]
    if origin in (Union, UnionType):
        return Union[tuple(_with_templates(one) for one in arguments)]  # noqa: UP007  # built from a list
    if origin is tuple:
        return GenericAlias(list, (_item(arguments[0]),))
    if origin is dict:
        return GenericAlias(dict, (arguments[0], _item(arguments[1])))
    return kind


def _item(kind: Any) -> Any:
    found = _with_templates(kind)
    return found if _is_container(kind) else found | Template


def with_parts(component: Any, base: type[BaseModel], parts: Mapping[str, Any]) -> type[BaseModel]:
    """Return the model that Dagster derives from a component, with the schemas of these fields in place of its own, and with
    the descriptions of all: Dagster drops those of fields that have a default."""
    fields: dict[str, Any] = {}
    for name, info in base.model_fields.items():
        kind = parts.get(name, info.annotation)
        default = ... if info.is_required() else info.default
        fields[name] = (kind, Field(default, description=component.model_fields[name].description))
    as_method: Any = classmethod(_without_values)
    hidden: Any = model_validator(mode="wrap")(as_method)
    found = create_model(base.__name__, __base__=base, __validators__={"without_values": hidden}, **fields)
    found.model_config["json_schema_extra"] = base.model_config.get("json_schema_extra")
    return found


class _Hidden:
    def __repr__(self) -> str:
        return "(not shown)"


def _without_values(_: type[BaseModel], value: Any, handler: Any) -> Any:
    """Check a value; complaints print words and numbers only, and none below a key that is not known.

    A key that is missing or has a typing error is complained of with all that stands beside it or below it, credentials too.
    """
    try:
        return handler(value)
    except ValidationError as error:
        found: list[Any] = []
        for one in error.errors(include_url=False):
            shows = isinstance(one["input"], str | int | float | bool) and one["type"] != "extra_forbidden"
            found.append(one if shows else {**one, "input": _Hidden()})
        raise ValidationError.from_exception_data(error.title, found) from None


def given_in(value: Any) -> Any:
    """Return what the YAML says, without what it leaves out."""
    return value.model_dump(exclude_unset=True, by_alias=True) if isinstance(value, BaseModel) else value
