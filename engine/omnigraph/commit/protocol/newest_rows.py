"""What a pin says about the ids of its newest rows, so that another process need not read their files to know that an id is
new. Null is always right; a fragment under a wrong number would hide a row, so numbers are confirmed before they are published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from omnigraph.commit.effects import Chain
from omnigraph.commit.pins import landed_pins
from omnigraph.commit.plan import PublishPlan
from omnigraph.commit.protocol.apply import Applied
from omnigraph.commit.steps import Staged
from omnigraph.manifest import recent
from omnigraph.manifest.recent import Recent
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.state import State
from omnigraph.table import numbering


def expected(pin: Pin, handle: Any, staged: Staged) -> Recent | None:
    """What is known of the ids once this transaction has landed on the handle, which is at the pin."""
    changed = numbering.changed_by(staged.transaction.operation)
    if changed is None:
        return None
    return _after(pin, staged, changed, numbering.expected_numbers(handle, changed.new))


def confirmed(
    pins: Mapping[str, Pin], state: State, plan: PublishPlan, handles: Mapping[str, Any], results: Mapping[str, Applied]
) -> Mapping[str, Pin]:
    """The pins themselves if every number was expected right; else copies with what is so. ``handles``: at the old pins."""
    corrected = {}
    for chain in plan.landing:
        result = results.get(chain.key)
        staged = _only(chain, result)
        if staged is None or result is None or pins[chain.key].recent is None:
            continue
        changed = numbering.changed_by(staged.transaction.operation)
        new = () if changed is None else changed.new
        if not numbering.are_numbered(result.handle, new, numbering.expected_numbers(handles[chain.key], new)):
            found = _of_landed(state.tables.get(chain.key), staged, result.handle)
            corrected[chain.key] = replace(pins[chain.key], recent=found)
    return {**pins, **corrected} if corrected else pins


def landed(state: State, plan: PublishPlan, results: Mapping[str, Applied]) -> dict[str, Pin]:
    """The pins of tables that have landed, with what is known of their ids."""
    found = landed_pins(state, plan, {key: result.handle for key, result in results.items()})
    for chain in plan.landing:
        result = results.get(chain.key)
        staged = _only(chain, result)
        if chain.key in found and staged is not None and result is not None:
            told = _of_landed(state.tables.get(chain.key), staged, result.handle)
            found[chain.key] = replace(found[chain.key], recent=told)
    return found


def _only(chain: Chain, result: Applied | None) -> Staged | None:
    """The one transaction of a table whose rows this process holds."""
    if result is None or result.handle is None or len(result.staged) != 1 or len(chain.effects) != 1:
        return None
    return result.staged[0] if result.staged[0].cacheable else None


def _of_landed(base: Pin | None, staged: Staged, landed: Any) -> Recent | None:
    changed = numbering.changed_by(staged.transaction.operation)
    numbers = None if changed is None else numbering.numbers_in(landed, changed.new)
    if base is None or changed is None or numbers is None:
        return None
    return _after(base, staged, changed, numbers)


def _after(pin: Pin, staged: Staged, changed: numbering.Changed, numbers: Sequence[int]) -> Recent | None:
    kept = recent.without(pin.recent, changed.gone)
    rows = staged.rows
    if len(changed.new) != 1 or rows is None or rows.num_rows != changed.new[0].physical_rows:
        return kept  # which row lies in which fragment is not told where there are several
    if rows.num_rows > recent.FRAGMENT_ROWS_MAX:
        return kept
    ids: list[Any] = rows.column("id").to_pylist()
    return recent.extended(kept, {numbers[0]: ids})
