from __future__ import annotations

import json
import threading

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
