"""Rules that a row breaks by itself: required, finite, enum, range, check, the length of its id.

A row is looked at alone; nothing is read. Also the last guard for changes that did not come through a reader.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from omnigraph.core.limits import Limits
from omnigraph.schema.catalog import EdgeType, NodeType, Property, Range, ScalarKind, TableType
from omnigraph.schema.pattern import compile_pattern
from omnigraph.write.base import violations as v
from omnigraph.write.base.blocks import Block
from omnigraph.write.base.record_size import check_record_bytes
from omnigraph.write.base.rejects import Finding
from omnigraph.write.base.violations import Violation, show_value
from omnigraph.write.sources.pieces import null_rows
from omnigraph.write.values.cells import INTEGER_BOUNDS

pc: Any = pyarrow.compute
Mask = Any


class ValueRules:
    """All of them for one type."""

    def __init__(self, declared: TableType, limits: Limits) -> None:
        self._type = declared
        self._limits = limits
        self._enums = [p for p in declared.properties if p.type.enum is not None]
        self._floats = [p for p in declared.properties if p.type.scalar.is_float or p.type.scalar is ScalarKind.VECTOR]
        self._required = ["id"] + [p.name for p in declared.properties if not p.type.nullable]
        if isinstance(declared, EdgeType):
            self._required += ["src", "dst"]
        self._ranges = declared.ranges if isinstance(declared, NodeType) else ()
        self._checks = declared.checks if isinstance(declared, NodeType) else ()

    def feed(self, block: Block) -> Iterator[Finding]:
        batch = block.batch
        for name in self._required:
            rows = null_rows(batch.column(name))
            if len(rows):
                yield self._finding(block, name, rows, v.REQUIRED, lambda _: "is required")
        yield from self._long_ids(block)
        check_record_bytes(self._type, batch, self._limits)
        for prop in self._floats:
            yield from self._endless(block, prop)
        for prop in self._enums:
            yield from self._enum(block, prop)
        for bound in self._ranges:
            yield from self._range(block, bound)
        for check in self._checks:
            yield from self._check(block, check.property, check.pattern)

    def _finding(
        self,
        block: Block,
        name: str,
        rows: Any,
        code: str,
        reason: Callable[[Any], str],
        expected: str | None = None,
    ) -> Finding:
        def describe(row: int) -> Violation:
            value = block.batch.column(name)[row - block.first_row].as_py()
            id_text = block.batch.column("id")[row - block.first_row].as_py()
            return block.wording.row(
                row, code, reason(value), property=name, value=value, expected=expected, id=id_text
            )

        return Finding(rows + block.first_row, describe, property=name)

    def _masked(
        self, block: Block, name: str, mask: Mask, code: str, reason: Callable[[Any], str], expected: str | None = None
    ) -> Iterator[Finding]:
        if pc.any(mask).as_py():
            rows = np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))
            yield self._finding(block, name, rows, code, reason, expected)

    def _long_ids(self, block: Block) -> Iterator[Finding]:
        if block.minted is True:
            return
        bound = self._limits.id_bytes
        lengths = pc.binary_length(block.batch.column("id"))
        if (pc.max(lengths).as_py() or 0) > bound:
            mask = pc.greater(lengths, bound)
            yield from self._masked(block, "id", mask, v.ID_TOO_LONG, lambda _: f"is longer than {bound} bytes")

    def _endless(self, block: Block, prop: Property) -> Iterator[Finding]:
        column = block.batch.column(prop.name)
        if not prop.type.is_list and prop.type.scalar is not ScalarKind.VECTOR:
            finite = pc.is_finite(column)
            if not pc.all(finite, min_count=0).as_py():
                yield from self._masked(block, prop.name, pc.invert(finite), v.NOT_FINITE, _no_number, str(prop.type))
            return
        items = pc.list_flatten(column)
        if pc.all(pc.is_finite(items), min_count=0).as_py():
            return
        owners = pc.list_parent_indices(column).to_numpy(zero_copy_only=False)
        bad = np.flatnonzero(~pc.fill_null(pc.is_finite(items), True).to_numpy(zero_copy_only=False))
        yield self._finding(
            block, prop.name, np.unique(owners[bad]).astype(np.int64), v.NOT_FINITE, _no_number, str(prop.type)
        )

    def _enum(self, block: Block, prop: Property) -> Iterator[Finding]:
        allowed = prop.type.enum or ()
        column = block.batch.column(prop.name)
        items = pc.list_flatten(column) if prop.type.is_list else column
        inside = pc.is_in(items, value_set=pa.array(allowed, pa.utf8()), skip_nulls=True)
        wrong = pc.and_(pc.invert(inside), pc.is_valid(items))
        if not pc.any(wrong).as_py():
            return
        rows = np.flatnonzero(wrong.to_numpy(zero_copy_only=False))
        if prop.type.is_list:
            rows = np.unique(pc.list_parent_indices(column).to_numpy(zero_copy_only=False)[rows]).astype(np.int64)
        listed = ", ".join(allowed)
        yield self._finding(
            block, prop.name, rows, v.ENUM, lambda value: f"{show_value(value)} is not one of {listed}", str(prop.type)
        )

    def _range(self, block: Block, bound: Range) -> Iterator[Finding]:
        kind = self._type.property(bound.property).type.scalar
        column = block.batch.column(bound.property)
        for limit, below in ((bound.min, True), (bound.max, False)):
            if limit is None:
                continue
            mask = _beyond(kind, column, limit, below)
            sign, word = ("<", "min") if below else (">", "max")
            if mask is not None:
                yield from self._masked(
                    block,
                    bound.property,
                    mask,
                    v.RANGE,
                    _out_of(f"{sign} {word} {limit}"),
                    f"{'' if bound.min is None else bound.min}..{'' if bound.max is None else bound.max}",
                )

    def _check(self, block: Block, name: str, pattern: str) -> Iterator[Finding]:
        column = block.batch.column(name)
        try:
            matches = pc.match_substring_regex(column, pattern)
        except pa.ArrowException:
            # Arrow carries its own, perhaps older, RE2.
            search = compile_pattern(pattern).search
            texts = column.to_pylist()
            matches = pa.array([None if t is None else search(t) is not None for t in texts], pa.bool_())
        if pc.all(matches, min_count=0).as_py():
            return
        shown = show_value(pattern)
        yield from self._masked(
            block,
            name,
            pc.invert(matches),
            v.CHECK,
            lambda value: f"{show_value(value)} does not match {shown}",
            pattern[:80],
        )


def _out_of(bound: str) -> Callable[[Any], str]:
    return lambda value: f"{show_value(value)} is out of range: {bound}"


def _no_number(value: Any) -> str:
    return f"{show_value(value)} is not finite"


def _beyond(kind: ScalarKind, column: Any, limit: int | float, below: bool) -> Mask | None:
    """Rows beyond an inclusive bound, exactly; ``None`` if there can be none."""
    if kind.is_float:
        values = pc.cast(column, pa.float64())
        compare = pc.less if below else pc.greater
        # NaN is in no range.
        return pc.or_(compare(values, pa.scalar(float(limit), pa.float64())), pc.is_nan(values))
    low, high = INTEGER_BOUNDS[kind]
    if below:
        least = math.ceil(limit)
        if least <= low:
            return None
        return pc.is_valid(column) if least > high else pc.less(column, pa.scalar(least, column.type))
    most = math.floor(limit)
    if most >= high:
        return None
    return pc.is_valid(column) if most < low else pc.greater(column, pa.scalar(most, column.type))
