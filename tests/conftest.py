"""Stores to test on: a local directory, and a store that speaks S3 (an emulator in a process of its own, or a real one).

Set ``OMNIGRAPH_TEST_S3_ROOT=s3://bucket/prefix`` to run the S3 half on a real store; credentials and endpoint then come
from the environment.
"""

from __future__ import annotations

import itertools
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from omnigraph.testing.calls import unavailable
from omnigraph.testing.emulator import S3Emulator, environment
from omnigraph.testing.faults import FaultProxy
from tests.corpus import examples

# What a test is about is seldom the power: syncs of every commit would take most of the time of a suite. The tests of
# durability ask for them by name.
os.environ.setdefault("OMNIGRAPH_DURABILITY", "relaxed")

REAL_ROOT = os.environ.get("OMNIGRAPH_TEST_S3_ROOT", "").rstrip("/")

hypothesis.settings.register_profile("short", max_examples=25, deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", max_examples=100, deadline=None, print_blob=True)
hypothesis.settings.register_profile(
    "long", max_examples=1_000, stateful_step_count=200, deadline=None, print_blob=True
)
hypothesis.settings.load_profile(os.environ.get("OMNIGRAPH_HYPOTHESIS_PROFILE", "short"))

_serial = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "s3: works on a store that speaks S3, a real one where OMNIGRAPH_TEST_S3_ROOT names it"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    examples.attach(items)
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        alone = "s3_root" in getattr(item, "fixturenames", ()) and "any_root" not in getattr(item, "fixturenames", ())
        if alone or params.get("any_root") == "s3":
            item.add_marker("s3")


@pytest.fixture(scope="session", autouse=True)
def _no_strangers_credentials() -> Iterator[None]:
    """A test that forgets to ask for a store must not find one by itself."""
    if REAL_ROOT:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        yield


@pytest.fixture(scope="session")
def s3_emulator() -> Iterator[S3Emulator]:
    with S3Emulator() as emulator:
        yield emulator


@pytest.fixture(scope="session")
def s3_environment(request: pytest.FixtureRequest) -> dict[str, str]:
    """What another process needs in its environment to reach the stores of ``s3_root``."""
    if REAL_ROOT:
        return {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    emulator: S3Emulator = request.getfixturevalue("s3_emulator")
    return environment(emulator.endpoint)


@pytest.fixture(scope="session")
def spark(s3_environment: dict[str, str]) -> Iterator[Any]:
    """One Spark session for all tests of a process: there can be only one, and starting Java is the dearest thing they do. Its
    executors know how to reach the store, from their environment alone."""
    from omnigraph_pipelines.spark import spark_session

    os.environ["PYSPARK_PYTHON"] = sys.executable
    known = {f"spark.executorEnv.{name}": value for name, value in s3_environment.items()}
    session = spark_session("local[2,3]", small=True, app_name="tests", conf=known)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def moto_endpoint(s3_emulator: S3Emulator) -> str:
    """The URL of the emulator."""
    return s3_emulator.endpoint


@pytest.fixture
def s3_root(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh ``s3://bucket/prefix``, with the environment that reaches it."""
    if REAL_ROOT:
        return f"{REAL_ROOT}/{uuid.uuid4().hex}"
    return _emulated(request.getfixturevalue("s3_emulator"), monkeypatch)


@pytest.fixture
def emulated_root(s3_emulator: S3Emulator, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same on the emulator alone, for tests that want what a real store does not give: it takes any credentials and any
    region, speaks http, and the bucket holds nothing else."""
    return _emulated(s3_emulator, monkeypatch)


def reach(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point both clients at the emulator, or at a proxy before it, and at nothing of a real store that this run may have."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in environment(endpoint).items():
        monkeypatch.setenv(name, value)


def _emulated(emulator: S3Emulator, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket of its own: the emulator's listings cost what the whole bucket holds."""
    reach(emulator.endpoint, monkeypatch)
    bucket = f"test-{os.getpid()}-{next(_serial)}"
    emulator.create_bucket(bucket)
    return f"s3://{bucket}/graph"


@pytest.fixture
def watchable() -> None:
    """For tests that hold the system calls of a child."""
    if unavailable() is not None:
        pytest.skip(f"not run: {unavailable()}")


@pytest.fixture
def local_root(tmp_path: Path) -> str:
    """A path where nothing is yet."""
    return str(tmp_path / "graph")


@pytest.fixture(params=["local", "s3"])
def any_root(request: pytest.FixtureRequest) -> str:
    root: str = request.getfixturevalue(f"{request.param}_root")
    return root


@pytest.fixture
def fault_proxy(s3_emulator: S3Emulator) -> Iterator[FaultProxy]:
    """A proxy in front of the emulator. The environment stays as it is; see ``proxied_root``."""
    with FaultProxy(s3_emulator.endpoint) as proxy:
        yield proxy


@pytest.fixture
def proxied_root(s3_emulator: S3Emulator, fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh ``s3://bucket/prefix`` that both clients reach through ``fault_proxy``, whose log starts empty."""
    reach(fault_proxy.endpoint, monkeypatch)
    bucket = f"test-{os.getpid()}-{next(_serial)}"
    s3_emulator.create_bucket(bucket)
    return f"s3://{bucket}/graph"
