"""A Spark session with the settings that staging and reading need, started when it is first asked for.

Owns settings and nothing else: every other module takes the session it is given, classic or Connect, and uses DataFrames
only, so that the same code runs on a laptop, on a cluster and behind a Connect server.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import omnigraph as og
from omnigraph_pipelines.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Can be set on any session, Connect included.
RUNTIME: Final[Mapping[str, str]] = {
    # Moments are stored in UTC; a session in another zone would show, and parse, other ones.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Lance buffers pages itself: larger batches only cost memory.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}
_LOCAL: Final[Mapping[str, str]] = {
    # Both, or results above 1 MiB are lost between tasks and driver.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_SMALL: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def spark_session(
    master: str | None = None,
    *,
    remote: str | None = None,
    conf: Mapping[str, Any] | None = None,
    app_name: str = "omnigraph",
    small: bool = False,
) -> SparkSession:
    """The session of this process, or a new one. ``remote``: a Connect server (``sc://host:port``), which needs no Java
    here. ``small``: no web UI and few partitions, for tests and short jobs."""
    _need_pyspark()
    quieten()
    from pyspark.sql import SparkSession

    wanted = {str(name): _text(value) for name, value in (conf or {}).items()}
    if remote is not None:
        if master is not None:
            raise og.errors.InvalidInput("master and remote exclude each other", hint="pass one of them")
        if remote.startswith("local"):  # a server of our own
            _prepare_local()
        session = SparkSession.builder.remote(remote).getOrCreate()
        _set(session, {**RUNTIME, **wanted})
        return session
    running = SparkSession.getActiveSession()
    if running is not None:
        _check_running(running, master, wanted)
        return running
    chosen = master or wanted.get("spark.master") or "local[*]"
    settings = {**RUNTIME, **(_LOCAL if chosen.startswith("local") else {}), **(_SMALL if small else {}), **wanted}
    if chosen.startswith("local"):
        _prepare_local()
    else:
        _prepare_java()
    builder = SparkSession.builder.master(chosen).appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def quieten() -> None:
    """Silence two warnings that say nothing about this use: the child of the fork becomes Java, and no row passes pandas."""
    warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)


def _prepare_java() -> None:
    java = find_java()
    if java.home is not None:
        os.environ["JAVA_HOME"] = str(java.home)


def _prepare_local() -> None:
    _prepare_java()
    # The workers are children of this process; the first python3 on PATH may be another one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def is_remote(session: Any) -> bool:
    """Whether a session is a Connect client: no Spark context, and functions run where the server is."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def parallelism(session: Any) -> int:
    """Tasks that can run side by side, as far as the session tells."""
    if is_remote(session):
        # The server does not say. Its shuffle setting is the nearest thing to an answer.
        return max(2, min(64, int(session.conf.get("spark.sql.shuffle.partitions", "8"))))
    return max(1, int(session.sparkContext.defaultParallelism))


def _check_running(session: SparkSession, master: str | None, wanted: Mapping[str, str]) -> None:
    """Static settings of a running session cannot change: asking for others is reported, not ignored."""
    asked = dict(wanted) if master is None else {**wanted, "spark.master": master}
    differing = []
    for name, value in sorted(asked.items()):
        if not is_remote(session) and not session.conf.isModifiable(name):
            have = session.sparkContext.getConf().get(name)
            if have != value:
                differing.append(f"{name} is {have!r}, not {value!r}")
    if differing:
        raise og.errors.InvalidInput(
            f"a Spark session is running already and {'; '.join(differing)}",
            hint="stop it first with spark.stop(), or leave these settings out",
        )
    _set(session, {name: value for name, value in wanted.items() if _modifiable(session, name)})


def _modifiable(session: Any, name: str) -> bool:
    return bool(session.conf.isModifiable(name))


def _set(session: Any, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        if _modifiable(session, name):
            session.conf.set(name, value)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _need_pyspark() -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise og.errors.MissingExtra(
            "pyspark is not installed", hint="pip install 'omnigraph-pipelines[pipelines]'", extra="pipelines"
        ) from error
