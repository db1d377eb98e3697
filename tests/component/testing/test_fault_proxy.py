"""The fault proxy does to real clients what it says, and counts what they did."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import botocore.config
import botocore.exceptions
import lance
import pyarrow as pa
import pytest
from lance import LanceDataset
from lance.fragment import write_fragments

from omnigraph.testing.emulator import S3Emulator, environment
from omnigraph.testing.faults import (
    CATALOGUE,
    MUTATING,
    Control,
    FaultProxy,
    FaultProxyProcess,
    Match,
    Rule,
    cut_upload,
    delay,
    drop,
    duplicate,
    empty,
    fail,
    flip,
    hold,
    ignore_condition,
    kill,
    short_list,
    swallow,
    truncate,
)

ROWS = pa.table({"id": ["a"]})


@pytest.fixture(params=[FaultProxy, FaultProxyProcess], ids=["thread", "process"])
def proxy(request: pytest.FixtureRequest, s3_emulator: S3Emulator) -> Iterator[Control]:
    with request.param(s3_emulator.endpoint) as control:
        yield control


@pytest.fixture
def bucket(s3_emulator: S3Emulator) -> str:
    name = f"proxy-{uuid.uuid4().hex[:12]}"
    s3_emulator.create_bucket(name)
    return name


def boto(endpoint: str, *, attempts: int = 1) -> Any:
    """A client whose attempts are as many as told, so that a fault shows as it is."""
    config = botocore.config.Config(
        retries={"total_max_attempts": attempts, "mode": "standard"},
        connect_timeout=5,
        read_timeout=10,
        response_checksum_validation="when_required",
    )
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "region_name": "us-east-1"}
    return boto3.client("s3", endpoint_url=endpoint, config=config, **keys)


def lance_options(endpoint: str) -> dict[str, str]:
    return {
        "aws_endpoint": endpoint,
        "allow_http": "true",
        "aws_access_key_id": "x",
        "aws_secret_access_key": "y",
        "aws_region": "us-east-1",
    }


class Store:
    """One bucket, seen through the proxy and past it."""

    def __init__(self, proxy: Control, emulator: S3Emulator, bucket: str) -> None:
        self.bucket = bucket
        self.through = boto(proxy.endpoint)
        self.past = boto(emulator.endpoint)

    def put(self, key: str, body: bytes = b"new", **extra: str) -> Any:
        return self.through.put_object(Bucket=self.bucket, Key=key, Body=body, **extra)

    def get(self, key: str) -> bytes:
        body: bytes = self.through.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return body

    def keys(self, prefix: str = "") -> list[str]:
        listing = self.through.list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        return [entry["Key"] for entry in listing.get("Contents", [])]

    def truth(self) -> dict[str, bytes]:
        listing = self.past.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return {
            entry["Key"]: self.past.get_object(Bucket=self.bucket, Key=entry["Key"])["Body"].read() for entry in listing
        }


@pytest.fixture
def store(proxy: Control, s3_emulator: S3Emulator, bucket: str) -> Store:
    made = Store(proxy, s3_emulator, bucket)
    proxy.reset()
    return made


# --- counting -----------------------------------------------------------------------------------------------------------


def test_every_request_of_boto3_is_counted_once_by_class_and_operation(proxy: Control, store: Store) -> None:
    store.put("g/__recovery/1.json")
    store.put("g/__boundary/main/1")
    store.get("g/__recovery/1.json")
    store.keys("g/__recovery/")
    store.through.delete_object(Bucket=store.bucket, Key="g/__recovery/1.json")
    store.through.delete_objects(Bucket=store.bucket, Delete={"Objects": [{"Key": "g/__boundary/main/1"}]})
    assert proxy.operations() == {
        "boundary delete-many": 1,
        "boundary put": 1,
        "intent delete": 1,
        "intent get": 1,
        "intent list": 1,
        "intent put": 1,
    }
    assert proxy.counts()["total"] == 6
    assert proxy.mutations == 4
    assert [line.ordinal for line in proxy.log] == [1, 2, 0, 0, 3, 4]
    assert all(line.status in (200, 204) and line.upstream_s > 0 for line in proxy.log)


def test_bytes_arrive_as_they_were_sent(proxy: Control, store: Store) -> None:
    body = os.urandom(3_000_000)
    store.put("g/big", body)
    assert store.get("g/big") == body
    sent, received = proxy.log
    assert sent.size_in >= len(body)
    assert received.size_out == len(body)


def test_a_chunked_upload_arrives_whole(proxy: Control, store: Store) -> None:
    address = urlsplit(proxy.endpoint)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
    for key in ("g/one", "g/two"):  # the second one on the same connection
        connection.request("PUT", f"/{store.bucket}/{key}", body=iter([b"part ", b"and part"]), encode_chunked=True)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
    connection.close()
    assert store.truth() == {"g/one": b"part and part", "g/two": b"part and part"}


def test_lance_costs_at_the_wire_are_those_measured(proxy: Control, bucket: str) -> None:
    uri = f"s3://{bucket}/g/nodes/P.lance"
    handle = lance.write_dataset(ROWS, uri, storage_options=lance_options(proxy.endpoint))

    proxy.reset()
    staged = write_fragments(ROWS, handle, return_transaction=True)
    assert proxy.operations() == {"data put": 1}

    proxy.reset()
    handle = LanceDataset.commit(handle, staged)
    assert proxy.operations() == {"versions list": 1, "versions put": 2}

    replaced = write_fragments(ROWS, handle, mode="overwrite", return_transaction=True)
    proxy.reset()
    LanceDataset.commit(handle, replaced, max_retries=0)
    assert proxy.operations() == {"versions put": 2}

    proxy.reset()
    lance.dataset(uri, version=2, storage_options=lance_options(proxy.endpoint))
    assert proxy.operations() == {"versions get": 1, "versions head": 1}


def test_hops_follow_injected_latency_and_requests_side_by_side_are_one_hop(proxy: Control, store: Store) -> None:
    proxy.slow(latency_s=0.05)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(store.put, ["g/1", "g/2", "g/3"]))
    store.put("g/4")
    assert proxy.hops == 2
    assert all(line.ended_s - line.started_s >= 0.05 + line.upstream_s * 0.5 for line in proxy.log)


def test_the_cap_bounds_requests_at_the_store(proxy: Control, store: Store) -> None:
    proxy.slow(latency_s=0.05, in_flight_max=2)
    began = time.monotonic()
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(store.put, [f"g/{n}" for n in range(6)]))
    assert time.monotonic() - began >= 3 * 0.05
    assert proxy.in_flight_peak > 2  # the clients did come all at once


def test_reset_empties_the_log_and_keeps_the_rules(proxy: Control, store: Store) -> None:
    armed = proxy.rule(Rule(fail(503), at=2))
    store.put("g/1")
    proxy.reset()
    assert proxy.log == []
    with pytest.raises(botocore.exceptions.ClientError):
        store.put("g/2")
    assert armed.fired == 1
    assert proxy.mutations == 1


# --- faults -------------------------------------------------------------------------------------------------------------


def test_a_failure_before_leaves_the_store_as_it_was(proxy: Control, store: Store) -> None:
    proxy.rule(Rule(fail(500), MUTATING))
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        store.put("g/1")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    assert store.truth() == {}
    assert [(line.status, line.fault) for line in proxy.log] == [(500, "fail")]


def test_a_failure_after_is_reported_though_it_happened(proxy: Control, store: Store) -> None:
    proxy.rule(Rule(fail(412, after=True), MUTATING))
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        store.put("g/1")
    assert caught.value.response["Error"]["Code"] == "PreconditionFailed"
    assert store.truth() == {"g/1": b"new"}


@pytest.mark.parametrize("after", [False, True], ids=["request lost", "answer lost"])
def test_a_dropped_connection_loses_the_request_or_the_answer(proxy: Control, store: Store, after: bool) -> None:
    proxy.rule(Rule(drop(after=after), MUTATING))
    with pytest.raises(botocore.exceptions.ConnectionClosedError):
        store.put("g/1")
    assert store.truth() == ({"g/1": b"new"} if after else {})
    assert proxy.log[0].status == 0
    store.put("g/2")  # once only


def test_a_create_whose_answer_is_lost_is_refused_to_its_own_author(proxy: Control, store: Store) -> None:
    stubborn = boto(proxy.endpoint, attempts=2)
    proxy.rule(Rule(drop(after=True), MUTATING))
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        stubborn.put_object(Bucket=store.bucket, Key="g/1", Body=b"mine", IfNoneMatch="*")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 412
    assert store.truth() == {"g/1": b"mine"}
    assert [line.status for line in proxy.log] == [0, 412]


def test_an_upload_is_cut_before_the_store_sees_it(proxy: Control, store: Store) -> None:
    proxy.rule(Rule(cut_upload(), MUTATING))
    with pytest.raises((botocore.exceptions.HTTPClientError, botocore.exceptions.ConnectionError)):
        store.put("g/1", os.urandom(1_000_000))
    assert store.truth() == {}


def test_an_answer_is_cut(proxy: Control, store: Store) -> None:
    store.put("g/1", b"x" * 1_000)
    proxy.rule(Rule(truncate(10), Match(methods=("GET",))))
    with pytest.raises(botocore.exceptions.BotoCoreError):
        store.get("g/1")
    assert store.get("g/1") == b"x" * 1_000


def test_a_duplicate_reaches_the_store_twice(proxy: Control, store: Store) -> None:
    proxy.rule(Rule(duplicate(), MUTATING))
    store.put("g/1", IfNoneMatch="*")
    proxy.rule(Rule(duplicate(answer_second=True), MUTATING))
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        store.put("g/2", IfNoneMatch="*")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 412
    assert set(store.truth()) == {"g/1", "g/2"}


def test_a_store_without_conditions_can_be_had(proxy: Control, store: Store) -> None:
    store.put("g/1", b"first", IfNoneMatch="*")
    proxy.rule(Rule(ignore_condition(), MUTATING))
    store.put("g/1", b"second", IfNoneMatch="*")
    assert store.truth() == {"g/1": b"second"}


def test_a_listing_can_miss_its_newest_key(proxy: Control, store: Store) -> None:
    store.put("g/old")
    store.put("g/new")
    store.past.copy_object(Bucket=store.bucket, Key="g/new", CopySource=f"{store.bucket}/g/old")
    proxy.rule(Rule(short_list(), Match(operations=("list",))))
    assert len(store.keys()) == 1
    assert len(store.keys()) == 2


def test_damage_is_done_to_the_answer_and_not_to_the_object(proxy: Control, store: Store) -> None:
    store.put("g/1", b"12345")
    for action, seen in ((flip(), b"12245"), (empty(), b"")):
        proxy.rule(Rule(action, Match(methods=("GET",))))
        assert store.get("g/1") == seen
    assert store.truth() == {"g/1": b"12345"}


def test_a_swallowed_request_is_answered_never(proxy: Control, store: Store) -> None:
    armed = proxy.rule(Rule(swallow(after=True), MUTATING))
    address = urlsplit(proxy.endpoint)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=0.3)
    with pytest.raises(TimeoutError):
        connection.request("PUT", f"/{store.bucket}/g/1", body=b"new")
        connection.getresponse()
    connection.close()
    armed.wait_fired()
    proxy.drain()  # a client that has gone away is noticed
    assert store.truth() == {"g/1": b"new"}


def test_a_delay_is_waited_for(proxy: Control, store: Store) -> None:
    proxy.rule(Rule(delay(0.2), MUTATING))
    began = time.monotonic()
    store.put("g/1")
    assert time.monotonic() - began >= 0.2


@pytest.mark.parametrize("after", [False, True])
def test_a_held_request_stands_still_until_it_is_released(proxy: Control, store: Store, after: bool) -> None:
    held = proxy.rule(Rule(hold(after=after), Match(key=r"g/slow$")))
    with ThreadPoolExecutor(1) as pool:
        stalled = pool.submit(store.put, "g/slow")
        held.wait_fired()
        store.put("g/fast")
        assert set(store.truth()) == ({"g/fast", "g/slow"} if after else {"g/fast"})
        assert not stalled.done()
        held.release()
        stalled.result(10)
    assert set(store.truth()) == {"g/fast", "g/slow"}


def test_calm_lets_go_what_is_held_and_drops_the_rules(proxy: Control, store: Store) -> None:
    held = proxy.rule(Rule(hold(), MUTATING, times=None))
    with ThreadPoolExecutor(1) as pool:
        stalled = pool.submit(store.put, "g/1")
        held.wait_fired()
        proxy.calm()
        stalled.result(10)
    store.put("g/2")
    assert held.fired == 1


def test_a_rule_meets_only_what_it_names_and_only_as_often_as_told(proxy: Control, store: Store) -> None:
    proxy.rule(Rule(fail(503), Match(mutating=True, classes=("intent",)), at=2, times=2))
    outcome = []
    for n in range(5):
        store.put(f"g/other/{n}")
        try:
            store.put(f"g/__recovery/{n}")
        except botocore.exceptions.ClientError:
            outcome.append("failed")
        else:
            outcome.append("ok")
    assert outcome == ["ok", "failed", "failed", "ok", "ok"]


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_after_any_fault_the_proxy_serves_on(proxy: Control, store: Store, name: str) -> None:
    proxy.rule(Rule(CATALOGUE[name]))
    try:
        store.put("g/1")
        store.get("g/1")
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError):
        pass
    proxy.calm()
    proxy.drain()
    store.put("g/2", b"after")
    assert store.get("g/2") == b"after"


# --- killing ------------------------------------------------------------------------------------------------------------

CHILD = """
import sys
import boto3, botocore.config
config = botocore.config.Config(retries={"total_max_attempts": 1})
client = boto3.client("s3", config=config)
for n in range(1, 6):
    client.put_object(Bucket=sys.argv[1], Key=f"g/{n}", Body=b"x")
    client.list_objects_v2(Bucket=sys.argv[1])
