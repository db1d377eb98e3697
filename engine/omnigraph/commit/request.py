"""What a caller asks of the commit protocol, what a preparer answers, and how a write ends. Values only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.commit.builder import Work
from omnigraph.commit.steps import StagedFiles

if TYPE_CHECKING:
    from omnigraph.commit.offering import Offering
    from omnigraph.commit.plan import PublishPlan, RequestInfo
    from omnigraph.commit.txn import Txn
    from omnigraph.core.meter import StorageCost
    from omnigraph.manifest.rows import CommitRow


class PrepareAgain(Exception):
    """Raised by a preparer: the state that it was given is not one to answer from, so ask with a newer one."""


class MetOthers(Exception):
    """Leaves a write that has met writers of other processes, before its next plan: nothing of it is durable, and no plan of it is
    open. Only where its request asks for that."""


class CarriedOut(Exception):
    """Leaves a write whose request another writer has committed, from its offer: this is how it ended."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__("carried out by another writer")
        self.outcome = outcome


@dataclass(frozen=True)
class Request:
    """What the caller asked for, apart from the data. ``request`` and ``content`` are digests of the call and of its input,
    by which a repeated idempotency key is compared. ``several``: it stands for requests that its preparer admits, refuses and names.
    ``offering``: how it shares plans with writers of other processes. ``carried``: it is one that another process has offered.
    ``leaves``: raise ``MetOthers`` instead of queueing for its tables, so that its caller can write it in another way.
    ``group``: whether it may share its swap; None: as its handle says."""

    kind: str
    branch: str
    keys: frozenset[str]  # tables that may be written: locked in this process, queued for between processes
    actor: str | None = None
    idempotency_key: str | None = None
    expect_head: str | None = None
    deadline_s: float = 60.0
    request: str | None = None
    content: str | None = None
    several: bool = False
    offering: Offering | None = field(default=None, compare=False, repr=False)
    carried: RequestInfo | None = None
    leaves: bool = False
    group: bool | None = None
    files: StagedFiles = field(default_factory=StagedFiles, compare=False, repr=False)


@dataclass(frozen=True)
class Prepared(Work):
    """A write, validated against the pins of one transaction. ``requests``: those that its plan answers, in order, where they
    are several. ``sealed`` is asked before the plan is armed whether it may be."""

    requests: tuple[Request, ...] = ()
    sealed: Callable[[PublishPlan], bool] | None = None

    # May the plan go on although tables that it only read have moved?
    revalidate: Callable[[Txn], bool] | None = None
    stage_first: bool = False  # staging takes long: it ends before the intent is armed
    # Inherited tables for which files have to be staged before there is a plan. Nothing else of such a preparation counts: it is
    # made again once the branch has lines of its own for them.
    own_first: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Outcome:
    """How the write ended. ``row`` is None where nothing had to change. ``rows``: of all requests of its plan, in order; ``swap``: the
    ids of all commits of its swap, those of other plans included. ``cost``: what they cost together, where they were several."""

    row: CommitRow | None
    replayed: bool = False
    warnings: tuple[str, ...] = ()
    rows: tuple[CommitRow, ...] = ()
    cost: StorageCost | None = None
    swap: tuple[str, ...] = ()

    @property
    def grouped_with(self) -> tuple[str, ...]:
        """The ids of the other commits of its swap, in order."""
        ids = self.swap or tuple(row.commit_id for row in self.rows)
        return tuple(one for one in ids if self.row is not None and one != self.row.commit_id)
