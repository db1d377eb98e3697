"""The tests of the store on a real server: ``./run test s3``.

Owns starting MinIO or versitygw on an empty folder and a free port, and ending it. Its credentials are drawn anew and its region
is not the usual one, so that a test that rests on either fails.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

START_S = 60.0
STOP_S = 10
REGION = "eu-central-1"
BUCKET = "omnigraph-tests"
NAMED_BY = "OMNIGRAPH_S3_SERVER"
PROGRAMS = ("minio", "versitygw")  # looked for where no program is named
# Those of them that ask for a store and need no emulator: the marker says which.
TESTS = (
    "tests/component",
    "tests/guards",
    "tests/security",
    "tests/processes",
    "-m",
    "s3 and not long and not system",
)


def command(program: str, address: str, folder: str) -> list[str]:
    """How this server is started; both take their credentials from the environment."""
    if "versitygw" in Path(program).name:
        return [program, "--port", address, "--region", REGION, "posix", folder]
    return [program, "server", folder, "--address", address, "--quiet"]


def server_environment(key_id: str, secret: str) -> dict[str, str]:
    return {
        "MINIO_ROOT_USER": key_id,
        "MINIO_ROOT_PASSWORD": secret,
        "MINIO_REGION": REGION,
        "ROOT_ACCESS_KEY": key_id,
        "ROOT_SECRET_KEY": secret,
    }


def client_environment(address: str, key_id: str, secret: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": f"http://{address}",
        "AWS_ACCESS_KEY_ID": key_id,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "OMNIGRAPH_TEST_S3_ROOT": f"s3://{BUCKET}/tests",
    }


def _free_address() -> str:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{unused.getsockname()[1]}"


@contextmanager
def serving(program: str) -> Iterator[Mapping[str, str]]:
    """Run the server. Gives the environment in which clients reach it."""
    key_id, secret, address = f"k{secrets.token_hex(8)}", secrets.token_hex(20), _free_address()
    with tempfile.TemporaryDirectory(prefix="s3-server-") as scratch, (Path(scratch) / "log").open("w+") as log:
        folder = Path(scratch) / "data"
        folder.mkdir()
        env = {**os.environ, **server_environment(key_id, secret)}
        child = subprocess.Popen(command(program, address, str(folder)), env=env, stdout=log, stderr=log)
        try:
            clients = client_environment(address, key_id, secret)
            why = _make_bucket(child, clients)
            if why is not None:
                log.seek(0)
                raise RuntimeError(f"{program} does not serve: {why}\n{log.read()[-2000:]}")
            yield clients
        finally:
            child.terminate()
            try:
                child.wait(STOP_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait(STOP_S)


def _make_bucket(child: subprocess.Popen[bytes], clients: Mapping[str, str]) -> str | None:
    """Make the bucket of the tests as soon as the server answers. Returns why there is none."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    client = boto3.client(
        "s3",
        endpoint_url=clients["AWS_ENDPOINT_URL"],
        aws_access_key_id=clients["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=clients["AWS_SECRET_ACCESS_KEY"],
        region_name=REGION,
    )
    why = "no answer"
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if child.poll() is not None:
            return f"it ended with code {child.returncode}"
        try:
            client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        except (BotoCoreError, ClientError) as error:
            why = str(error)
            time.sleep(0.2)
        else:
            return None
    return why


def main(arguments: Sequence[str]) -> int:
    named = os.environ.get(NAMED_BY, "")
    program = shutil.which(named) if named else next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None and not named:
        print(
            f"test s3: not run: {NAMED_BY} names no program, and neither {' nor '.join(PROGRAMS)} is on the PATH; install one, or set "
            f"{NAMED_BY} to a MinIO or versitygw binary"
        )
        return 0
    if program is None:
        print(f"test s3: {NAMED_BY} is {named!r}, which is no program that can be run")
        return 2
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]  # a profile or an endpoint of the caller's would lead elsewhere
    try:
        with serving(program) as clients:
            line = [sys.executable, "-m", "pytest", "-q", *(arguments or TESTS)]
            return subprocess.run(line, env={**os.environ, **clients}, check=False).returncode
    except RuntimeError as error:
        print(f"test s3: {error}")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
