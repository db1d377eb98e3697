"""Inputs that are tables already: what a caller hands to ``load`` beside record streams.

Owns the value types of the public interface. Reading them is the business of ``tables`` and ``files``.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Final, Literal, get_args

from omnigraph.core.errors import InvalidInput
from omnigraph.core.shown import value_shown

Decimals = Literal["exact", "round"]
DECIMALS: Final[tuple[Decimals, ...]] = get_args(Decimals)


@dataclass(frozen=True)
class Batch:
    """Arrow tables, record batches or readers, per type. Edges carry their endpoints in columns ``from`` and ``to``.

    A reader is consumed by the load that it is given to.
    """

    nodes: Mapping[str, Any] = field(default_factory=dict)
    edges: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("nodes", "edges"):
            if not _is_mapping(getattr(self, name)):
                raise InvalidInput(
                    f"{name} is a mapping from types to tables, not {type(getattr(self, name)).__name__}",
                    hint=f'for example og.Batch({name}={{"TYPE": table}})',
                )


@dataclass(frozen=True, kw_only=True)
class CsvOptions:
    """How a CSV file is written.

    ``nulls``: texts that mean null where they stand without quotes; nothing at all always does. ``header=False``: columns
    are named ``1``, ``2``, … from the left. ``formats`` maps a column to the ``strptime`` format of its dates or times, or
    to ``epoch-s`` or ``epoch-ms``.
    """

    delimiter: str = ","
    quote: str = '"'
    encoding: str = "utf-8"
    nulls: Sequence[str] = ()
    header: bool = True
    formats: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("delimiter", "quote"):
            _check_character(name, getattr(self, name))
        if self.delimiter == self.quote:
            raise InvalidInput(f"the delimiter and the quote of a CSV file are both {self.quote!r}")
        try:
            codecs.lookup(self.encoding)
        except (LookupError, TypeError, ValueError):
            raise InvalidInput(
                f"no such encoding of texts: {value_shown(self.encoding, 40)}",
                hint="for example utf-8, latin-1 or utf-16",
            ) from None
        if isinstance(self.nulls, str) or not _are_texts(self.nulls):
            raise InvalidInput("nulls is a list of texts", hint='for example nulls=["NA", "\\\\N"]')
        if not _is_bool(self.header):
            raise InvalidInput(f"header is True or False, not {value_shown(self.header, 40)}")
        if not _is_mapping_of_texts(self.formats):
            raise InvalidInput("formats maps a column to a format", hint='for example formats={"born": "%d.%m.%Y"}')


# Callers are not always checked by types: what a field promises is asked once more.
def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _is_mapping_of_texts(value: Any) -> bool:
    return isinstance(value, Mapping) and _are_texts([*value, *value.values()])


def _are_texts(values: Any) -> bool:
    return isinstance(values, Sequence) and all(isinstance(value, str) for value in values)


def _check_character(name: str, value: object) -> None:
    text = value if isinstance(value, str) else ""
    if len(text) != 1 or not text.isascii() or text in "\r\n":
        raise InvalidInput(
            f"the {name} of a CSV file is one ASCII character, not {value_shown(value, 20)}",
            hint='for example ";" or "\\t"',
        )


@dataclass(frozen=True)
class TableFile:
    """Files of one type, and how they are read.

    ``columns`` maps a property, ``from`` or ``to`` to a source column; columns of ``skip`` are left out. ``decimals``: what
    happens to a decimal of Parquet with more digits than the property's number holds. ``exact`` refuses the row; ``round``
    takes the nearest number, and the receipt has a warning.
    """

    paths: str | PathLike[str] | Sequence[str | PathLike[str]]
    columns: Mapping[str, str] = field(default_factory=dict)
    skip: Sequence[str] = ()
    csv: CsvOptions = CsvOptions()
    decimals: Decimals = "exact"

    def __post_init__(self) -> None:
        paths: Any = self.paths
        if not isinstance(paths, str | PathLike) and not (
            isinstance(paths, Sequence) and all(isinstance(one, str | PathLike) for one in paths)
        ):
            raise InvalidInput(f"paths is a path or a list of paths, not {type(paths).__name__}")
        if not _is_mapping_of_texts(self.columns):
            raise InvalidInput("columns maps a property to a column", hint='for example columns={"name": "full_name"}')
        if self.decimals not in DECIMALS:
            raise InvalidInput(f"decimals is one of {', '.join(DECIMALS)}, not {value_shown(self.decimals, 40)}")
        if isinstance(self.skip, str) or not _are_texts(self.skip):
            raise InvalidInput("skip is a list of columns", hint='for example skip=["comment"]')
        if not isinstance(self.csv, CsvOptions):
            raise InvalidInput(f"csv takes CsvOptions, not {type(self.csv).__name__}", hint="pass og.CsvOptions(…)")
