"""Reading intent files: every file that no writer of this format makes is refused, and left where it is.

A file of a later format, or of a state or kind that this release does not know, is no damage: it is kept, reported, and claims
its tables.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from omnigraph.commit import plan as p
from omnigraph.commit.effects import RULES, BasePin, Effect, Target, chains, contradictions
from omnigraph.commit.intent_format import (
    APPLIED,
    FORMAT,
    INTENT_BYTES_MAX,
    OFFER_BYTES_MAX,
    OFFERED,
    STATES,
    UNKNOWN,
    WAITING,
    Intent,
    Ticket,
)
from omnigraph.commit.intent_models import DeltaModel, EffectModel, IntentFile, PinRowModel, RequestModel
from omnigraph.core import documents
from omnigraph.core.limits import DEFAULT_LIMITS
from omnigraph.manifest.rows import BaseVersion, Pin, Recent, SchemaRow, Tombstone
from omnigraph.store import layout


def decode(op: str, data: bytes) -> Intent:
    """What the file says. Raises ``Corruption`` that names the file, for anything that no writer makes."""
    hint = (
        "read_only=True still opens the graph; keep a copy of the file, then `omnigraph repair --confirm --force` "
        "moves it aside and puts the tables back"
    )
    with documents.refusals(layout.intent_key(op), "the intent", hint=hint):
        raw = documents.unseal(documents.loads(data, bytes_max=INTENT_BYTES_MAX))
        stamp = hashlib.sha256(data).hexdigest()
        unknown = _why_unknown(raw)
        if unknown is not None:
            return _unknown(op, raw, unknown, stamp)
        documents.check_format(raw, FORMAT)
        file = documents.fill(IntentFile, raw)
        if file.op != op:
            raise documents.Malformed(f"it names operation {file.op!r}")
        wrong = next(_refused(file), None)
        if wrong is not None:
            raise documents.Malformed(wrong)
        return _intent(file, stamp)


def _why_unknown(raw: Mapping[str, Any]) -> str | None:
    found = raw.get("format")
    if isinstance(found, int) and not isinstance(found, bool) and found > FORMAT:
        return f"it has format {found}, and this release reads format {FORMAT}"
    if found != FORMAT:
        return None
    if isinstance(raw.get("state"), str) and raw["state"] not in STATES:
        return f"its state {raw['state'][:40]!r} is unknown to this release"
    if isinstance(raw.get("kind"), str) and raw["kind"] not in p.KINDS:
        return f"its kind {raw['kind'][:40]!r} is unknown to this release"
    effects = raw.get("effects")
    for effect in effects if isinstance(effects, list) else ():
        if isinstance(effect, dict) and isinstance(effect.get("kind"), str) and effect["kind"] not in RULES:
            return f"its effect {effect['kind'][:40]!r} is unknown to this release"
    return None


def _unknown(op: str, raw: Mapping[str, Any], why: str, stamp: str) -> Intent:
    """A file of a later release: who made it and which tables it claims, as far as it can be read."""
    branch, owner = raw.get("branch"), raw.get("owner")
    name = branch if isinstance(branch, dict) else {}
    effects = raw.get("effects")
    keys = {
        effect["key"]
        for effect in (effects if isinstance(effects, list) else ())
        if isinstance(effect, dict) and isinstance(effect.get("key"), str)
    }
    try:
        found = p.Owner(**owner) if isinstance(owner, dict) else p.Owner("", "", 0, 0)
    except TypeError:
        found = p.Owner("", "", 0, 0)
    return Intent(
        op=op,
        state=UNKNOWN,
        graph=str(raw.get("graph", "")),
        kind=str(raw.get("kind", "")),
        branch=p.BranchName(str(name.get("name", "")), str(name.get("identity", ""))),
        owner=found,
        keys=frozenset(keys),
        stamp=stamp,
        why_unknown=why,
    )


def _refused(file: IntentFile) -> Iterator[str]:
    """What no writer says, in words."""
    yield from _wrong_places(file)
    if file.state in (WAITING, OFFERED):
        yield from _wrong_ticket(file)
    else:
        yield from _wrong_plan(file)


def _wrong_places(file: IntentFile) -> Iterator[str]:
    targets = [effect.target.path for effect in file.effects if effect.target is not None]
    bases = [effect.base.path for effect in file.effects if effect.base is not None]
    pins = [effect.pin_row.location for effect in file.effects if effect.pin_row is not None]
    pins += [pin.location for pin in file.applied or ()]
    made = [registration.location for registration in file.delta.registered]
    copied = [table.path for source in file.sources for table in source.tables]
    for path in (*targets, *bases, *pins, *made, *copied):
        if not layout.is_table_path(path):
            yield f"{path[:80]!r} is not the path of a table"
    if len(file.effects) > DEFAULT_LIMITS.tables_per_commit * 4:
        yield f"it has {len(file.effects)} effects"
    if len({effect.key for effect in file.effects}) > DEFAULT_LIMITS.tables_per_commit:
        yield f"it names {len({effect.key for effect in file.effects})} tables"


def _wrong_ticket(file: IntentFile) -> Iterator[str]:
    if file.plan is not None or file.base is not None or file.applied is not None or file.durable:
        yield f"its state is {file.state}, and it has the members of a plan"
    if any(e.base is not None or e.target is not None or e.pin_row is not None for e in file.effects):
        yield f"its state is {file.state}, and an effect has a base, a target or a pin"
    if file.reads or file.sources or file.merge is not None or file.reverts is not None:
        yield f"its state is {file.state}, and it reads or takes from tables"
    if file.delta != DeltaModel(schema=None, register=[], tombstone=[], rename=[]):
        yield f"its state is {file.state}, and it has a delta"
    if file.state == WAITING and (file.requests or file.offer is not None):
        yield "it waits, and it has requests or an offer"
    if file.state == OFFERED:
        if file.offer is None or len(file.requests) != 1:
            yield "it offers, and it has no input or not one request"
        elif not file.requests[0].owned or file.requests[0].parents:
            yield "it offers a request that it does not own, or that has parents"
        if file.offer is not None and sum(len(rows.ipc) * 3 // 4 for rows in file.offer.rows) > OFFER_BYTES_MAX:
            yield "it offers more rows than an offer holds"


def _wrong_plan(file: IntentFile) -> Iterator[str]:
    if file.plan is None or file.base is None:
        yield f"its state is {file.state}, and it has no plan or no base"
        return
    delta = file.delta
    changes = delta.schema_row is not None or delta.registered or delta.tombstone or delta.rename
    if not (file.effects or changes or file.merge is not None):
        yield "it plans no effect, and no change of the schema"
    if (file.state == APPLIED) != (file.applied is not None) or file.durable != (file.state == APPLIED):
        yield f"its state is {file.state}, and it {'has' if file.applied is not None else 'lacks'} applied pins"
    if file.offer is not None:
        yield "a plan has no offer"
    yield from _wrong_requests(file)
    effects = tuple(_to_effect(effect) for effect in file.effects)
    found = chains(effects)
    for chain in found:
        yield from contradictions(chain)
    keys = [chain.key for chain in found]
    if len(set(keys)) != len(keys):
        yield "it plans one table under two identities"
    if any(effect.rule.needs_source for effect in effects) and not file.sources:
        yield "it restores or adopts, and names no source"
    for pin in file.applied or ():
        reached = next((c for c in found if c.identity == pin.identity), None)
        if reached is None or (reached.lands and pin.version != reached.version):
            yield f"it has applied {pin.key} at version {pin.version}, which no effect reaches"


def _wrong_requests(file: IntentFile) -> Iterator[str]:
    requests, base = file.requests, file.base
    if not requests and file.kind != p.MAINTENANCE:
        yield "it carries no request"
    if len(requests) > p.REQUESTS_MAX:
        yield f"it carries {len(requests)} requests"
    if len({request.id for request in requests}) != len(requests):
        yield "it carries one request twice"
    if requests and not any(request.owned for request in requests):
        yield "it owns none of its requests"
    single = len(requests) == 1 and requests[0].owned
    if requests and single != (file.plan in {request.id for request in requests}):
        yield f"its plan id {file.plan} does not fit its requests"
    before = base.head if base is not None else None
    for request in requests:
        if request.parents[:1] != [before]:
            yield f"request {request.id} does not follow {before}"
        before = request.id


def _to_effect(effect: EffectModel) -> Effect:
    return Effect(
        effect.kind,
        effect.key,
        effect.identity,
        None if effect.base is None else BasePin(**effect.base.model_dump()),
        None if effect.target is None else Target(**effect.target.model_dump()),
        None if effect.pin_row is None else _to_pin(effect.pin_row),
    )


def _to_pin(row: PinRowModel) -> Pin:
    body = row.model_dump(exclude={"bases", "recent"})
    recent = row.recent
    return Pin(
        **body,
        bases=tuple(BaseVersion(*base) for base in row.bases),
        recent=None
        if recent is None
        else Recent(tuple(recent.fragments), base64.b64decode(recent.keys, validate=True)),
    )


def _intent(file: IntentFile, stamp: str) -> Intent:
    branch = p.BranchName(file.branch.name, file.branch.identity)
    owner = p.Owner(**file.owner.model_dump())
    keys = frozenset(effect.key for effect in file.effects)
    ticket = plan = request = None
    if file.state in (WAITING, OFFERED):
        tables = tuple((effect.key, effect.identity) for effect in file.effects)
        ticket = Ticket(file.graph, file.op, file.kind, branch, tables, owner)
        request = _to_request(file.requests[0]) if file.requests else None
    else:
        plan = _to_plan(file, branch, owner)
    return Intent(
        op=file.op,
        state=file.state,
        graph=file.graph,
        kind=file.kind,
        branch=branch,
        owner=owner,
        keys=keys,
        stamp=stamp,
        ticket=ticket,
        plan=plan,
        applied=None if file.applied is None else tuple(_to_pin(pin) for pin in file.applied),
        durable=file.durable,
        request=request,
        offer=None if file.offer is None else file.offer.model_dump(),
    )


def _to_request(request: RequestModel) -> p.RequestInfo:
    return p.RequestInfo(**{**request.model_dump(), "parents": tuple(request.parents)})


def _to_plan(file: IntentFile, branch: p.BranchName, owner: p.Owner) -> p.PublishPlan:
    if file.base is None or file.plan is None:
        raise documents.Malformed("a plan has a base and an id")
    delta = file.delta
    schema = delta.schema_row
    return p.PublishPlan(
        graph=file.graph,
        op=file.op,
        id=file.plan,
        kind=file.kind,
        branch=branch,
        base=p.Base(**file.base.model_dump()),
        effects=tuple(_to_effect(effect) for effect in file.effects),
        reads=tuple(p.ReadPin(**read.model_dump()) for read in file.reads),
        requests=tuple(_to_request(request) for request in file.requests),
        owner=owner,
        delta=p.Delta(
            None if schema is None else SchemaRow(schema.source, schema.canonical, schema.hash, schema.id),
            () if schema is None else tuple(schema.steps),
            tuple(p.Registration(**one.model_dump()) for one in delta.registered),
            tuple(Tombstone(**one.model_dump()) for one in delta.tombstone),
            tuple(p.Rename(one.identity, one.from_key, one.to_key, one.incarnation) for one in delta.rename),
        ),
        sources=tuple(
            p.Source(
                source.identity,
                source.ref,
                source.manifest_version,
                source.commit,
                tuple(p.SourceTable(t.path, t.ref, t.version, tuple(t.bases)) for t in source.tables),
            )
            for source in file.sources
        ),
        merge=None if file.merge is None else file.merge.model_dump(),
        reverts=None if file.reverts is None else tuple(file.reverts),
    )
