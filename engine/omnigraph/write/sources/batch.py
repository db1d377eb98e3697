"""Inputs that are tables already: what a caller hands to ``load`` beside record streams.

Owns the two value types of the public interface. Reading them is the business of ``tables`` and ``files``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any


@dataclass(frozen=True)
class Batch:
    """Arrow tables, record batches or readers, per type. Edges carry their endpoints in columns ``from`` and ``to``.

    A reader is consumed by the load that it is given to.
    """

    nodes: Mapping[str, Any] = field(default_factory=dict)
    edges: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TableFile:
    """Files of one type, and where their columns go: ``columns`` maps a property, ``from`` or ``to`` to a source column."""

    paths: str | PathLike[str] | Sequence[str | PathLike[str]]
    columns: Mapping[str, str] = field(default_factory=dict)
