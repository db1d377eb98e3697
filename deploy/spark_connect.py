"""A Spark Connect server in the foreground: ``python spark_connect.py [--port 15002] [--host 0.0.0.0] [--master local[*]]``.

For the machine sizes of compose.yaml. Ends with SIGTERM. ``--check`` starts it, says the address and ends.
"""

from __future__ import annotations

import argparse
import signal
import threading


def main() -> None:
    from omnigraph_pipelines.spark import spark_session

    parser = argparse.ArgumentParser(description="A Spark Connect server in the foreground.")
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=15002)
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--memory", default="2g", help="of the driver, which holds the tasks too")
    parser.add_argument("--check", action="store_true", help="start, say the address, end")
    given = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    session = spark_session(
        given.master,
        conf={
            "spark.driver.memory": given.memory,
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": given.host,
            "spark.connect.grpc.binding.port": str(given.port),
        },
    )
    print(f"listens on {given.host}:{given.port}", flush=True)
    if not given.check:
        ended.wait()
    session.stop()


if __name__ == "__main__":
    main()
