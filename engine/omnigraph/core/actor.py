"""Who a write is attributed to: the argument, then the environment, else None. Never the login name."""

from __future__ import annotations

import os

ENVIRONMENT = "OMNIGRAPH_ACTOR"


def resolve_actor(given: str | None) -> str | None:
    """The actor to record."""
    return given if given is not None else os.environ.get(ENVIRONMENT) or None
