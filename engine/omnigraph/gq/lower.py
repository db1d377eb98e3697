"""From a query and its parameters to bound statements.

Owns the order of refusals: form, then sense against the schema, then parameters, then values; all of it before
anything is read or written. Positions in errors are those of the query text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from omnigraph.core.errors import QueryInvalid
from omnigraph.gq.bound import (
    BoundMutation,
    BoundStatement,
    Comparison,
    DeleteEdge,
    DeleteNode,
    InsertEdge,
    InsertNode,
    UpdateNode,
)
from omnigraph.gq.check import check_query, select_query
from omnigraph.gq.check_mutation import TEXT, endpoint_type, find_type, key_type
from omnigraph.gq.check_values import literal_value
from omnigraph.gq.diagnostics import refuse_errors
from omnigraph.gq.parameters import BoundParams, bind_params
from omnigraph.gq.temporal import datetime_of_us
from omnigraph.gq.tree import Assign, Insert, Now, Predicate, Query, QueryFile, Read, Statement, Update, Value, Variable
from omnigraph.gq.values import Misfit, PyValue, blob_of, coerce
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, PropType, ScalarKind, TableType

_ENDPOINT_COLUMNS = {"from": "src", "to": "dst"}


def bind_mutation(query: Query, params: object, catalog: Catalog, now_us: int) -> BoundMutation:
    """The statements of a mutation with every value in the kind of its property.

    ``now_us`` is what ``now()`` stands for, in microseconds since the epoch. Raises ``QueryInvalid`` for a read, for a
    query that fails a static check, and for parameters that do not fit.
    """
    if isinstance(query.body, Read):
        raise QueryInvalid(
            f"query {query.name} reads: a mutation has insert, update or delete",
            hint="choose a query that writes; reads are SQL: omnigraph query --sql",
            query=query.name,
        )
    select_query(QueryFile((query,)))
    refuse_errors(query.name, check_query(query, catalog))
    lowering = _Lowering(query, bind_params(query, params), catalog, datetime_of_us(now_us))
    statements = tuple(lowering.statement(statement) for statement in query.body.statements)
    return BoundMutation(query.name, statements, lowering.now)


@dataclass(frozen=True)
class _Lowering:
    query: Query
    params: BoundParams
    catalog: Catalog
    now: datetime

    def statement(self, statement: Statement) -> BoundStatement:
        found = find_type(self.catalog, statement.type_name)
        assert found is not None, statement.type_name  # checked
        if isinstance(statement, Insert):
            return self._insert(statement, found)
        predicate = self._predicate(statement.where, found)
        if isinstance(found, EdgeType):
            return DeleteEdge(found, predicate)
        if isinstance(statement, Update):
            return UpdateNode(found, self._values(statement.assigns, found), predicate)
        return DeleteNode(found, predicate)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _insert(self, statement: Insert, found: TableType) -> InsertNode | InsertEdge:
        row: dict[str, PyValue] = dict.fromkeys(prop.name for prop in found.properties)
        row.update(self._values(statement.assigns, found))
        if isinstance(found, NodeType):
            # Key texts bring pyarrow along, which a reader of queries need not pay for.
            from omnigraph.schema.keytext import derive_id

            return InsertNode(found, derive_id(found, row), row)
        ends = {assign.name: assign for assign in statement.assigns if assign.name in _ENDPOINT_COLUMNS}
        return InsertEdge(found, self._end(ends["from"], found), self._end(ends["to"], found), row)

    def _values(self, assigns: Iterable[Assign], found: TableType) -> dict[str, PyValue]:
        return {
            assign.name: self._assigned(assign, found)
            for assign in assigns
            if isinstance(found, NodeType) or assign.name not in _ENDPOINT_COLUMNS
        }

    def _assigned(self, assign: Assign, found: TableType) -> PyValue:
        place, type_ = f"{found.name}.{assign.name}", found.property(assign.name).type
        value = self._value(assign.value, type_, place)
        if value is None and not type_.nullable:
            raise self._refused(assign.value, place, Misfit(str(type_), "null"))
        return value

    def _end(self, assign: Assign, found: EdgeType) -> str:
        place = f"{found.name}.{assign.name}"
        text = self._end_text(assign.value, assign.name, found, place)
        if text is None:
            raise self._refused(assign.value, place, Misfit("an id", "null"))
        return text

    # --- predicates ---------------------------------------------------------------------------------------------------

    def _predicate(self, where: Predicate, found: TableType) -> Comparison:
        place = f"{found.name}.{where.name}"
        if isinstance(found, EdgeType) and where.name in _ENDPOINT_COLUMNS:
            text = self._end_text(where.value, where.name, found, place)
            return Comparison(_ENDPOINT_COLUMNS[where.name], where.op, text, ScalarKind.STRING)
        type_ = found.property(where.name).type
        return Comparison(where.name, where.op, self._value(where.value, type_, place), type_.scalar)

    # --- values -------------------------------------------------------------------------------------------------------

    def _end_text(self, value: Value, name: str, edge: EdgeType, place: str) -> str | None:
        """An end as id. A value that is no text is one of the endpoint's only key property."""
        raw = self._raw(value, place)
        if raw is None or isinstance(raw, str):
            text = self._coerced(value, raw, TEXT, place)
            assert text is None or isinstance(text, str)
            return text
        from omnigraph.schema.keytext import value_text

        node = endpoint_type(edge, name, self.catalog)
        key = key_type(node) if node is not None else None
        assert key is not None, place  # checked
        return value_text(key, self._coerced(value, raw, key, place))

    def _value(self, value: Value, type_: PropType, place: str) -> PyValue:
        return self._coerced(value, self._raw(value, place), type_, place)

    def _raw(self, value: Value, place: str) -> object:
        """What the text or the caller gave, as a Python value of its own kind."""
        if isinstance(value, Now):
            return self.now
        try:
            if not isinstance(value, Variable):
                return literal_value(value)
            if value.name not in self.params:
                raise Misfit("a value", "none: the parameter was not provided")
            return self.params.use(value.name)
        except Misfit as misfit:
            raise self._refused(value, place, misfit) from None

    def _coerced(self, value: Value, raw: object, type_: PropType, place: str) -> PyValue:
        try:
            return coerce(_blobs(raw) if type_.scalar is ScalarKind.BLOB else raw, type_)
        except Misfit as misfit:
            raise self._refused(value, place, misfit) from None

    def _refused(self, value: Value, place: str, misfit: Misfit) -> QueryInvalid:
        line, column = value.at
        given_by = f"parameter ${value.name}: " if isinstance(value, Variable) else ""
        facts = {"parameter": value.name} if isinstance(value, Variable) else {}
        type_, _, prop = place.partition(".")
        return QueryInvalid(
            f"query {self.query.name}, line {line}, column {column}: {given_by}{place}: {misfit}",
            hint="give a value of the kind that the property has; parameters are given with params={…}, --params",
            query=self.query.name,
            line=line,
            column=column,
            type=type_,
            property=prop,
            expected=misfit.expected,
            received=misfit.received,
            **facts,
        )


def _blobs(raw: object) -> object:
    """Texts of parameters as the bytes or the reference that they stand for."""
    if isinstance(raw, str):
        return blob_of(raw)
    if isinstance(raw, tuple):
        return tuple(_blobs(item) for item in raw)
    return raw
