"""Failed runs are told once, with what the engine said, to whom the graph file names."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from omnigraph_pipelines.defs.alerts import alerts
from omnigraph_pipelines.resources import Connections
from tests.component.upkeep.material import make
from tests.pipelines.upkeep_location import Location, location

HEARD: list[dict[str, Any]] = []


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """A module with hooks, as a project would have one."""
    module = ModuleType("hooks_of_a_test")
    module.tell = HEARD.append  # type: ignore[attr-defined]
    module.broken = lambda alert: 1 / 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hooks_of_a_test", module)
    HEARD.clear()
    yield HEARD


@pytest.fixture
def mailbox() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An address that keeps what is posted to it."""
    posted: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/alerts", posted
    server.shutdown()
    thread.join()
    server.server_close()


def fail(here: Location) -> Any:
    """A run of upkeep that the engine refuses."""
    result = here.materialize("cleanup")
    assert not result.success
    return result


def tell(here: Location, result: Any, tags: dict[str, str] | None = None) -> Any:
    [sensor] = alerts(here.file, Connections.by_key()).sensors or ()
    assert isinstance(sensor, dg.SensorDefinition)
    run = here.instance.get_run_by_id(result.run_id)
    assert run is not None
    context = dg.build_run_status_sensor_context(
        sensor_name=sensor.name,
        dagster_event=result.get_run_failure_event(),
        dagster_instance=here.instance,
        dagster_run=run.with_tags({**run.tags, **(tags or {})}),
    ).for_run_failure()
    return sensor(context)


def test_an_alert_says_what_failed_and_what_to_do(
    tmp_path: Path, local_root: str, heard: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    make(local_root, commits=1).close()
    settings = {"upkeep": {"paused": True}, "alerts": {"hook": "hooks_of_a_test:tell"}}
    with location(tmp_path / "location", local_root, **settings) as here:
        result = fail(here)
        tell(here, result)
    [alert] = heard
    assert (alert["graph"], alert["code"], alert["run_id"]) == ("people", "refused", result.run_id)
    assert alert["assets"] == ["people/upkeep/cleanup"]
    assert alert["steps"] == ["people__upkeep__cleanup"]
    assert "upkeep is paused" in alert["text"]
    assert "force: true" in alert["hint"]
    assert alert["text"] in capsys.readouterr().err
    json.dumps(alert)


def test_an_alert_is_posted_to_an_address(
    tmp_path: Path, local_root: str, mailbox: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(local_root, commits=1).close()
    address, posted = mailbox
    monkeypatch.setenv("ALERTS_OF_A_TEST", address)
    settings = {"upkeep": {"paused": True}, "alerts": {"url": {"env": "ALERTS_OF_A_TEST"}}}
    with location(tmp_path / "location", local_root, **settings) as here:
        tell(here, fail(here))
    assert [alert["code"] for alert in posted] == ["refused"]


def test_a_run_that_will_be_repeated_is_not_told(tmp_path: Path, local_root: str, heard: list[dict[str, Any]]) -> None:
    make(local_root, commits=1).close()
    settings = {"upkeep": {"paused": True}, "alerts": {"hook": "hooks_of_a_test:tell"}}
    with location(tmp_path / "location", local_root, **settings) as here:
        tell(here, fail(here), {"dagster/will_retry": "true"})
    assert heard == []


def test_a_hook_that_fails_does_not_keep_the_alert_from_the_address(
    tmp_path: Path, local_root: str, heard: list[dict[str, Any]], mailbox: tuple[str, list[dict[str, Any]]]
) -> None:
    make(local_root, commits=1).close()
    address, posted = mailbox
    settings = {"upkeep": {"paused": True}, "alerts": {"hook": "hooks_of_a_test:broken", "url": address}}
    with location(tmp_path / "location", local_root, **settings) as here:
        result = fail(here)
        with pytest.raises(Exception, match="could not be delivered"):
            tell(here, result)
    assert len(posted) == 1


def test_a_run_that_failed_outside_of_the_engine_is_told_with_its_message(
    tmp_path: Path, local_root: str, heard: list[dict[str, Any]]
) -> None:
    @dg.op
    def breaks() -> None:
        raise ValueError("a column of the source is gone")

    @dg.job
    def foreign() -> None:
        breaks()

    settings = {"alerts": {"hook": "hooks_of_a_test:tell"}}
    with location(tmp_path / "location", local_root, **settings) as here:
        tell(here, foreign.execute_in_process(instance=here.instance, raise_on_error=False))
    [alert] = heard
    assert (alert["code"], alert["job"]) == (None, "foreign")
    assert "a column of the source is gone" in alert["text"]
