"""What becomes of edges with an end that does not exist, and the stubs that are made for such ends.

Owns the policy and what a stub is: a node with its key, true in the property that ``@stub`` names, and null elsewhere. A stub obeys
the rules of values like any row; an id of which no row can be made is a missing end like any other. Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute

from omnigraph.core.errors import InvalidInput
from omnigraph.core.limits import DEFAULT_LIMITS, Limits
from omnigraph.options import LoadOptions
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, ScalarKind
from omnigraph.schema.keytext import key_values
from omnigraph.table.arrays import one_array, positions
from omnigraph.write.base import violations as v
from omnigraph.write.base.blocks import Block
from omnigraph.write.base.rejects import Finding, Missing
from omnigraph.write.base.wording import NOWHERE, Wording
from omnigraph.write.rules.value_rules import ValueRules

pc: Any = pyarrow.compute

_NEVER_LEAVE: Final = frozenset({v.CARD_MIN, v.ORPHAN, v.STUB})


@dataclass(frozen=True)
class EndpointPolicy:
    """``sets_aside``: whether bad rows are left out at all. ``given``: an action for all edge types, or one by edge type."""

    sets_aside: bool = True
    given: str | Mapping[str, str] | None = None

    def action(self, edge: str) -> str:
        """What becomes of an edge of this type: fail, quarantine, drop or stub."""
        given = self.given if isinstance(self.given, str | None) else self.given.get(edge)
        return given if given is not None else self.otherwise

    @property
    def otherwise(self) -> str:
        """What becomes of rows that are bad in another way."""
        return "quarantine" if self.sets_aside else "fail"

    def of_missing(self, edge: str) -> str:
        """What becomes of an edge whose end does not exist and is not made as a stub."""
        action = self.action(edge)
        return self.otherwise if action == "stub" else action

    def leaves(self, table_key: str, code: str) -> bool:
        """Whether rows of which this is said leave the input."""
        if code in _NEVER_LEAVE:
            return False
        if code == v.ENDPOINT:
            return self.of_missing(table_key.removeprefix("edge:")) != "fail"
        return self.sets_aside

    def stub_tables(self, catalog: Catalog, keys: Iterable[str]) -> frozenset[str]:
        """Table keys of node types of which edges of these tables may make stubs."""
        return frozenset(node.table_key for key in keys for node in _stubs_of(self, catalog, key))


def policy_of(options: LoadOptions, catalog: Catalog, keys: Iterable[str]) -> EndpointPolicy:
    """Return the policy of a load of these tables. Raises ``InvalidInput`` for what the schema does not allow."""
    given = options.on_missing_endpoint
    policy = EndpointPolicy(options.sets_aside, given)
    named = [given] if given is None or isinstance(given, str) else sorted(given)
    if not isinstance(given, str | None):
        for name in named:
            if name not in catalog.edges:
                raise InvalidInput(
                    f"on_missing_endpoint names {str(name)[:80]!r}, which is no edge type",
                    hint=f"edge types: {', '.join(sorted(catalog.edges))[:200] or 'none'}",
                )
    edges = {key.removeprefix("edge:") for key in keys if key.startswith("edge:")}
    if not isinstance(given, str | None):
        edges |= set(given)
    for name in sorted(edges & set(catalog.edges)):
        if policy.action(name) == "stub" and not _stubs_of(policy, catalog, f"edge:{name}"):
            edge = catalog.edges[name]
            ends = " and ".join(dict.fromkeys((edge.src_type, edge.dst_type)))
            raise InvalidInput(
                f"on_missing_endpoint of {name} is stub, and {ends} allow no stubs: a node type needs @stub(p) and no "
                "required property besides its key",
                hint=f"declare @stub on {ends}, or choose drop, quarantine or fail for {name}",
                edge=name,
            )
    return policy


def _stubs_of(policy: EndpointPolicy, catalog: Catalog, key: str) -> list[NodeType]:
    edge = catalog.edges.get(key.removeprefix("edge:")) if key.startswith("edge:") else None
    if edge is None or policy.action(edge.name) != "stub":
        return []
    nodes = [catalog.node(name) for name in dict.fromkeys((edge.src_type, edge.dst_type))]
    return [node for node in nodes if node.stub is not None]


@dataclass(frozen=True)
class StubRules:
    """Which missing ends stubs can be made for. Picklable."""

    catalog: Catalog
    policy: EndpointPolicy
    limits: Limits = DEFAULT_LIMITS

    def split(self, edge: EdgeType, finding: Finding) -> tuple[Finding | None, Finding | None]:
        """The edges that will refer to a stub, and those whose end stays missing."""
        missing = finding.missing
        node = None if missing is None else self.catalog.node(missing.node)
        if missing is None or node is None or node.stub is None or self.policy.action(edge.name) != "stub":
            return None, finding
        ids = pc.unique(missing.ids)
        made = stub_rows(node, ids, self.limits)
        if made.num_rows == len(ids):
            return finding, None
        can = pc.is_in(missing.ids, value_set=made.column("id")).to_numpy(zero_copy_only=False)
        return _part(finding, missing, np.flatnonzero(can)), _part(finding, missing, np.flatnonzero(~can))


def _part(finding: Finding, missing: Missing, at: Any) -> Finding | None:
    if not len(at):
        return None
    return replace(finding, rows=finding.rows[at], missing=replace(missing, ids=missing.ids.take(positions(at))))


def stub_rows(node: NodeType, ids: pa.Array[Any], limits: Limits = DEFAULT_LIMITS) -> pa.RecordBatch:
    """Return stubs for those of the ids, which are distinct, of which a row of the type can be made."""
    names = node.key or ()
    columns: dict[str, Any] = {}
    if len(names) == 1 and node.property(names[0]).type.scalar is ScalarKind.STRING:
        columns[names[0]] = ids
    else:
        values = [key_values(node, str(text)) for text in ids.to_pylist()]
        good = [at for at, one in enumerate(values) if one is not None]
        ids = ids.take(positions(np.array(good, dtype=np.int64)))
        schema = table_schema(node)
        for at, name in enumerate(names):
            columns[name] = pa.array([one[at] for one in values if one is not None], schema.field(name).type)
    columns |= {"id": ids, node.stub or "": pa.array(np.full(len(ids), True))}
    schema = table_schema(node)
    made: list[pa.Array[Any]] = [
        one_array(columns[field.name], field.type) if field.name in columns else pa.nulls(len(ids), field.type)
        for field in schema
    ]
    batch = pa.RecordBatch.from_arrays(made, schema=schema)
    bad = [finding.rows for finding in ValueRules(node, limits).feed(Block(batch, 0, False, Wording(node, NOWHERE)))]
    if not bad:
        return batch
    keep = np.ones(len(ids), dtype=np.bool_)
    keep[np.concatenate(bad)] = False
    return batch.filter(pa.array(keep))
