"""Where requests of one handle meet: each is committed by itself, or together with others that came in the same moment.

A request that finds no other before it goes the way of every single write, on its caller's thread. Those that come meanwhile
form the next group. A group of two or more runs on a thread of its own: interrupting one caller ends nothing of the others'.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import weakref
from dataclasses import replace
from typing import Final

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import Engine
from omnigraph.commit.offering import Offering
from omnigraph.commit.protocol.admission import check_request
from omnigraph.commit.protocol.run import run
from omnigraph.commit.request import MetOthers, Outcome, Request
from omnigraph.core.meter import Meter
from omnigraph.write.group.carrying import offering_of
from omnigraph.write.group.member import Author, Call, Member, Stage
from omnigraph.write.group.plan import DEADLINE_MIN_S, Group
from omnigraph.write.group.queue import BYTES_MAX, GroupQueue

_fronts: Final[weakref.WeakKeyDictionary[Engine, dict[str | None, GroupQueue]]] = weakref.WeakKeyDictionary()
_lock: Final = threading.Lock()


def queue_of(engine: Engine, branch: str) -> GroupQueue:
    """The queue of a branch, by its identity: a name may come to mean another branch."""
    ref = engine.ref_of(branch)
    with _lock:
        queues = _fronts.setdefault(engine, {})
        if ref not in queues:
            queues[ref] = GroupQueue(engine.limits)
        return queues[ref]


def shares(engine: Engine, wanted: bool | None, nbytes: int) -> bool:
    """Whether a request may share a plan, as far as the handle, its caller and its size say."""
    return engine.may_share(wanted) and nbytes <= BYTES_MAX and engine.exclusive_token is None


def submit(engine: Engine, request: Request, author: Author, nbytes: int, meter: Meter) -> Outcome:
    """Write it, alone or in a group, and return how it ended for this request."""
    check_request(engine, request, meter)
    queue = queue_of(engine, request.branch)
    member = Member(request, author, nbytes, Deadline(engine.clock, request.deadline_s), meter)
    leads = queue.enter(member)
    while True:
        call = Call.LEAD if leads else _called(queue, member)
        leads = False
        if call is Call.ANSWER:
            return member.result()
        if call is Call.ALONE:
            return _alone(engine, member)
        outcome = _lead(engine, queue, member)
        if outcome is not None:
            return outcome


def _lead(engine: Engine, queue: GroupQueue, member: Member) -> Outcome | None:
    """Commit what waits; the lead is handed on whatever happens here. None: a group is under way that answers the leader too."""
    handed_on = False
    try:
        members = queue.gather(member, engine.timing.commit_s)
        if len(members) == 1:
            return _first_alone(engine, queue, member) if engine.offers else _alone(engine, member)
        group = Group(engine, queue, members, Meter(), Offering() if engine.offers else None)
        context = contextvars.copy_context()
        try:
            threading.Thread(target=context.run, args=(group.run,), name="omnigraph-group", daemon=True).start()
            handed_on = True
        except RuntimeError:  # no thread is to be had
            queue.put_back(members[1:])
            return _alone(engine, member)
    finally:
        if not handed_on:
            queue.pass_on()
    return None


def _first_alone(engine: Engine, queue: GroupQueue, member: Member) -> Outcome:
    """The way of every single write until writers of other processes are met: then offer the input, and carry out what they offer."""
    if not meets_others(engine):
        with contextlib.suppress(MetOthers):
            return _alone(engine, member, leaves=True)
    return _offering(engine, queue, member)


def meets_others(engine: Engine) -> bool:
    """Whether writers of the same tables were met in other processes lately."""
    return engine.timing.contended


def _offering(engine: Engine, queue: GroupQueue, member: Member) -> Outcome:
    offering = offering_of(engine, member)
    member.request = replace(member.request, offering=offering)
    outcome = Group(engine, queue, [member], member.meter, offering).run_alone()
    if outcome is None:
        member.request = replace(member.request, offering=None)
        return _alone(engine, member)
    return outcome


def _alone(engine: Engine, member: Member, *, leaves: bool = False) -> Outcome:
    left = max(DEADLINE_MIN_S, member.deadline.left())
    return run(engine, replace(member.request, deadline_s=left, leaves=leaves), member.author.prepare, member.meter)


def _called(queue: GroupQueue, member: Member) -> Call:
    """Wait until the member is called, or its time is up."""
    try:
        while not member.woken.wait(max(0.0, member.deadline.left())):
            stood = queue.leave(member)
            if stood is Stage.ARMED:
                raise member.unknown("its deadline passed before the group that it is in had ended")
            if stood is not Stage.OVER:
                member.deadline.expire("waiting for other writes of this process")
    except BaseException:
        # An interrupt, or the end of its time: no caller waits for this answer any more.
        queue.leave(member)
        if member.call is Call.LEAD:
            queue.pass_on()
        raise
    return queue.take_call(member)
