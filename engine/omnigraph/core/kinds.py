"""Arguments of public calls against the annotations of their parameters: a wrong kind is ``InvalidInput`` before anything is done.

Owns what an annotation accepts. Values (a name that exists, a number in range) are for the called to check. Annotations are read
as text, because some name classes that are imported for type checkers only: such a class is known by its name.
"""

from __future__ import annotations

import ast
import functools
import inspect
import numbers
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike
from typing import Any, Final, TypeVar

from omnigraph.core.errors import InvalidInput

_F = TypeVar("_F", bound=Callable[..., Any])
_C = TypeVar("_C", bound=type)

_SHOWN_CHARS: Final = 80

# Texts of a language: its own reader names the line of what is wrong.
_LANGUAGES: Final = frozenset({"new", "query", "schema", "text"})
# Records as a text: what is wrong with one is said of its line.
_RECORDS: Final = "source"

# Names for annotations that are no classes.
_ALIASES: Final = {
    "Clock": "Any",  # these three: whatever has the methods
    "Destination": "str | PathLike | TextIO | BinaryIO",
    "Listener": "Callable",
    "Params": "Sequence[Any] | Mapping[str, Any]",
    "Exchange": "Any",
    "Staged": "StagedFragments | Iterable[StagedFragments]",
    "Workers": "Any",
}


@dataclass(frozen=True)
class Kind:
    """What a parameter accepts. ``what``: for people, after "is"."""

    what: str
    accepts: Callable[[object], bool]
    item: Kind | None = None  # of a list: what each of its items has to be


def _text(value: object) -> bool:
    return isinstance(value, str)


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_named(value: object, name: str) -> bool:
    return name in {one.__name__ for one in type(value).__mro__}


_SIMPLE: Final[dict[str, Kind]] = {
    "str": Kind("a text", _text),
    "int": Kind("a whole number", _is_whole),
    "float": Kind("a number", _is_real),
    "bool": Kind("True or False", lambda value: isinstance(value, bool)),
    "bytes": Kind("bytes", lambda value: isinstance(value, bytes | bytearray | memoryview)),
    "None": Kind("None", lambda value: value is None),
    "Path": Kind("a path", lambda value: isinstance(value, PathLike)),
    "PathLike": Kind("a path", lambda value: isinstance(value, PathLike)),
    "timedelta": Kind("a timedelta", lambda value: isinstance(value, timedelta)),
    "Expression": Kind("an expression of pyarrow", lambda value: _is_named(value, "Expression")),
    "Callable": Kind("a function", callable),
    "TextIO": Kind("an open file", lambda value: callable(getattr(value, "write", None))),
    "BinaryIO": Kind("an open file", lambda value: callable(getattr(value, "write", None))),
}
_ANYTHING: Final = frozenset({"Any", "object", "Self"})
# Any other name may be an alias or a protocol, which no value has for its class: the called checks it.
_CLASSES: Final = frozenset(
    {
        "Catalog",
        "CheckReport",
        "CleanupPlan",
        "Limits",
        "LoadOptions",
        "PartsReport",
        "RecordBatch",
        "CompactionResult",
        "SchemaPlan",
        "StagedFragments",
        "StagedPart",
        "StagingTxn",
        "Table",
    }
)


def kind_of(annotation: str) -> Kind | None:
    """Return what an annotation accepts; None if that is anything."""
    return _kind(ast.parse(annotation, mode="eval").body)


def _kind(node: ast.expr) -> Kind | None:
    if isinstance(node, ast.BinOp):
        return _either(_kind(node.left), _kind(node.right))
    if isinstance(node, ast.Constant):
        return _SIMPLE["None"] if node.value is None else kind_of(str(node.value))
    if isinstance(node, ast.Subscript):
        return _generic(node)
    name = node.attr if isinstance(node, ast.Attribute) else ast.unparse(node)
    if name in _ALIASES:
        return kind_of(_ALIASES[name])
    if name in _ANYTHING:
        return None
    if name in _CLASSES:
        return Kind(f"a {name}", lambda value: _is_named(value, name))
    return _SIMPLE.get(name)


def _either(left: Kind | None, right: Kind | None) -> Kind | None:
    if left is None or right is None:
        return None
    what = f"{left.what} or {right.what}"
    return Kind(what, lambda value: left.accepts(value) or right.accepts(value), left.item or right.item)


