"""A Spark Connect server in the foreground, until its standard input ends: ``python -m tests.e2e.spark_server PORT``."""

from __future__ import annotations

import sys


def main() -> None:
    from omnigraph_pipelines.spark import spark_session

    session = spark_session(
        "local[2]",
        small=True,
        conf={
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": sys.argv[1],
        },
    )
    print("ready", flush=True)
    sys.stdin.read()
    session.stop()


if __name__ == "__main__":
    main()
