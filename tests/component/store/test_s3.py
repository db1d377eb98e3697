"""S3 with faults: answers lost, conditions ignored, credentials refused, listings in pages."""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from omnigraph.core.clock import ManualClock
from omnigraph.core.errors import NotFound, OmnigraphError, StoreRefused, StoreUnavailable
from omnigraph.core.meter import Meter
from omnigraph.core.redact import Secrets
from omnigraph.store import KeyExists, Store, layout, open_store
from omnigraph.store.s3 import S3Store
from omnigraph.testing.emulator import S3Emulator
from omnigraph.testing.faults import (
    Action,
    FaultProxy,
    Match,
    Rule,
    cut_upload,
    drop,
    duplicate,
    fail,
    ignore_condition,
    truncate,
)

pytestmark = pytest.mark.fault

KEY = layout.intent_key("01J5ZK3QG7W8X9Y0A1B2C3D4E5")
PUTS = Match(methods=("PUT",), key="__recovery")
GETS = Match(operations=("get",), key="__recovery")
LISTS = Match(operations=("list",))
DELETES = Match(methods=("DELETE",))


@pytest.fixture
def store(proxied_root: str) -> Store:
    """Probed, so that the faults meet the requests of the test, and with a clock that waits for nothing."""
    store = open_store(proxied_root, clock=ManualClock())
    store.check_conditional_create()
    return store


LOST_OR_LATE = {
    "answer lost": drop(after=True),
    "answer lost, 500": fail(500, after=True),
    "answer lost, 503": fail(503, after=True),
    "request lost": drop(),
    "request lost, 503": fail(503),
    "upload cut": cut_upload(),
    "409 before": fail(409),
    "409 after": fail(409, after=True),
    "412 before": fail(412),
    "412 after": fail(412, after=True),
    "sent twice, told of the first": duplicate(),
    "sent twice, told of the second": duplicate(answer_second=True),
    "busy": fail(429),
}


@pytest.mark.parametrize("action", LOST_OR_LATE.values(), ids=LOST_OR_LATE.keys())
def test_one_fault_on_a_create_is_no_failure(store: Store, fault_proxy: FaultProxy, action: Action) -> None:
    rule = fault_proxy.rule(Rule(action, PUTS))
    store.create(KEY, b"mine")
    assert rule.fired == 1
    assert store.get(KEY) == b"mine"


@pytest.mark.parametrize("times", [2, 4, 5])
@pytest.mark.parametrize("action", [drop(after=True), fail(503, after=True)], ids=["dropped", "503"])
def test_a_create_whose_answers_are_all_lost_is_believed_by_its_bytes(
    store: Store, fault_proxy: FaultProxy, action: Action, times: int
) -> None:
    fault_proxy.rule(Rule(action, PUTS, times=times))
    store.create(KEY, b"mine")
    assert store.get(KEY) == b"mine"


@pytest.mark.parametrize("action", [drop(after=True), fail(503, after=True), fail(412)], ids=["dropped", "503", "412"])
def test_a_lost_answer_does_not_claim_an_object_of_somebody_else(
    store: Store, fault_proxy: FaultProxy, action: Action
) -> None:
    store.create(KEY, b"theirs")
    fault_proxy.rule(Rule(action, PUTS))
    with pytest.raises(KeyExists):
        store.create(KEY, b"mine")
    assert store.get(KEY) == b"theirs"


def test_a_create_that_nobody_answers_is_unknown_and_says_so(store: Store, fault_proxy: FaultProxy) -> None:
    fault_proxy.rule(Rule(drop(), Match(key="__recovery"), times=None))
    with pytest.raises(StoreUnavailable) as caught:
        store.create(KEY, b"mine")
    assert caught.value.outcome == "unknown"


def test_a_create_ends_in_bounded_requests_when_every_put_is_refused(store: Store, fault_proxy: FaultProxy) -> None:
    fault_proxy.rule(Rule(fail(412), PUTS, times=None))
    with pytest.raises(StoreUnavailable):
        store.create(KEY, b"mine")
    assert sum(line.method == "PUT" and "__recovery" in line.key for line in fault_proxy.log) == 3


