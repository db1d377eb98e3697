"""Every small schema changed into every other: no pair crashes, and each plan leads where it says, by the steps it names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.core.errors import Refused
from omnigraph.schema import (
    Catalog,
    canonical_text,
    catalog_from_canonical,
    format_schema,
    parse_schema,
    schema_id,
    shape_text,
)
from omnigraph.schema.diff import apply_plan, diff_catalogs, plan_change
from omnigraph.schema.identity import identities
from omnigraph.schema.plan import SchemaPlan, StepKind
from tests.unit.schema.material import accepted, as_replay, counter, replay
from tests.unit.schema.strategies import catalogs

BODIES = [
    "",
    "pa: I32?",
    "pa: I32",
    "pa: I64?",
    "pa: I32 @key",
    "pa: I64 @key",
    "pa: String @key pb: Bool",
    "pa: F32 @unique",
    "pa: F64? @index",
    "pa: enum(x, y)?",
    "pa: enum(x)",
    "pa: enum(x, y, z)",
    "pa: [I32]?",
    "pa: Blob?",
    'pa: Vector(2)? @embed(pb, model="m") pb: String?',
    "pa: I32? pb: I32?",
    "pa: I32? pb: I32? @unique(pa, pb)",
    "pa: I32? @range(pa, 0..9)",
    "pa: I32? @range(pa, 0..) @range(pa, ..5)",
    'pa: String? @check(pa, "^x") pb: I32 @key',
    'pa: String? @description("text")',
    'pb: I32? @rename_from("pa")',
    'pb: I64 @rename_from("pa") @range(pb, 0..3)',
    'pa: I32? pb: I32? @rename_from("pa")',
    'pa: I32? @rename_from("pb") pb: I32? @rename_from("pa")',
    'pb: I32? @rename_from("pa") pc: I32? @rename_from("pa")',
    'pc: I32? @rename_from("nothing")',
]
NODES = [f"node Na {{ {body} }}" for body in BODIES]
SHAPES = [
    "",
    "node Nb {}",
    'node Nb @rename_from("Na") { pa: I32? }',
    "node Na { pa: I32? } node Nb { pa: I32? }",
    'node Na @rename_from("Nb") {} node Nb @rename_from("Na") {}',
    'node Nb @rename_from("Na") {} node Nc @rename_from("Na") {}',
    'node Nb @rename_from("Nowhere") {}',
    'node Na @description("text") @note(1) { pb: Bool pa: String @key }',
    "node Na @stub(pb) { pa: String @key pb: Bool }",
    "node Na {} edge Ea: Na -> Na",
    "node Na {} node Nb {} edge Ea: Na -> Nb",
    "node Na {} edge Ea: Na -> Na @card(0..2) { pa: I32? }",
    "node Na {} edge Ea: Na -> Na @card(1..) { pa: I32 @unique(src, dst) }",
    'node Na {} edge Eb: Na -> Na @rename_from("Ea") { pb: I32? @rename_from("pa") @index(src) }',
    'node Nb @rename_from("Na") {} edge Ea: Nb -> Nb',
    "node Nb {} edge Ea: Nb -> Nb",
    "node Ea {} edge Na: Ea -> Ea",
]
INTERFACES = [
    "interface Ia {} node Na implements Ia {}",
    "interface Ia { pa: I32? } node Na implements Ia {}",
    "interface Ia { pa: I32? } node Na { pa: I32? }",
    "interface Ia { pa: I32? } node Na implements Ia { pa: I32? } node Nb implements Ia {}",
    'interface Ia { pb: I32? @rename_from("pa") } node Na implements Ia {} node Nb implements Ia {}',
    'interface Ia { pb: I32? @rename_from("pa") } node Na implements Ia { pb: I32? }',
    "interface Ia { pa: I32? } interface Ib { pa: I32? pc: String? } node Na implements Ia, Ib {}",
    "interface Ia { pa: I32 @key } node Na implements Ia {}",
    'interface Ia { pa: Vector(2)? @embed(pb) pb: String? } node Nb @rename_from("Na") implements Ia {}',
    "interface Ib { pa: I32? }",
]
TEXTS = NODES + SHAPES + INTERFACES


def check_plan(old: Catalog, text: str, *, replayed: bool = True) -> SchemaPlan:
    """Everything that has to be true of one plan."""
    new = parse_schema(text)
    plan = plan_change(old, new, mint=counter("new"))
    for step in plan.steps:
        assert step.supported == (step.reason is None) == (step.hint is None)
        assert "\n" not in str(step) and step.subject in str(step)
    stored = {
        *("add_type", "drop_type", "rename_type", "add_property", "drop_property", "rename_property"),
        *("nullable", "required", "widen", "rule"),
    }
    assert all(step.kind.value in stored for step in plan.steps if step.supported)
    assert plan.new.hash == new.hash and shape_text(plan.new) == shape_text(new)
    before, after = set(identities(old)), set(identities(plan.new))
    assert all(known.startswith("new") for known in after - before)
    if not plan.supported:
        with pytest.raises(Refused) as refused:
            apply_plan(plan)
        assert refused.value.facts["reason"] == "schema" and refused.value.hint
        return plan
    applied = apply_plan(plan)
    assert catalog_from_canonical(text, canonical_text(applied)) == applied
    assert plan.is_empty == (shape_text(old) == shape_text(new)) == (plan.old_id == plan.new_id)
    assert plan.new_id == schema_id(canonical_text(applied))
    assert diff_catalogs(applied, applied) == ()
    again = plan_change(applied, new, mint=counter("again"))
    assert again.is_empty and again.new == applied, str(again)
    assert [(s.kind, s.type_id, s.prop_id) for s in diff_catalogs(old, applied)] == [
        (s.kind, s.type_id, s.prop_id) for s in plan.steps
    ]
    if replayed:  # needs names of properties that are no words of the language
        assert replay(old, applied, plan.steps) == as_replay(applied)
    dropped = {s.kind for s in plan.steps} & {StepKind.DROP_TYPE, StepKind.DROP_PROPERTY}
    assert plan.loss == bool(dropped or any(s.loss for s in plan.steps))
    return plan


@pytest.mark.parametrize("old", TEXTS)
def test_every_pair_of_small_schemas(old: str) -> None:
    before = accepted(old)
    for new in TEXTS:
        plan = check_plan(before, new)
        assert old != new or plan.is_empty


def test_the_pairs_reach_every_kind_of_step() -> None:
    """A generator that never makes a change says nothing about it."""
    seen = set()
    for old, new in itertools.product(TEXTS, TEXTS):
        plan = plan_change(accepted(old), parse_schema(new), mint=counter("new"))
        seen |= {(step.kind, step.supported) for step in plan.steps}
    never = {(StepKind.KEY, True), (StepKind.ENDPOINTS, True), (StepKind.RETYPE, True), (StepKind.NULLABLE, False)}
    never |= {(StepKind.REQUIRED, False), (StepKind.RULE, False), (StepKind.ADD_TYPE, False)}
    never |= {(StepKind.DROP_PROPERTY, False), (StepKind.WIDEN, False)}
    assert seen == set(itertools.product(StepKind, (True, False))) - never


# --- types of one property ----------------------------------------------------------------------------------------------

TYPES = [
    *("String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "DateTime", "Date", "Blob", "Vector(2)", "Vector(3)"),
    *("enum(x)", "enum(x, y)", "enum(y)", "[I32]", "[I64]", "[String]"),
]
WIDER = {("I32", "I64"), ("U32", "U64"), ("F32", "F64"), ("enum(x)", "enum(x, y)"), ("enum(y)", "enum(x, y)")}
NARROWER = {("enum(x, y)", "enum(x)"), ("enum(x, y)", "enum(y)"), ("enum(x)", "enum(y)"), ("enum(y)", "enum(x)")}


def type_pairs() -> Iterator[tuple[str, str, bool, bool]]:
    for old, new in itertools.product(TYPES, TYPES):
        for was_null, is_null in itertools.product((False, True), repeat=2):
            yield old, new, was_null, is_null


def test_every_pair_of_types_is_supported_or_refused_as_the_language_says() -> None:
    for old, new, was_null, is_null in type_pairs():
        before = accepted(f"node Na {{ pa: {old}{'?' * was_null} }}")
        plan = check_plan(before, f"node Na {{ pa: {new}{'?' * is_null} }}")
        kinds = [step.kind for step in plan.steps]
        expected = [StepKind.NULLABLE] * (is_null and not was_null)
        if (old, new) in WIDER:
            expected.append(StepKind.WIDEN)
        elif (old, new) in NARROWER:
            expected.append(StepKind.RULE)
        required = [StepKind.REQUIRED] * (was_null and not is_null)
        if old == new or (old, new) in WIDER | NARROWER:
            assert kinds == expected + required and plan.supported, (old, new)
            assert plan.loss == ((old, new) in NARROWER)
        else:
            assert sorted(k.value for k in kinds) == sorted(k.value for k in [*expected, *required, StepKind.RETYPE])
            assert not plan.supported and [s.kind for s in plan.refused] == [StepKind.RETYPE]


# --- renames ------------------------------------------------------------------------------------------------------------


def property_texts() -> list[str]:
    """All ways to declare up to two of three properties, each with any rename."""
    hints = ["", *(f'@rename_from("{n}")' for n in ("pa", "pb", "pc"))]
    single = {n: [f"{n}: I32? {h}" for h in hints] for n in ("pa", "pb", "pc")}
    texts = [""]
    for size in (1, 2):
        for names in itertools.combinations(single, size):
            texts += [" ".join(choice) for choice in itertools.product(*(single[n] for n in names))]
    return texts


def test_every_rename_of_properties_keeps_identities_apart() -> None:
    texts = property_texts()
    # What a schema says of renames counts where it is the new one; of the old ones, two with a rename stand for all.
    olds = [text for text in texts if text.count("@rename_from") == 0] + [t for t in texts if "@rename_from" in t][:2]
    for before, new in itertools.product([accepted(f"node Na {{ {text} }}") for text in olds], texts):
        plan = check_plan(before, f"node Na {{ {new} }}")
        if not plan.supported:
            continue
        was, now = before.node("Na").by_name, plan.new.node("Na").by_name
        for name, prop in now.items():
            hint = next((a.value for a in prop.annotations if a.name == "rename_from"), None)
            if name in was:
                assert prop.prop_id == was[name].prop_id
            elif hint is not None:
                assert prop.prop_id == was[hint].prop_id and hint not in now
            else:
                assert prop.prop_id.startswith("new")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(TEXTS), min_size=2, max_size=8))
def test_identities_never_come_back_in_a_history_of_changes(texts: list[str]) -> None:
    """Dropped and added again is another property, another type, another schema."""
    mint = counter("new")
    now = accepted(texts[0], mint)
    gone: set[str] = set()
    known = {schema_id(canonical_text(now))}
    for text in texts[1:]:
        plan = plan_change(now, parse_schema(text), mint=mint)
        if not plan.supported:
            continue
        after = apply_plan(plan)
        assert not gone & set(identities(after))
        gone |= set(identities(now)) - set(identities(after))
        if set(identities(after)) - set(identities(now)):
            assert plan.new_id not in known
        known.add(plan.new_id)
        now = after


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(catalogs(), catalogs())
def test_any_schema_can_be_compared_with_any_other(old: Catalog, new: Catalog) -> None:
    before = accepted(format_schema(old))
    check_plan(before, format_schema(new), replayed=False)
    assert check_plan(before, format_schema(old), replayed=False).is_empty
