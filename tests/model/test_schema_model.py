"""A change of the schema beside loads and their recovery, searched exhaustively with the engine's own decisions; and each guard taken out,
to see it missed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from omnigraph.commit import decide as engine
from omnigraph.commit.decide import PublishCheck
from omnigraph.testing.explorer import explore
from omnigraph.testing.schema_model import COLUMNS, RULE, Model, Rules, Scope

ALONE = Rules(lance_refuses=False)  # what Lance refuses is not leaned on

SHORT = {
    "columns": Scope(COLUMNS, attempts=1, rules=ALONE),
    "columns, one load, two attempts": Scope(COLUMNS, loads=1, rules=ALONE),
    "rule": Scope(RULE, attempts=1, rules=ALONE),
    "rule, one load, three attempts": Scope(RULE, loads=1, attempts=3),
}
LONG = {
    "columns, two loads, two attempts": Scope(COLUMNS),
    "columns, two loads, two attempts, alone": Scope(COLUMNS, rules=ALONE),
    "rule, two loads, two attempts": Scope(RULE),
    "rule, two loads, two attempts, alone": Scope(RULE, rules=ALONE),
}


def search(scope: Scope) -> None:
    model = Model(scope)
    found = explore(model.start, model.steps, model.check)
    assert found.error is None, f"{found.error}\n  " + "\n  ".join(found.trace)
    assert found.exhausted and found.states > 300, found


@pytest.mark.parametrize("scope", SHORT.values(), ids=SHORT.keys())
def test_no_row_is_published_under_a_schema_that_it_was_not_held_against(scope: Scope) -> None:
    search(scope)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scope", LONG.values(), ids=LONG.keys())
def test_no_row_is_published_under_another_schema_in_larger_scopes(scope: Scope) -> None:
    search(scope)


def without_schema(check: Callable[..., PublishCheck]) -> Callable[..., PublishCheck]:
    """Publishing that does not ask which schema is accepted."""

    def blind(state: Any, plan: Any, *rest: Any, **options: Any) -> PublishCheck:
        return check(state, replace(plan, base=replace(plan.base, schema_id=state.schema.id)), *rest, **options)

    return blind


def without_pins(check: Callable[..., PublishCheck]) -> Callable[..., PublishCheck]:
    """Publishing that does not ask where the written tables are."""

    def blind(state: Any, plan: Any, *rest: Any, **options: Any) -> PublishCheck:
        found = check(state, plan, *rest, **options)
        return PublishCheck(engine.Check.GO) if found.check is engine.Check.PIN_MOVED else found

    return blind


CHECK = engine.check_publish
MISSED = {
    "a rule: the schema is not checked at publish": (RULE, Rules(check_publish=without_schema(CHECK))),
    "a rule: recovery does not check the schema": (RULE, Rules(check_recovered=without_schema(CHECK))),
    "a rule: the rows that were checked are no read set": (RULE, Rules(reads=False)),
    "columns: neither the schema nor the pins are checked": (
        COLUMNS,
        Rules(check_publish=without_pins(without_schema(CHECK)), lance_refuses=False),
    ),
    "columns: an effect counts wherever it lands, and Lance refuses nothing": (
        COLUMNS,
        Rules(landed=lambda version, pin: True, lance_refuses=False),
    ),
}


@pytest.mark.parametrize(("kind", "rules"), MISSED.values(), ids=MISSED.keys())
def test_without_one_of_the_guards_a_row_is_published_that_must_not_be(kind: str, rules: Rules) -> None:
    model = Model(Scope(kind, rules=rules))
    found = explore(model.start, model.steps, model.check)
    assert found.error is not None, f"no counter-example in {found}"
    assert len(found.trace) <= 14, "a counter-example is a shortest one"


def test_the_schema_check_alone_holds_a_change_of_columns_where_the_pins_are_not_asked() -> None:
    """One of the two is enough for a change that moves the table; neither is not."""
    for rules in (Rules(check_publish=without_schema(CHECK)), Rules(check_recovered=without_schema(CHECK))):
        model = Model(Scope(COLUMNS, attempts=1, rules=rules))
        found = explore(model.start, model.steps, model.check)
        assert found.exhausted and found.error is None, (found.error, found.trace)