def test_a_request_is_repeated_a_bounded_number_of_times(store: Store, fault_proxy: FaultProxy) -> None:
    fault_proxy.rule(Rule(fail(503), GETS, times=None))
    with pytest.raises(StoreUnavailable):
        store.get(KEY)
    assert fault_proxy.counts()["intent"] == 4


def test_a_create_stops_at_its_deadline(proxied_root: str, fault_proxy: FaultProxy) -> None:
    class Hurried(ManualClock):
        def monotonic(self) -> float:
            self.advance(60)
            return super().monotonic()

    bucket, _, prefix = proxied_root.removeprefix("s3://").partition("/")
    store = S3Store(bucket, prefix, Secrets(), clock=Hurried())
    store.check_conditional_create()
    fault_proxy.rule(Rule(fail(412), PUTS, times=None))
    with pytest.raises(StoreUnavailable):
        store.create(KEY, b"mine")
    assert sum(line.method == "PUT" and "__recovery" in line.key for line in fault_proxy.log) == 1


def test_a_store_that_ignores_the_condition_is_refused_for_writing(proxied_root: str, fault_proxy: FaultProxy) -> None:
    fault_proxy.rule(Rule(ignore_condition(), Match(methods=("PUT",)), times=None))
    store = open_store(proxied_root, clock=ManualClock())
    for write in (store.create, store.replace):
        with pytest.raises(StoreRefused, match="two creates"):
            write(KEY, b"mine")
    assert store.get(KEY) is None
    assert not [line for line in fault_proxy.log if line.mutating and layout.PROBE not in line.key]


def test_a_store_that_does_not_know_the_condition_is_refused(proxied_root: str, fault_proxy: FaultProxy) -> None:
    fault_proxy.rule(Rule(fail(501, "NotImplemented"), Match(methods=("PUT",)), times=None))
    with pytest.raises(StoreRefused) as caught:
        open_store(proxied_root, clock=ManualClock()).create(KEY, b"mine")
    assert "If-None-Match" in caught.value.hint


def test_a_probe_that_was_not_answered_is_repeated_before_the_next_write(
    proxied_root: str, fault_proxy: FaultProxy
) -> None:
    fault_proxy.rule(Rule(fail(503), Match(methods=("PUT",)), times=None))
    store = open_store(proxied_root, clock=ManualClock())
    with pytest.raises(StoreUnavailable):
        store.create(KEY, b"mine")
    fault_proxy.calm()
    fault_proxy.reset()
    store.create(KEY, b"mine")
    assert sum(line.key.endswith(layout.PROBE) for line in fault_proxy.log) == 2


@pytest.mark.parametrize(
    "action", [drop(), drop(after=True), fail(503), fail(500), truncate()], ids=["lost", "cut", "503", "500", "short"]
)
def test_a_read_that_breaks_off_is_repeated(store: Store, fault_proxy: FaultProxy, action: Action) -> None:
    data = os.urandom(100_000)
    store.create(KEY, data)
    rule = fault_proxy.rule(Rule(action, GETS))
    assert store.get(KEY) == data
    assert rule.fired == 1


def test_a_read_that_always_breaks_off_is_unavailable_and_never_short(store: Store, fault_proxy: FaultProxy) -> None:
    store.create(KEY, b"x" * 10_000)
    fault_proxy.rule(Rule(truncate(), GETS, times=None))
    with pytest.raises(StoreUnavailable):
        store.get(KEY)


ANSWERS: list[tuple[Action, type[OmnigraphError]]] = [
    (fail(403, "AccessDenied"), StoreRefused),
    (fail(403, "InvalidAccessKeyId"), StoreRefused),
    (fail(403, "SignatureDoesNotMatch"), StoreRefused),
    (fail(403, "RequestTimeTooSkewed"), StoreRefused),
    (fail(400, "ExpiredToken"), StoreRefused),
    (fail(400, "AuthorizationHeaderMalformed"), StoreRefused),
    (fail(404, "NoSuchBucket"), NotFound),
    (fail(500), StoreUnavailable),
    (fail(503), StoreUnavailable),
    (fail(429), StoreUnavailable),
    (drop(), StoreUnavailable),
]