def _generic(node: ast.Subscript) -> Kind | None:
    outer = ast.unparse(node.value).rpartition(".")[2]
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if outer == "Literal":
        choices = [ast.literal_eval(one) for one in inner]
        return Kind(f"one of {', '.join(map(repr, choices))}", lambda value: value in choices)
    if outer in ("Mapping", "dict"):
        return _mapping(_kind(inner[0]), _kind(inner[1]))
    if outer in ("Sequence", "Iterable", "list", "tuple"):
        return _items(outer, _kind(inner[0]))
    return kind_of(outer)


def _mapping(key: Kind | None, value: Kind | None) -> Kind:
    def accepts(given: object) -> bool:
        return isinstance(given, Mapping) and all(
            (key is None or key.accepts(one)) and (value is None or value.accepts(of)) for one, of in given.items()
        )

    inside = "" if key is None or value is None else f" from {key.what} to {value.what}"
    return Kind(f"a mapping{inside}", accepts)


def _items(outer: str, item: Kind | None) -> Kind:
    """A text is a sequence of texts for Python, and a slip here: its letters are never meant."""
    wanted: type = Iterable if outer == "Iterable" else Sequence

    def accepts(given: object) -> bool:
        if isinstance(given, str | bytes) or not isinstance(given, wanted):
            return False
        # To look into an iterator is to use it up: it is checked as it is read.
        return item is None or not isinstance(given, Collection) or all(map(item.accepts, given))

    return Kind("a list" if item is None else f"a list, each {item.what}", accepts, item)


# --- calls --------------------------------------------------------------------------------------------------------------


def check_kind(name: str, value: object, kind: Kind) -> object:
    """Return ``value``, an iterator as one that checks its items. Raise ``InvalidInput`` unless ``kind`` accepts it, and for texts
    that cannot be stored."""
    if not kind.accepts(value):
        raise InvalidInput(
            f"{name} is {kind.what}, not {_shown(value)}",
            hint=f"pass {name} as {kind.what}",
            parameter=name,
        )
    check_text(name, value)
    if kind.item is not None and isinstance(value, Iterator):
        return _items_checked(name, value, kind.item)
    return value


def check_text(name: str, value: object) -> None:
    """Raise ``InvalidInput`` for a text that cannot be stored: no name and no row can have it."""
    if isinstance(value, str) and name not in _LANGUAGES and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"{name} is not valid Unicode: a surrogate stands alone at position {error.start}",
                hint="decode the text as UTF-8 before passing it",
                parameter=name,
            ) from error


def _items_checked(name: str, items: Iterable[object], kind: Kind) -> Iterator[object]:
    for item in items:
        yield check_kind(f"an item of {name}", item, kind)


def _checked(name: str, value: object, kind: Kind | None) -> object:
    if kind is not None:
        return check_kind(name, value, kind)
    if name != _RECORDS:
        check_text(name, value)
    return value


def _shown(value: object) -> str:
    """The value itself only where it can be no secret: options of a store hold credentials."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)[:_SHOWN_CHARS]
    return type(value).__name__


def parameters_of(function: Callable[..., Any]) -> dict[str, Kind | None]:
    """Return what each parameter of a function accepts, in their order."""
    found: dict[str, Kind | None] = {}
    for parameter in inspect.signature(function).parameters.values():
        written = parameter.annotation
        found[parameter.name] = kind_of(written) if isinstance(written, str) else None
    return found


def kinds_checked(function: _F) -> _F:
    """Check the arguments of a function. Its annotations are read at the first call."""
    known: dict[str, Kind | None] = {}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not known:
            known.update(parameters_of(function))
        given = list(args)
        for place, (name, kind) in enumerate(list(known.items())[: len(given)]):
            given[place] = _checked(name, given[place], kind)
        for name, value in kwargs.items():
            kwargs[name] = _checked(name, value, known.get(name))
        return function(*given, **kwargs)

    return call  # type: ignore[return-value]  # the same call, looked at before


def methods_checked(cls: _C) -> _C:
    """Check the arguments of all public methods of a class."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and name != "__getitem__":
            continue
        if inspect.isfunction(member):
            setattr(cls, name, kinds_checked(member))
        elif isinstance(member, classmethod):
            setattr(cls, name, classmethod(kinds_checked(member.__func__)))
    return cls
