from __future__ import annotations

import json
import threading
from dataclasses import dataclass

import pytest

from omnigraph.core.meter import REQUEST_CLASSES, Meter, StorageCost


def test_the_classes_add_up_to_the_total() -> None:
    meter = Meter()
    for i, name in enumerate(REQUEST_CLASSES):
        meter.count(name, n=i, bytes_read=1, bytes_written=2)
    cost = meter.snapshot()
    assert cost.requests == sum(cost.by_class.values()) == sum(range(len(REQUEST_CLASSES)))
    assert (cost.bytes_read, cost.bytes_written) == (len(REQUEST_CLASSES), 2 * len(REQUEST_CLASSES))
    assert json.loads(json.dumps(cost.to_dict())) == cost.to_dict()


def test_an_unknown_class_cannot_be_counted() -> None:
    with pytest.raises(KeyError):
        Meter().count("misc")


def test_counts_of_many_threads_are_not_lost() -> None:
    meter = Meter()

    def work() -> None:
        for _ in range(5_000):
            meter.count("data", bytes_written=3)
            meter.step()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cost = meter.snapshot()
    assert (cost.requests, cost.hops, cost.bytes_written) == (30_000, 30_000, 90_000)


def test_a_snapshot_does_not_change_afterwards() -> None:
    meter = Meter()
    meter.count("intent")
    before = meter.snapshot()
    meter.count("intent")
    assert before.requests == 1


def test_costs_add_and_inexactness_sticks() -> None:
    meter = Meter()
    meter.count("manifest", 2)
    meter.add(StorageCost(requests=3, hops=1, by_class={"data": 3}, exact=False))
    assert meter.snapshot() == StorageCost(5, 1, 0, 0, {"data": 3, "manifest": 2}, exact=False)
    assert StorageCost(1, 1, 1, 1, {"data": 1}) + StorageCost(2, 0, 0, 0, {"data": 1, "other": 1}) == StorageCost(
        3, 1, 1, 1, {"data": 2, "other": 1}
    )


# --- sections: requests that a shared counter sees -----------------------------------------------------------------------


@dataclass
class Counted:
    read_iops: int
    write_iops: int = 0
    written_bytes: int = 0

    @property
    def read_bytes(self) -> int:
        return 10 * self.read_iops


class Client:
    """A store client with one counter, as all handles of a graph share it."""

    def __init__(self) -> None:
        self.seen = 0

    def send(self, n: int = 1) -> None:
        self.seen += n

    def drain(self) -> Counted:
        seen, self.seen = self.seen, 0
        return Counted(seen)


def test_what_was_sent_before_a_section_is_not_counted() -> None:
    meter, client = Meter(), Client()
    client.send(5)
    with meter.section("data", client.drain):
        client.send(2)
    client.send(1)
    assert meter.snapshot().by_class == {"data": 2}
    assert meter.snapshot().bytes_read == 20


def test_sections_side_by_side_lose_and_double_nothing() -> None:
    meter, client = Meter(), Client()
    with meter.section("versions", client.drain):
        client.send(1)
        with meter.section("versions", client.drain):
            client.send(3)
        client.send(2)
    assert meter.snapshot().by_class == {"versions": 6}


@pytest.mark.parametrize("order", ["known ends first", "known ends last"])
@pytest.mark.parametrize("late", [False, True])
def test_a_section_that_knows_its_number_takes_just_that_from_a_shared_counter(order: str, late: bool) -> None:
    meter, client = Meter(), Client()
    known = meter.section("manifest", client.drain, exactly=1)
    other = meter.section("versions", client.drain)
    other.__enter__()
    known.__enter__()
    client.send(3 if late else 4)
    first, second = (known, other) if order == "known ends first" else (other, known)
    first.__exit__(None, None, None)
    if late:
        client.send(1)
    second.__exit__(None, None, None)
    assert meter.snapshot().by_class == {"manifest": 1, "versions": 3}


def test_a_section_without_a_counter_yet_gets_one_late() -> None:
    meter, client = Meter(), Client()
    with meter.section("versions", None) as section:
        client.send(2)
        section.drain = client.drain
    assert meter.snapshot().by_class == {"versions": 2}


def test_a_counter_that_cannot_be_asked_now_is_asked_by_the_next_section() -> None:
    meter, client = Meter(), Client()

    def busy() -> Counted:
        raise RuntimeError("Already mutably borrowed")

    with meter.section("versions", client.drain):
        with meter.section("data", busy):
            client.send(2)
        client.send(1)
    with meter.section("data", busy):
        pass
    assert meter.snapshot().requests == 3