@pytest.mark.parametrize(("action", "expected"), ANSWERS, ids=lambda v: getattr(v, "code", getattr(v, "__name__", "")))
def test_no_fault_is_taken_for_an_absent_object(
    store: Store, fault_proxy: FaultProxy, action: Action, expected: type[OmnigraphError]
) -> None:
    store.create(KEY, b"mine")
    fault_proxy.rule(Rule(action, times=None))
    operations: list[Callable[[], Any]] = [
        lambda: store.get(KEY),
        lambda: store.list("__recovery/"),
        lambda: store.delete(KEY),
        lambda: store.replace(KEY, b""),
        lambda: store.create("__recovery/new", b""),
    ]
    if action.kind != "fail" or action.code not in ("NoSuchBucket", "ExpiredToken", "AuthorizationHeaderMalformed"):
        operations.append(lambda: store.size(KEY))  # an answer to HEAD carries its status only
    for operation in operations:
        with pytest.raises(expected) as caught:
            operation()
        assert store.uri in str(caught.value) or caught.value.uri.startswith(store.uri)
    failures = ()
    try:
        failures = store.delete_many([KEY])
    except OmnigraphError as error:
        assert type(error) is expected
    assert all(type(failure.error) is expected for failure in failures)


def test_a_delete_whose_answer_is_lost_is_repeated(store: Store, fault_proxy: FaultProxy) -> None:
    store.create(KEY, b"mine")
    fault_proxy.rule(Rule(drop(after=True), DELETES))
    store.delete(KEY)
    assert store.get(KEY) is None


def test_every_attempt_is_counted_as_the_request_it_is(store: Store, fault_proxy: FaultProxy) -> None:
    fault_proxy.reset()
    fault_proxy.rule(Rule(fail(503), PUTS, times=2))
    meter = Meter()
    store.create(KEY, b"12345", meter=meter)
    store.get(KEY, meter=meter)
    store.list("__recovery/", meter=meter)
    store.delete(KEY, meter=meter)
    wire = fault_proxy.counts()
    total = wire.pop("total")
    cost = meter.snapshot()
    assert cost.by_class == {name: n for name, n in wire.items() if n}
    assert cost.requests == total == 6
    assert (cost.bytes_written, cost.bytes_read) == (15, 5)


def test_what_is_counted_is_what_went_over_the_wire(proxied_root: str, fault_proxy: FaultProxy) -> None:
    fault_proxy.reset()
    meter = Meter()
    store = open_store(proxied_root, clock=ManualClock())
    store.create(KEY, b"1", meter=meter)
    store.create(KEY, b"1", meter=meter)
    store.exists(KEY, meter=meter)
    store.exists("none", meter=meter)
    store.delete_many([KEY, "other"], meter=meter)
    store.create(layout.boundary_key("01BX5ZZKBKACTAV9WEVGEMMVRZ", 1), b"", meter=meter)
    wire = fault_proxy.counts()
    assert meter.snapshot().requests == wire.pop("total")
    assert meter.snapshot().by_class == {name: n for name, n in wire.items() if n}


# --- listings -----------------------------------------------------------------------------------------------------------


