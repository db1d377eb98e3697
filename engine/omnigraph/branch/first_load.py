"""``load(from_branch=…)``: the branch is made where it is absent, then the load runs as ever."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from omnigraph.commit.engine import Engine
from omnigraph.commit.txn import read_current
from omnigraph.core.errors import AlreadyExists, NotFound, OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.options import LoadOptions
from omnigraph.store import layout
from omnigraph.wire.receipt import LoadPlan
from omnigraph.write.load import plan_load


@contextlib.contextmanager
def branch_for(engine: Engine, options: LoadOptions) -> Iterator[None]:
    """Make the branch of a load if it is not there. A load that fails leaves it, and its error says so."""
    if options.from_branch is None or _is_there(engine, options.branch):
        yield
        return
    from omnigraph.branch.create import create_branch

    source = options.but(branch=options.from_branch, from_branch=None, expect_head=None)
    made = True
    try:
        create_branch(engine, options.branch, at=None, options=source, meter=Meter())
    except AlreadyExists:
        if not _is_there(engine, options.branch):
            raise
        made = False  # another process made it meanwhile
    try:
        yield
    except OmnigraphError as error:
        if made:
            error.facts.setdefault("branch_created", options.branch)
            error.hint = f"{error.hint}; branch {options.branch!r} was created and stays"
        raise


def plan_on(engine: Engine, source: Any, options: LoadOptions) -> LoadPlan:
    """What a load would do: a branch that would be made has the state of the one that it would be made from."""
    if options.from_branch is None or _is_there(engine, options.branch):
        return plan_load(engine, source, options)
    layout.branch_name_key(options.branch)
    plan = plan_load(engine, source, options.but(branch=options.from_branch, from_branch=None))
    return replace(plan, branch=options.branch)


def _is_there(engine: Engine, branch: str) -> bool:
    try:
        read_current(engine, branch, meter=Meter())
    except NotFound:
        return False
    return True