"""


@pytest.mark.parametrize("after", [False, True], ids=["request lost", "answer lost"])
@pytest.mark.parametrize("cut", [1, 3])
def test_a_child_dies_exactly_at_its_kth_mutating_request(proxy: Control, store: Store, cut: int, after: bool) -> None:
    dead = threading.Event()

    def end_child() -> None:
        os.kill(child.pid, signal.SIGKILL)
        child.wait(10)
        dead.set()

    armed = proxy.rule(Rule(kill(after=after), MUTATING, at=cut), on_kill=end_child)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, store.bucket], env={**os.environ, **environment(proxy.endpoint)}
    )
    assert dead.wait(30)
    armed.wait_fired()
    proxy.calm()
    proxy.drain()
    assert child.returncode == -signal.SIGKILL
    landed = cut if after else cut - 1
    assert set(store.truth()) == {f"g/{n}" for n in range(1, landed + 1)}
    store.put("g/next")


def test_nothing_reaches_the_store_between_the_kill_and_the_calm(proxy: Control, store: Store) -> None:
    proxy.rule(Rule(kill(), MUTATING), on_kill=lambda: None)
    with pytest.raises(botocore.exceptions.ConnectionClosedError):
        store.put("g/1")
    with pytest.raises(botocore.exceptions.ConnectionClosedError):
        store.put("g/2")
    assert store.truth() == {}
    proxy.calm()
    store.put("g/3")
    assert set(store.truth()) == {"g/3"}


def test_a_kill_without_somebody_to_do_it_is_refused(proxy: Control) -> None:
    with pytest.raises(ValueError, match="on_kill"):
        proxy.rule(Rule(kill()))


# --- the emulator -------------------------------------------------------------------------------------------------------


def test_a_conditional_create_has_one_winner(s3_emulator: S3Emulator, bucket: str) -> None:
    clients = [boto(s3_emulator.endpoint) for _ in range(6)]

    def race(client: Any, key: str) -> int:
        try:
            client.put_object(Bucket=bucket, Key=key, Body=b"x", IfNoneMatch="*")
        except botocore.exceptions.ClientError:
            return 0
        return 1

    with ThreadPoolExecutor(6) as pool:
        for n in range(20):
            assert sum(pool.map(lambda client, key=f"k{n}": race(client, key), clients)) == 1


def test_an_emulator_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from omnigraph.testing.emulator import S3Emulator\n"
            "import sys, time\n"
            "e = S3Emulator(); print(e.endpoint, flush=True); time.sleep(60)",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    address = urlsplit(parent.stdout.readline().strip())
    parent.kill()
    parent.wait(10)
    # The child ends when the pipe from its parent closes; its port is free from then on.
    deadline = time.monotonic() + 10
    alive = True
    while alive and time.monotonic() < deadline:
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=1)
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
        except OSError:
            alive = False
        connection.close()
    assert not alive
