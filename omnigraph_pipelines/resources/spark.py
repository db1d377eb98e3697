"""Spark as a Dagster resource, on dagster-pyspark's lazy one: typed settings, stopped by the process that started it.

dagster-pyspark's resource starts a session when it is first used and never stops it; static settings of a second one in
the same process are ignored in silence. This adds what is missing. Nothing here imports pyspark before a session is used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field, PrivateAttr

import omnigraph as og
from omnigraph_pipelines.settings import EnvRef, Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkSessionResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """A Spark session, started at its first use. ``master`` or ``remote``; without either the cores of this machine.

    Wherever this is expected, dagster-pyspark's own ``LazyPySparkResource`` and ``PySparkResource`` will do as well.
    """

    master: str | None = Field(default=None, description="local[*], yarn, k8s://…, spark://host:port")
    remote: str | None = Field(default=None, description="A Spark Connect server, sc://host:port. Needs no Java here.")
    app_name: str = Field(default="omnigraph", description="What Spark calls the application.")
    driver_memory: str | None = Field(default=None, description="Memory of a local driver, such as 4g.")
    shuffle_partitions: int | None = Field(default=None, description="spark.sql.shuffle.partitions")
    ui: bool = Field(default=False, description="Start Spark's own web page.")
    conf: dict[str, str] = Field(default_factory=dict, description="Any other setting of Spark.")

    _lazy: Any = PrivateAttr(default=None)
    _is_ours: bool = PrivateAttr(default=False)
    _stopped: bool = PrivateAttr(default=True)

    @staticmethod
    def from_settings(settings: Settings) -> SparkSessionResource:
        spark = settings.spark
        return SparkSessionResource(
            master=spark.master,
            remote=dg.EnvVar(spark.remote.env) if isinstance(spark.remote, EnvRef) else spark.remote,
            app_name=spark.app_name,
            driver_memory=spark.driver_memory,
            shuffle_partitions=spark.shuffle_partitions,
            ui=spark.ui,
            conf={name: _text(value) for name, value in spark.conf.items()},
        )

    @property
    def spark_session(self) -> SparkSession:
        """The session; the first use starts it, or joins the one that runs in this process."""
        if self._stopped:
            self._start()
        session: SparkSession = self._lazy.spark_session
        return session

    @property
    def is_started(self) -> bool:
        return not self._stopped

    def facts(self) -> dict[str, str]:
        """For people: which application this is, and where its page is. Empty before the first use."""
        if self._stopped or self.remote is not None:
            return {}
        context = self.spark_session.sparkContext
        found = {"spark_application": str(context.applicationId)}
        if context.uiWebUrl:
            found["spark_ui"] = str(context.uiWebUrl)
        return found

    def stop(self) -> None:
        """Stop the session if it was started here; one that was running already belongs to another program."""
        lazy, self._lazy = self._lazy, None
        is_ours, self._is_ours, self._stopped = self._is_ours, False, True
        if lazy is not None and is_ours:
            lazy.spark_session.stop()

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        self.stop()

    # --- starting ---------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self.master is not None and self.remote is not None:
            raise og.errors.InvalidInput("master and remote exclude each other", hint="set one of them")
        try:
            from dagster_pyspark import LazyPySparkResource
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise og.errors.MissingExtra(
                f"Spark needs a package that is not installed: {error.name}",
                hint="pip install 'omnigraph-pipelines[pipelines]'",
                extra="pipelines",
            ) from error
        from omnigraph_pipelines.spark.session import quieten

        quieten()
        wanted = self.settings()
        running = SparkSession.getActiveSession()
        if running is None and (self.remote is None or self.remote.startswith("local")):
            _prepare_java()
        lazy = LazyPySparkResource(spark_config=dict(wanted))
        session = lazy.spark_session
        self._lazy, self._is_ours, self._stopped = lazy, running is None, False
        self._warn(session, wanted)

    def settings(self) -> dict[str, str]:
        """Every setting that the session is asked for."""
        from omnigraph_pipelines.spark.session import RUNTIME

        found = {**RUNTIME, "spark.app.name": self.app_name}
        if self.remote is not None:
            found["spark.remote"] = self.remote
        else:
            found["spark.master"] = self.master or "local[*]"
            found["spark.ui.enabled"] = _text(self.ui)
            found["spark.ui.showConsoleProgress"] = "false"
            if found["spark.master"].startswith("local"):
                # Both, or results above 1 MiB are lost between tasks and driver.
                found |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        if self.driver_memory is not None:
            found["spark.driver.memory"] = self.driver_memory
        if self.shuffle_partitions is not None:
            found["spark.sql.shuffle.partitions"] = str(self.shuffle_partitions)
        return {**found, **self.conf}

    def _warn(self, session: Any, wanted: Mapping[str, str]) -> None:
        """A static setting that a running session does not have was ignored: say so."""
        from omnigraph_pipelines.spark.session import is_remote

        if is_remote(session):
            return
        have = dict(session.sparkContext.getConf().getAll())  # one call: each goes to the JVM and back
        ignored = [
            f"{name} is {have.get(name)!r}, not {value!r}"
            for name, value in sorted(wanted.items())
            if have.get(name) != value and name != "spark.app.name" and not session.conf.isModifiable(name)
        ]
        if ignored:
            dg.get_dagster_logger("omnigraph").warning(
                f"Spark was running already and keeps its own settings: {'; '.join(ignored)}"
            )


def _prepare_java() -> None:
    from omnigraph_pipelines.spark import find_java

    java = find_java()
    if java.home is not None:
        os.environ["JAVA_HOME"] = str(java.home)
    # The workers are children of this process; the first python3 on PATH may be another one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
