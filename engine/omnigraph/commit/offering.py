"""What one write offers to the writers ahead of it, and what those behind it offer to it. Values only; the queue fills them in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.commit.intent_format import Intent
    from omnigraph.commit.plan import RequestInfo
    from omnigraph.commit.txn import Txn


@dataclass(frozen=True)
class Offer:
    """What a file says beside its tables: the request, and its input in a form that this package does not look into."""

    info: RequestInfo
    body: Mapping[str, Any]


def _nobody() -> Sequence[Intent]:
    return ()


class Offering:
    """How one write shares plans with writers of other processes. ``encode``: what it may offer them in a state, None where it may not.

    The queue fills in the rest. ``info``: the request as a file offers it, from before that file is written until a record under its id is
    seen. ``behind``: the offers of the writers that wait behind this one, oldest first. ``guests``: of the writer that plans, the operations whose
    offers the plan under way carries."""

    def __init__(self, encode: Callable[[Txn], Offer | None] | None = None) -> None:
        self.encode = encode
        self.info: RequestInfo | None = None
        self.op = ""
        self.behind: Callable[[], Sequence[Intent]] = _nobody
        self.guests: tuple[str, ...] = ()
