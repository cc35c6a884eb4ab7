"""Spark sessions with quiet defaults, and a short error if Java is missing.

A session runs in this process and its children unless ``master`` names a cluster: no web page, no
listening beyond loopback, few shuffle partitions, UTC, Arrow, this Python for the workers, filter
pushdown into Python data sources. All settings can be overridden:
``session(**{"spark.driver.memory": "4g"})``. Java options of the caller are appended to the
defaults, so that they take precedence.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib import resources
from weakref import WeakSet

from pyspark.sql import SparkSession

from strandline.errors import Invalid, NotInstalled, ObjectStoreUnreachable
from strandline.spark.catalog_tables import reject_tables
from strandline.spark.errors import plain_errors
from strandline.spark.jvm_messages import without_warning
from strandline.spark.source.source import StrandlineSource

JAVA_MIN = 17
JAVA_COMMAND = "apt-get install -y openjdk-17-jre-headless"
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "4",
    "spark.sql.pyspark.jvmStacktrace.enabled": "false",
}
_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
_CONNECT_S = 10.0
_MASTER = re.compile(r"local$|local(-cluster)?\[|spark://|k8s://|yarn$")
_registered: WeakSet[SparkSession] = WeakSet()  # registered once: Spark warns at a second time
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def session(master: str = "local[*]", **conf: str) -> SparkSession:
    """The running session, or a new one, with ``format("strandline")`` registered."""
    running = SparkSession.getActiveSession()
    if running is None:
        check_java()
        check_master(master)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        if _is_local(master):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName("strandline")
    for name, value in conf_of(master, conf).items():
        builder = builder.config(name, value)
    with plain_errors(), contextlib.nullcontext() if running else without_warning():
        return register(builder.getOrCreate())


def conf_of(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """The settings of a session: the defaults, overridden by those of the caller."""
    # Spark puts default Java options before extra ones, wherever those are set.
    java = f"-Dlog4j2.configurationFile={_logging()} {conf.get(_JAVA_OPTIONS, '')}".rstrip()
    defaults = {**_QUIET, **(_LOOPBACK if _is_local(master) else {})}
    return {**defaults, **conf, _JAVA_OPTIONS: java}


def register(spark: SparkSession) -> SparkSession:
    """Register ``format("strandline")`` in a session, classic or of Spark Connect."""
    if spark not in _registered:
        reject_tables()
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
        if is_connect(spark):
            spark.dataSource.register(StrandlineSource)
        else:
            _register_classic(spark)
        _registered.add(spark)
    return spark


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is a client of Spark Connect, without a JVM and a SparkContext here."""
    return not isinstance(spark, SparkSession)


def _register_classic(spark: SparkSession) -> None:
    # Spark rejects a name that is registered in the active session, which may be another one.
    java = SparkSession._get_j_spark_session_class(spark._jvm)
    active = java.getActiveSession()
    java.setActiveSession(spark._jsparkSession)
    spark.dataSource.register(StrandlineSource)
    if active.isDefined():
        java.setActiveSession(active.get())


def check_java() -> str:
    """The path of the Java that Spark starts, or ``NotInstalled`` with the install command."""
    home = os.environ.get("JAVA_HOME", "")
    java = shutil.which(f"{home}/bin/java") if home else shutil.which("java")
    if java is None:
        problem = f"JAVA_HOME is {home}, which has no Java" if home else "there is no java command"
        raise NotInstalled(f"Spark needs Java {JAVA_MIN} or 21, and {problem}: {JAVA_COMMAND}")
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    if match is None or int(match[1]) < JAVA_MIN:
        what = f"Java {match[1]}" if match else "not a Java that starts"
        raise NotInstalled(
            f"Spark needs Java {JAVA_MIN} or 21, and {java} is {what}: {JAVA_COMMAND}, then set "
            "JAVA_HOME to it"
        )
    return java


def check_master(master: str) -> None:
    """Raise if nothing listens at spark://…: Spark itself would retry for a minute."""
    if not _MASTER.match(master):
        raise Invalid(
            f"{master!r} is not a Spark master: name local[*], spark://host:7077, k8s://… or yarn"
        )
    if not master.startswith("spark://"):
        return
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
            return
        except (OSError, ValueError) as error:
            failure = error
    raise ObjectStoreUnreachable(
        f"no Spark master responds at {master} ({failure}): start it, or check host and port"
    )


def _is_local(master: str) -> bool:
    """Whether driver and executors are on this machine."""
    return re.match(r"local\b|spark://(localhost|127\.[0-9.]+):", master) is not None


def _logging() -> str:
    return str(resources.files("strandline.spark") / "log4j2.properties")
