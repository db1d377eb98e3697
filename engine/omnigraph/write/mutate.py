"""Change single facts: the ``.gq`` write language at run time. One query, one commit, one receipt.

Owns the order of parsing, binding, running, checking and committing. What statements
mean is ``effect``'s, judging ``validate``'s, staging ``lower``'s, and everything durable ``commit``'s.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omnigraph.commit import parents
from omnigraph.commit.conflicts import mismatch
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.decide import same_request
from omnigraph.commit.engine import Engine
from omnigraph.commit.protocol.run import run
from omnigraph.commit.request import Prepared
from omnigraph.commit.txn import Txn, read_current
from omnigraph.core import documents
from omnigraph.core.errors import InvalidInput, QueryInvalid
from omnigraph.core.ids import new_ulid
from omnigraph.core.limits import Limits
from omnigraph.core.meter import Meter
from omnigraph.core.textfile import read_text
from omnigraph.gq import BoundMutation, DeleteNode, InsertEdge, InsertNode, bind_mutation, bind_params, parse_query
from omnigraph.gq.tree import Query
from omnigraph.manifest.swap import Held
from omnigraph.options import CommitOptions
from omnigraph.schema import Catalog
from omnigraph.schema.catalog import has_blobs
from omnigraph.wire.receipt import Receipt, TableChange
from omnigraph.write.base.changes import TypeChange
from omnigraph.write.base.refusal import data_invalid
from omnigraph.write.base.violations import Violation
from omnigraph.write.group.front import queue_of, shares, submit
from omnigraph.write.load_options import commit_request
from omnigraph.write.mutation.statement_effects import Effect, inserted, run_statements
from omnigraph.write.receipt import others_of, replay_warnings, table_changes
from omnigraph.write.rules.validate import Verdict, validate
from omnigraph.write.staging_plan import STAGE_FIRST_BYTES


def mutate(
    engine: Engine, query: str | Path, options: CommitOptions, *, name: str | None = None, params: object = None
) -> Receipt:
    """Run one query that writes, whole or not at all. ``name`` chooses among the queries of the text."""
    # What is wrong with the text alone is said before anything is asked of storage.
    text = read_text(query, "query file", engine.limits) if isinstance(query, Path) else query
    parsed = parse_query(text, name, engine.limits)
    meter = Meter()
    engine.ref_of(options.branch, meter)
    held = engine.known(options.branch) or engine.latest(options.branch, meter)
    digest = request_digest(parsed, text, name, params)
    known = _replay(engine, options, digest, held, meter)
    if known is not None:
        return known
    work = _Mutation(engine, parsed, params, engine.clock.now_us())
    try:
        bound = work.bind(engine.catalog(held.state.schema))
    except QueryInvalid:
        # The schema that this handle knows may be an old one.
        newest = read_current(engine, options.branch, meter=meter)
        if newest.state.schema.id == held.state.schema.id:
            raise
        known = _replay(engine, options, digest, newest, meter)
        if known is not None:
            return known
        held = newest
        bound = work.bind(engine.catalog(held.state.schema))
    request = commit_request("mutate", options, _may_write(bound, work.catalog, engine.limits), request=digest)
    groups = work.may_share() and shares(engine, options.group, 0)
    if not groups or queue_of(engine, options.branch).idle:
        work.look_ahead(Txn(engine, options.branch, held, Deadline(engine.clock, options.deadline_s), meter))
    try:
        outcome = submit(engine, request, work, 0, meter) if groups else run(engine, request, work.prepare, meter)
    finally:
        work.look_no_more()
    if outcome.replayed and outcome.row is not None:
        return replace(
            _replayed(outcome.row, options.branch),
            storage=meter.snapshot(),
            warnings=outcome.warnings,
            grouped_with=outcome.grouped_with,
        )
    tables = dict(work.unchanged)
    if outcome.row is not None:
        tables |= table_changes(outcome.row)
    affected = work.effect.affected
    return Receipt(
        None if outcome.row is None else outcome.row.commit_id,
        options.branch,
        dict(sorted(tables.items())),
        storage=outcome.cost or meter.snapshot(),
        warnings=outcome.warnings,
        kind="mutate",
        grouped_with=outcome.grouped_with,
        matched=(affected.nodes, affected.edges),
    )


@dataclass(frozen=True)
class _Ahead:
    """What the statements come to in a state, found before it was known whether that is the newest."""

    held: Held
    found: Future[tuple[Effect, Verdict]]


@dataclass
class _Mutation:
    """One query under way, and what survives a change of plan: the moment that is now, and the ids that it minted."""

    engine: Engine
    query: Query
    params: object
    now_us: int
    ids: dict[int, str] = field(default_factory=dict)
    effect: Effect = field(default_factory=Effect)
    unchanged: dict[str, TableChange] = field(default_factory=dict)
    _bound: BoundMutation | None = None
    _catalog: Catalog | None = None
    _ahead: _Ahead | None = None

    @property
    def catalog(self) -> Catalog:
        assert self._catalog is not None
        return self._catalog

    def bind(self, catalog: Catalog) -> BoundMutation:
        """The statements under a schema; bound once a schema."""
        if self._bound is None or self._catalog is not catalog:
            self._bound = bind_mutation(self.query, self.params, catalog, self.now_us)
            self._catalog = catalog
        return self._bound

    def prepare(self, txn: Txn) -> Prepared | None:
        """Run the statements at the pins of one transaction, judge what came of them, and say what is to be done."""
        effect, verdict = self._seen_ahead(txn) or self._run(txn)
        self._refuse(verdict)
        self.effect = effect
        steps = effect.steps()
        self.engine.limits.check("tables_per_commit", len(steps))
        acted = {step.key for step in steps}
        self.unchanged = {
            key: TableChange(txn.pin(key).version, unchanged=table.unchanged)
            for key, table in effect.tables.items()
            if key not in acted and table.unchanged
        }
        if not steps:
            return None
        return Prepared(
            steps,
            effect.reads | verdict.reads,
            revalidate=lambda other: self._still_fits(other, effect),
            stage_first=effect.nbytes > STAGE_FIRST_BYTES,
        )

    def changes(self, txn: Txn) -> tuple[TypeChange, ...]:
        """What the statements make of the rows of this state, for a group that judges it with what others do."""
        self.look_no_more()
        self.effect = self._effect(txn)
        return self.effect.changes

    def offered(self, txn: Txn) -> tuple[TypeChange, ...] | None:
        """The rows that its statements insert: they name all that they write."""
        self.look_no_more()
        self.effect = inserted(self.bind(txn.catalog), self._mint)
        return self.effect.changes

    def left_alone(self, unchanged: Mapping[str, TableChange]) -> None:
        self.unchanged = {
            key: TableChange(change.version, unchanged=change.unchanged) for key, change in unchanged.items()
        }

    def may_share(self) -> bool:
        """Whether its statements name all that they write: none selects rows."""
        statements = self.bind(self.catalog).statements
        inserts = all(isinstance(statement, InsertNode | InsertEdge) for statement in statements)
        return inserts and not any(has_blobs(statement.type) for statement in statements)

    def _run(self, txn: Txn) -> tuple[Effect, Verdict]:
        effect = self._effect(txn)
        if not effect.changes:
            return effect, Verdict()
        return effect, validate(effect.changes, txn.catalog, txn, limits=self.engine.limits)

    def _effect(self, txn: Txn) -> Effect:
        bound = self.bind(txn.catalog)
        named = {statement.type.table_key for statement in bound.statements}
        txn.open_ahead(named, _may_ask(bound, txn.catalog) - named)
        asked = txn.meter.snapshot().requests
        effect = run_statements(bound, txn, self._mint, self.engine.limits)
        if txn.meter.snapshot().requests > asked:
            txn.meter.step()  # the checks, and everything after them, wait for the rows that statements mean
        return effect

    # --- side by side with the look at the manifest -----------------------------------------------------------------

    def look_ahead(self, txn: Txn) -> None:
        """Run the statements on the newest state that is known, while a request asks whether it still is the newest."""
        if self.engine.timing.contended or self.engine.read_only:
            return  # it hardly is, or nothing will come of it
        # A thread of its own: statements wait for threads of the engine, and must not do so on one of them.
        self._ahead = _Ahead(txn.held, Future())
        threading.Thread(target=self._look, args=(txn, self._ahead.found), name="look-ahead", daemon=True).start()

    def _look(self, txn: Txn, found: Future[tuple[Effect, Verdict]]) -> None:
        try:
            found.set_result(self._run(txn))
        except BaseException as error:  # noqa: BLE001 - raised where the answer is taken
            found.set_exception(error)

    def look_no_more(self) -> None:
        """Nothing of a write runs any more when its caller is answered."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            wait((ahead.found,))

    def _seen_ahead(self, txn: Txn) -> tuple[Effect, Verdict] | None:
        """What was found, if the state it was found in is the one to plan on. Whatever failed is asked again."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return None
        wait((ahead.found,))
        if ahead.held is not txn.held or ahead.found.exception() is not None:
            return None
        return ahead.found.result()

    def _still_fits(self, txn: Txn, effect: Effect) -> bool:
        """Only tables that were read have moved: do the statements come to the same rows there, and may they stand?"""
        try:
            again, verdict = self._run(txn)
        except InvalidInput:
            return False
        return verdict.ok and again.same(effect)

    def _mint(self, number: int) -> str:
        if number not in self.ids:
            self.ids[number] = new_ulid(self.engine.clock)
        return self.ids[number]

    def _refuse(self, verdict: Verdict) -> None:
        if verdict.ok:
            return
        raise data_invalid([_placed(one, self.query.name) for one in verdict.violations], verdict.total)


def _placed(violation: Violation, query: str) -> Violation:
    """Rows of a mutation are numbered by statements."""
    place = f"query {query}" if violation.record is None else f"query {query}, statement {violation.record}"
    return replace(violation, message=f"{place}: {violation.message}", record=None, source=None)


def _cascades(bound: BoundMutation, catalog: Catalog) -> list[str]:
    """Edge tables that may lose rows with the nodes that the query deletes."""
    deleted = {statement.type.name for statement in bound.statements if isinstance(statement, DeleteNode)}
    return [edge.table_key for edge in catalog.edges.values() if {edge.src_type, edge.dst_type} & deleted]


def _may_ask(bound: BoundMutation, catalog: Catalog) -> set[str]:
    """Tables that the query looks at without naming them: ends of new edges, edges of nodes that go."""
    edges = [statement.type for statement in bound.statements if isinstance(statement, InsertEdge)]
    ends = {f"node:{name}" for edge in edges for name in (edge.src_type, edge.dst_type)}
    return ends | set(_cascades(bound, catalog))


def _may_write(bound: BoundMutation, catalog: Catalog, limits: Limits) -> frozenset[str]:
    """Tables that the query may change, to be locked and queued for. With nodes go their edges."""
    named = {statement.type.table_key for statement in bound.statements}
    along = _cascades(bound, catalog)
    # Few of many edge types may lose rows; the locks only spare work, and what is written is counted when it is known.
    return frozenset([*sorted(named), *(key for key in along if key not in named)][: limits.tables_per_commit])


# --- in and out -----------------------------------------------------------------------------------------------------------


def request_digest(query: Query, text: str, name: str | None, params: object) -> str:
    """Names what was asked for, so that a repeated key can be compared."""
    try:
        return documents.digest({"kind": "mutate", "query": text, "name": name, "params": _plain(params)})
    except (
        Exception
    ) as error:  # no JSON: an infinity, half of a surrogate pair, a list in itself; or the value's own repr
        bind_params(query, params)  # no declared type takes such a value: this says which parameter it is
        raise QueryInvalid(
            f"query {query.name}: its parameters have no JSON form: {type(error).__name__}",
            hint="give parameters of plain kinds: texts, numbers, booleans, dates, bytes and lists of these",
            query=query.name,
        ) from error


def _plain(params: object) -> object:
    """Parameters as JSON holds them; what is no JSON, as its text."""
    return json.loads(json.dumps(params, default=repr, sort_keys=True))


def _replay(engine: Engine, options: CommitOptions, digest: str, held: Held, meter: Meter) -> Receipt | None:
    """A known key is answered with its receipt, whatever the schema has become since."""
    if options.idempotency_key is None:
        return None
    found = parents.find_key(engine, held, options.idempotency_key, meter)
    if found is None:
        return None
    row = found[0]
    if not same_request(row, digest, None):
        raise mismatch(row, options.idempotency_key)
    others = others_of(engine, found[1], row)
    return replace(_replayed(row, options.branch), storage=meter.snapshot(), grouped_with=others)


def _replayed(row: Any, branch: str) -> Receipt:
    changes = table_changes(row)
    return Receipt(row.commit_id, branch, changes, replayed=True, warnings=replay_warnings(row), kind=row.kind)