def test_a_listing_of_more_than_one_page_is_complete(s3_root: str) -> None:
    store = open_store(s3_root)
    expected = [f"p/{i:04d}" for i in range(1_003)]
    shares = [expected[i::6] for i in range(6)]
    threads = [
        threading.Thread(target=lambda share=share: [store.replace(key, b"") for key in share]) for share in shares
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    meter = Meter()
    assert [entry.key for entry in store.list("p/", meter=meter)] == expected
    assert meter.snapshot().requests == 2
    meter = Meter()
    assert [entry.key for entry in store.list("p/", start_after="p/0600", meter=meter)] == expected[601:]
    assert meter.snapshot().requests == 1
    meter = Meter()
    assert store.delete_many(expected, meter=meter) == ()
    assert meter.snapshot().requests == 2
    assert store.list("p/") == []


def test_a_listing_that_fails_on_its_second_page_fails(emulated_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnigraph.store import s3

    monkeypatch.setattr(s3, "_PAGE", 2)
    store = open_store(emulated_root)
    for i in range(5):
        store.create(f"p/{i}", b"")
    assert len(store.list("p/")) == 5
    with FaultProxy(os.environ["AWS_ENDPOINT_URL"]) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        proxy.rule(Rule(fail(503), LISTS, at=2, times=None))
        with pytest.raises(StoreUnavailable):
            open_store(emulated_root, clock=ManualClock()).list("p/")


def test_folder_markers_of_consoles_are_no_objects(s3_root: str) -> None:
    store = open_store(s3_root)
    assert isinstance(store, S3Store)
    store.create("a/k", b"1")
    bucket, _, prefix = s3_root.removeprefix("s3://").partition("/")
    store._requests.client().put_object(Bucket=bucket, Key=f"{prefix}/a/", Body=b"")
    assert [entry.key for entry in store.list("a/")] == ["a/k"]


def test_two_roots_in_one_bucket_do_not_see_each_other(s3_root: str) -> None:
    inner, beside = open_store(s3_root), open_store(s3_root + "2")
    inner.create("k", b"1")
    beside.create("k", b"2")
    beside.create("l", b"2")
    assert [e.key for e in inner.list("")] == ["__probe", "k"]
    assert (inner.get("k"), beside.get("k")) == (b"1", b"2")


def test_a_store_may_be_a_whole_bucket(emulated_root: str) -> None:
    bucket = emulated_root.removeprefix("s3://").partition("/")[0]
    store = open_store(f"s3://{bucket}")
    store.create("a/k", b"1")
    assert store.get("a/k") == b"1"
    assert open_store(f"s3://{bucket}/a").get("k") == b"1"


@pytest.mark.parametrize("prefix", ["a b", "ü", "a+b", "a=b,c@d!", "(x)'y'", "data"])
def test_both_clients_mean_the_same_place_by_a_prefix(s3_root: str, prefix: str) -> None:
    import lance
    import pyarrow as pa

    store = open_store(f"{s3_root}/{prefix}")
    uri, options = store.lance_uri("nodes/X.lance"), store.lance_options()
    lance.write_dataset(pa.table({"id": ["a"]}), uri, storage_options=options)
    listed = [entry.key for entry in store.list("")]
    assert any(key.startswith("nodes/X.lance/data/") for key in listed), listed
    assert lance.dataset(uri, storage_options=options).count_rows() == 1


# --- connection ---------------------------------------------------------------------------------------------------------


def test_a_missing_bucket_is_said_by_every_operation(s3_root: str) -> None:
    store = open_store(f"s3://no-such-bucket-{uuid.uuid4().hex}/graph")
    for operation in (
        lambda: store.get("k"),
        lambda: store.exists("k"),
        lambda: store.list(""),
        lambda: store.create("k", b""),
        lambda: store.delete("k"),
    ):
        with pytest.raises(NotFound, match="no such bucket"):
            operation()


def test_a_store_that_does_not_answer_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        store = open_store(
            "s3://bucket/x",
            {"endpoint": f"http://127.0.0.1:{port}", "access_key_id": "a" * 20, "secret_access_key": "b" * 40},
            clock=ManualClock(),
        )
        with pytest.raises(StoreUnavailable):
            store.get("k")


def test_no_credentials_anywhere_are_a_refusal_before_any_request(
    emulated_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    meter = Meter()
    with pytest.raises(StoreRefused) as caught:
        open_store(emulated_root).get("k", meter=meter)
    assert "AWS_ACCESS_KEY_ID" in caught.value.hint
    assert meter.snapshot().requests == 0


def test_options_alone_are_enough_for_both_clients(emulated_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import lance
    import pyarrow as pa

    endpoint = os.environ["AWS_ENDPOINT_URL"]
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    options = {"endpoint": endpoint, "access_key_id": "someone", "secret_access_key": "something-secret"}
    store = open_store(emulated_root, options)
    store.create("k", b"1")
    uri = store.lance_uri("nodes/X.lance")
    lance.write_dataset(pa.table({"id": ["a"]}), uri, storage_options=store.lance_options())
    assert lance.dataset(uri, storage_options=store.lance_options()).count_rows() == 1
    assert any("X.lance/_versions" in entry.key for entry in store.list("nodes/"))


def test_the_narrower_endpoint_variable_wins_for_both_clients(
    emulated_root: str, s3_emulator: S3Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lance
    import pyarrow as pa

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_emulator.endpoint)
    for name in ("AWS_ALLOW_HTTP", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    store = open_store(emulated_root)
    store.create("k", b"1")
    lance.write_dataset(
        pa.table({"id": ["a"]}), store.lance_uri("nodes/X.lance"), storage_options=store.lance_options()
    )
    assert any("X.lance/_versions" in entry.key for entry in store.list("nodes/"))


def test_a_forked_child_does_not_use_its_parents_sockets(s3_root: str) -> None:
    program = (
        "import os, sys\n"
        "from omnigraph.store import open_store\n"
        "store = open_store(sys.argv[1])\n"
        "store.create('k', b'1')\n"
        "mine = store._requests.client()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os._exit(0 if store._requests.client() is not mine and store.get('k') == b'1' else 1)\n"
        "assert store._requests.client() is mine and store.get('k') == b'1'\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, s3_root], check=True, env=env, timeout=60)


def test_importing_the_store_loads_no_client() -> None:
    program = (
        "import json, sys\n"
        "import omnigraph.store, omnigraph.store.layout\n"
        "from omnigraph.store import open_store\n"
        "open_store('s3://bucket/x', {'region': 'eu-west-1'})\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, check=True, capture_output=True, timeout=60)
    assert not {"boto3", "botocore", "lance", "pyarrow", "numpy", "urllib3"} & set(json.loads(done.stdout))


# --- secrets ------------------------------------------------------------------------------------------------------------

CANARY = "cAnArY5ecret0123456789abcdefghijklmnopqr"
CANARY_ID = "AKIACANARYCANARY0002"


def _with_canary(uri: str, endpoint: str) -> Store:
    return open_store(
        uri,
        {"endpoint": endpoint, "aws_access_key_id": CANARY_ID, "aws_secret_access_key": CANARY, "token": CANARY + "T"},
        clock=ManualClock(),
    )


def _clean(text: str) -> None:
    assert CANARY not in text
    assert CANARY_ID not in text


def test_no_form_of_a_store_shows_or_sends_its_credentials(proxied_root: str, fault_proxy: FaultProxy) -> None:
    store = _with_canary(proxied_root, fault_proxy.endpoint)
    store.create("k", b"1")
    for text in (repr(store), str(store), f"{store!r:.500}", repr({"store": store})):
        _clean(text)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        sent = pickle.dumps(store, protocol=protocol)
        assert CANARY.encode() not in sent
        assert CANARY_ID.encode() not in sent
    there = pickle.loads(pickle.dumps(store))
    assert there.get("k") == b"1"  # with the credentials of the environment there
    assert isinstance(store, S3Store)
    _clean(repr(store._requests.connection()))


def test_a_store_that_left_its_credentials_behind_says_how_to_bring_them(
    emulated_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = pickle.loads(pickle.dumps(_with_canary(emulated_root, os.environ["AWS_ENDPOINT_URL"])))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(StoreRefused) as caught:
        there.get("k")
    assert "not sent to other processes" in caught.value.hint


@pytest.mark.parametrize(("action", "expected"), ANSWERS, ids=lambda v: getattr(v, "code", getattr(v, "__name__", "")))
def test_no_error_contains_a_credential(
    proxied_root: str, fault_proxy: FaultProxy, action: Action, expected: type[OmnigraphError]
) -> None:
    import traceback

    store = _with_canary(proxied_root, fault_proxy.endpoint)
    fault_proxy.rule(Rule(action, times=None))
    for operation in (lambda: store.get("k"), lambda: store.create("k", b"1"), lambda: store.list("")):
        with pytest.raises(expected) as caught:
            operation()
        error = caught.value
        _clean("".join(traceback.format_exception(error)) + repr(error) + json.dumps(error.to_dict()))
        assert CANARY.encode() not in pickle.dumps(error)


def test_nothing_logged_by_the_client_at_its_usual_level_contains_a_credential(
    proxied_root: str, fault_proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    store = _with_canary(proxied_root, fault_proxy.endpoint)
    fault_proxy.rule(Rule(fail(503), times=1))
    store.create("k", b"1")
    _clean(caplog.text)
