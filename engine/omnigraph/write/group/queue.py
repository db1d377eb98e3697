"""The queue of one branch on one handle: a request that finds no leader leads, and hands the lead to the oldest that waits.

There is no timer. A leader waits a tenth of a commit at most, and only where the last group had several members: its callers
are likely to come back at once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from omnigraph.commit.plan import REQUESTS_MAX
from omnigraph.core.limits import Limits
from omnigraph.manifest.state import TAIL_KEEP
from omnigraph.write.group.member import Answer, Call, Member, Stage

MEMBERS_MAX: Final = REQUESTS_MAX
BYTES_MAX: Final = 4 * 1024 * 1024
LINGER_COMMITS: Final = 0.1


class GroupQueue:
    """Requests in the order in which they came."""

    def __init__(self, limits: Limits) -> None:
        self.lock = threading.Lock()
        self._arrived = threading.Condition(self.lock)
        self._tables_max = limits.tables_per_commit
        self._waiting: deque[Member] = deque()
        self._led = False
        self._last = 1  # how many members the last group had

    @property
    def idle(self) -> bool:
        """Whether there is no leader: a request that comes now is prepared at once."""
        return not self._led

    def enter(self, member: Member) -> bool:
        """Whether it leads; it waits otherwise."""
        with self.lock:
            if not self._led:
                self._led = True
                return True
            self._waiting.append(member)
            self._arrived.notify()
            return False

    def gather(self, leader: Member, commit_s: float) -> list[Member]:
        """The leader and those that share its plan, in the order in which they came."""
        with self.lock:
            if self._last > 1:
                wanted = self._last
                self._arrived.wait_for(lambda: len(self._waiting) + 1 >= wanted, LINGER_COMMITS * commit_s)
            chosen = choose(leader, self._waiting, self._tables_max)
            for member in chosen[1:]:
                self._waiting.remove(member)
            for member in chosen:
                member.stage = Stage.TAKEN
            self._last = len(chosen)
            return chosen

    def put_back(self, members: Sequence[Member]) -> None:
        """They wait for the next group, before those that came after them."""
        with self.lock:
            for member in reversed(members):
                if member.stage is Stage.TAKEN:
                    member.stage = Stage.WAITING
                    self._waiting.appendleft(member)

    def pass_on(self) -> None:
        """The leader is done: the oldest that waits leads next."""
        with self.lock:
            if self._waiting:
                self._waiting.popleft().wake(Call.LEAD)
            else:
                self._led = False

    def answer(self, member: Member, answer: Answer) -> None:
        with self.lock:
            member.give(answer)

    def send_alone(self, member: Member) -> None:
        with self.lock:
            if member.stage is Stage.TAKEN:
                member.stage = Stage.WAITING
                member.wake(Call.ALONE)

    def live(self, members: Iterable[Member]) -> list[Member]:
        """Those that are still to be planned. A plan that answered them before has ended by an abort, or was never sent."""
        with self.lock:
            found = [member for member in members if member.stage in (Stage.TAKEN, Stage.ARMED)]
            for member in found:
                member.stage = Stage.TAKEN
            return found

    def take_call(self, member: Member) -> Call:
        with self.lock:
            call, member.call = member.call, None
            member.woken.clear()
            assert call is not None
            return call

    def leave(self, member: Member) -> Stage:
        """The caller stops waiting. Returns where the member stood; ``OVER`` where it has its answer."""
        with self.lock:
            if member.call is not None:
                return Stage.OVER
            stood, member.stage = member.stage, Stage.OVER
            if stood is Stage.WAITING:
                self._waiting.remove(member)
            return stood


def choose(leader: Member, waiting: Iterable[Member], tables_max: int) -> list[Member]:
    """Who may share a plan with the leader, before anything is read. Pure.

    A key comes once, because the second is to find the first one's commit; an expected head stands first only, because the
    commits before it would not be durable when it is compared."""
    chosen, tables, size = [leader], set(leader.request.keys), leader.nbytes
    keys = {leader.request.idempotency_key} - {None}
    for member in waiting:
        request = member.request
        if len(chosen) >= min(MEMBERS_MAX, TAIL_KEEP):
            break
        fits = size + member.nbytes <= BYTES_MAX and len(tables | request.keys) <= tables_max
        if not fits or request.expect_head is not None or request.idempotency_key in keys:
            continue
        chosen.append(member)
        tables |= request.keys
        size += member.nbytes
        keys |= {request.idempotency_key} - {None}
    return chosen
