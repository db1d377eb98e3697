"""``./run test s3`` runs on the server that is named, and never passes where it ran nothing on one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

# Speaks the command line of MinIO, and S3 by the library behind the emulator.
SERVER = f"""#!{sys.executable}
import os, sys
from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import make_server
assert sys.argv[1] == "server" and os.path.isdir(sys.argv[2]) and os.environ["MINIO_ROOT_PASSWORD"]
host, port = sys.argv[sys.argv.index("--address") + 1].split(":")
make_server(host, int(port), create_backend_app("s3"), threaded=True).serve_forever()
"""
LOOKS = """
import os
import boto3

def test_the_bucket_is_there():
    assert "AWS_PROFILE" not in os.environ
    bucket, _, _ = os.environ["OMNIGRAPH_TEST_S3_ROOT"].removeprefix("s3://").partition("/")
    assert [one["Name"] for one in boto3.client("s3").list_buckets()["Buckets"]] == [bucket]
"""


def ran(server: str, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OMNIGRAPH_S3_SERVER": server, "AWS_PROFILE": "a-stranger", "PATH": path}
    line = [sys.executable, "-m", "tests.s3_server", *arguments]
    return subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    made = tmp_path / "minio"
    made.write_text(SERVER)
    made.chmod(0o755)
    return made


def test_tests_run_on_the_server_that_is_named(program: Path, tmp_path: Path) -> None:
    (tmp_path / "test_looks.py").write_text(LOOKS)
    done = ran(str(program), str(tmp_path / "test_looks.py"), "-c", os.devnull)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_a_server_that_is_installed_is_found(program: Path, tmp_path: Path) -> None:
    (tmp_path / "test_looks.py").write_text(LOOKS)
    done = ran("", str(tmp_path / "test_looks.py"), "-c", os.devnull, path=str(program.parent))
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_a_failed_test_fails_the_run(program: Path, tmp_path: Path) -> None:
    (tmp_path / "test_fails.py").write_text("def test_fails():\n    raise AssertionError\n")
    assert ran(str(program), str(tmp_path / "test_fails.py"), "-c", os.devnull).returncode == 1


def test_without_a_server_nothing_is_said_to_have_run() -> None:
    done = ran("")
    assert done.returncode == 0 and "not run" in done.stdout and "passed" not in done.stdout
    assert "minio nor versitygw" in done.stdout


def test_a_server_that_ends_at_once_or_is_not_there_is_a_failure(tmp_path: Path) -> None:
    done = ran(str(tmp_path / "nothing"))
    assert done.returncode == 2 and "no program" in done.stdout
    broken = tmp_path / "versitygw"
    broken.write_text("#!/bin/sh\necho no such option >&2\nexit 3\n")
    broken.chmod(0o755)
    done = ran(str(broken))
    assert done.returncode == 2 and "code 3" in done.stdout and "no such option" in done.stdout
