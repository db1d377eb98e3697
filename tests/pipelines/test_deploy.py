"""The files under deploy/ fit together and name commands that exist. Neither Docker nor Kubernetes is needed, or tried."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from pydantic import ValidationError

from omnigraph_pipelines.cluster import warnings_of
from omnigraph_pipelines.graph_file import load_graph_file
from tests.pipelines.deploy_models import Compose, Manifest

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
KUBERNETES: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
OURS = {name: one for name, one in COMPOSE["services"].items() if one["image"].startswith("omnigraph-pipelines")}
PROCESSES = ("web", "daemon", "code", "spark")

# A console script and the module that is the same, so that it runs with this interpreter.
MODULES = {
    "dagster": "dagster",
    "dagster-webserver": "dagster_webserver",
    "dagster-daemon": "dagster._daemon",
    "omnigraph-pipelines": "omnigraph_pipelines.cli",
}


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in KUBERNETES if one["kind"] == kind}


def commands() -> dict[str, list[str]]:
    """Every command of both files, with where it stands."""
    found = {f"compose {name}": one["command"] for name, one in OURS.items() if name != "buckets"}
    found |= {
        f"compose health of {name}": one["healthcheck"]["test"][1:]
        for name, one in OURS.items()
        if "healthcheck" in one and one["healthcheck"]["test"][1] != "python"
    }
    for name, one in of_kind("Deployment").items():
        [container] = one["spec"]["template"]["spec"]["containers"]
        found[f"kubernetes {name}"] = container["args"]
        if "livenessProbe" in container:
            found[f"kubernetes probe of {name}"] = container["livenessProbe"]["exec"]["command"]
    return found


@pytest.mark.parametrize("where", sorted(commands()))
def test_every_command_is_one_that_exists_with_the_flags_it_is_given(where: str) -> None:
    program, *arguments = commands()[where]
    if program == "python":
        line = [sys.executable, str(DEPLOY / Path(arguments[0]).name)]
    else:
        line = [sys.executable, "-m", MODULES[program], *[one for one in arguments if _is_a_word(one)]]
    done = subprocess.run([*line, "--help"], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    for flag in (one for one in arguments if one.startswith("-")):
        assert re.search(rf"(?<![\w-]){re.escape(flag)}\b", done.stdout), f"{flag} of {where}"


def _is_a_word(argument: str) -> bool:
    """Whether an argument is a subcommand: neither a flag nor the value of one."""
    return argument in ("api", "grpc", "grpc-health-check", "run", "liveness-check")


def test_the_files_say_what_the_specifications_know_and_nothing_else() -> None:
    Compose.model_validate(COMPOSE)
    for one in KUBERNETES:
        Manifest.validate_python(one)


@pytest.mark.parametrize(
    ("file", "path", "value"),
    [
        ("compose", ("services", "web", "depend_on"), {}),
        ("compose", ("services", "web", "image"), "omnigraph-pipelines"),
        ("compose", ("services", "s3", "image"), "minio/minio:latest"),
        ("compose", ("services", "s3", "environment", "PORT"), 9000),
        ("compose", ("services", "web", "depends_on", "code"), {"condition": "healthy"}),
        ("kubernetes", ("spec", "replica"), 1),
        ("kubernetes", ("spec", "template", "spec", "containers", 0, "image"), "omnigraph-pipelines"),
        ("kubernetes", ("spec", "template", "spec", "containers", 0, "command"), "dagster"),
        ("kubernetes", ("spec", "template", "spec", "volumes", 0, "configMap"), "graph"),
        ("kubernetes", ("apiVersion",), "v1"),
    ],
)
def test_a_key_that_no_specification_knows_is_found(file: str, path: tuple[Any, ...], value: Any) -> None:
    changed = copy.deepcopy(COMPOSE if file == "compose" else of_kind("Deployment")["code"])
    at = changed
    for one in path[:-1]:
        at = at[one]
    at[path[-1]] = value
    with pytest.raises(ValidationError):
        Compose.model_validate(changed) if file == "compose" else Manifest.validate_python(changed)


def test_the_service_that_makes_the_buckets_makes_them_once(emulated_root: str) -> None:
    buckets = OURS["buckets"]
    names = {
        name: f"{name.lower().replace('_', '-')}-{os.getpid()}" for name in ("GRAPH_BUCKET", "DAGSTER_LOGS_BUCKET")
    }
    assert names.keys() <= buckets["environment"].keys()
    program, *arguments = buckets["command"]
    assert program == "python"
    for _ in range(2):  # it is started again with the machine
        done = subprocess.run(
            [sys.executable, *arguments], env={**os.environ, **names}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    have = {one["Name"] for one in boto3.client("s3").list_buckets()["Buckets"]}
    assert set(names.values()) <= have


def test_services_of_compose_refer_to_one_another_and_to_what_is_declared() -> None:
    services = COMPOSE["services"]
    assert set(PROCESSES) <= set(services) and {"postgres", "s3"} <= set(services)
    for name, one in services.items():
        for other, how in one.get("depends_on", {}).items():
            assert other in services, f"{name} depends on {other}"
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services[other], f"{name} waits for the health of {other}"
        for volume in one.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]


def test_the_example_of_the_environment_has_every_variable() -> None:
    asked = set(re.findall(r"\$\{([A-Z0-9_]+)", (DEPLOY / "compose.yaml").read_text()))
    given = {line.split("=")[0] for line in (DEPLOY / "env.example").read_text().splitlines() if "=" in line}
    assert asked == given


@pytest.mark.parametrize("place", ["compose", "kubernetes"])
def test_every_process_has_the_variables_that_the_instance_and_the_graph_file_name(place: str) -> None:
    named = set(re.findall(r"env: ([A-Z0-9_]+)", (DEPLOY / "dagster.yaml").read_text()))
    named |= set(re.findall(r"env: ([A-Z0-9_]+)", (DEPLOY / "graph.yaml").read_text())) | {"OMNIGRAPH_GRAPH_FILE"}
    assert len(named) >= 4
    for name in PROCESSES:
        if place == "compose":
            given = set(OURS[name]["environment"])
        else:
            [container] = of_kind("Deployment")[name]["spec"]["template"]["spec"]["containers"]
            given = set()
            for one in container["envFrom"]:
                [(kind, reference)] = one.items()
                kept = of_kind("Secret" if kind == "secretRef" else "ConfigMap")[reference["name"]]
                given |= set(kept.get("stringData") or kept["data"])
        assert named <= given, f"{name} lacks {named - given}"


def test_names_and_ports_agree_in_all_files() -> None:
    [location] = yaml.safe_load((DEPLOY / "workspace.yaml").read_text())["load_from"]
    server = location["grpc_server"]
    for found in (
        OURS["code"]["command"],
        of_kind("Deployment")["code"]["spec"]["template"]["spec"]["containers"][0]["args"],
    ):
        assert found[found.index("-p") + 1] == str(server["port"])
    assert server["host"] == "code" and server["location_name"] == "omnigraph_pipelines"
    assert OURS["spark"]["environment"]["SPARK_REMOTE"] == "sc://spark:15002"
    assert of_kind("ConfigMap")["omnigraph"]["data"]["SPARK_REMOTE"] == "sc://spark:15002"
    for name, one in of_kind("Service").items():
        [port] = one["spec"]["ports"]
        container = of_kind("Deployment")[name]["spec"]["template"]["spec"]["containers"][0]
        assert port["port"] == container["ports"][0]["containerPort"]
        assert one["spec"]["selector"] == of_kind("Deployment")[name]["spec"]["selector"]["matchLabels"]


def test_manifests_are_whole() -> None:
    for one in KUBERNETES:
        assert one["apiVersion"] in ("v1", "apps/v1") and one["metadata"]["name"]
        assert one["kind"] == "Namespace" or one["metadata"]["namespace"] == "omnigraph"
    for name, one in of_kind("Deployment").items():
        template = one["spec"]["template"]
        assert one["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"] == {"app": name}
        [container] = template["spec"]["containers"]
        assert {mount["name"] for mount in container["volumeMounts"]} == {
            v["name"] for v in template["spec"]["volumes"]
        }
        assert container["resources"]["limits"]["memory"]
    assert set(of_kind("Deployment")) == set(PROCESSES)
    for name in ("daemon", "code"):
        assert of_kind("Deployment")[name]["spec"]["replicas"] == 1
        assert of_kind("Deployment")[name]["spec"]["strategy"] == {"type": "Recreate"}


def test_the_graph_file_of_the_example_is_good_and_the_same_everywhere(tmp_path: Path) -> None:
    file = load_graph_file(DEPLOY / "graph.yaml")
    assert warnings_of(file.settings) == [], "a cluster sees every place"
    kept = of_kind("ConfigMap")["graph"]["data"]
    assert kept["graph.yaml"] == (DEPLOY / "graph.yaml").read_text()
    assert kept["social.pg"] == (DEPLOY / "social.pg").read_text()


def test_the_image_has_every_file_that_a_command_names() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    copied = {Path(one).name for one in re.findall(r"deploy/[\w.]+", text)}
    for where, command in commands().items():
        for one in command:
            if one.startswith("/opt/omnigraph/"):
                assert Path(one).name in copied and (DEPLOY / Path(one).name).exists(), where
    for source in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE):
        assert all((ROOT / one).exists() for one in source.split())


@pytest.mark.system
def test_the_connect_server_starts_as_a_process() -> None:
    line = [sys.executable, str(DEPLOY / "spark_connect.py"), "--check", "--port", "0", "--host", "127.0.0.1"]
    done = subprocess.run(
        [*line, "--master", "local[1]", "--memory", "512m"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "listens on 127.0.0.1" in done.stdout, done.stderr[-2000:]
