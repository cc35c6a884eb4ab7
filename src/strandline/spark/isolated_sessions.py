"""Isolated sessions for queries, on the cluster of the session of the caller.

An isolated session shares the cluster of the session that it is derived from, and has its own
temporary views and settings: UTC, because the plan of a query requires it; ANSI, so that an
overflow is an error. The session of the caller and its settings are not changed. One isolated
session exists per session and time zone, and runs many queries at once: the names of views are
unique. Spark treats the session used last as the active one, and looks data sources up there, so
the data source is registered in isolated sessions, too.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from strandline.spark.sessions import is_connect, register

_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The files were not written by Spark: dates and times need no rebasing.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.pyspark.jvmStacktrace.enabled": "false",
}
_sessions: WeakKeyDictionary[SparkSession, dict[str, SparkSession]] = WeakKeyDictionary()
_lock = threading.Lock()
_numbers = itertools.count()


def isolated_session(spark: SparkSession, timezone: str = "UTC") -> SparkSession:
    """The isolated session for queries in this time zone."""
    with _lock:
        by_zone = _sessions.setdefault(spark, {})
        if timezone not in by_zone:
            session = register(spark.newSession())
            if is_connect(spark):
                atexit.register(_close, weakref.ref(spark), session)
            for name, value in {**_SETTINGS, "spark.sql.session.timeZone": timezone}.items():
                session.conf.set(name, value)
            by_zone[timezone] = session
        return by_zone[timezone]


def _close(caller: Callable[[], Any], session: Any) -> None:
    """Close the connection of an isolated session before its client does at process exit.

    The client calls the server first, and retries for minutes if that was stopped with the session
    of the caller, as a local one is.
    """
    spark = caller()
    if spark is not None and not spark.is_stopped:
        session.client.release_session()
    session.client.close()


class QueryViews:
    """Names of frames while a query is parsed. Owned by one thread.

    A classic session resolves the names when it parses the text. A session of Spark Connect does so
    whenever the frame is used, so there the frames are sent with the text.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._frames: dict[str, Any] = {}

    def add(self, frame: DataFrame) -> str:
        """Register a frame under a unique name, and return the name."""
        name = f"strandline_{next(_numbers)}"
        self._frames[name] = frame
        if not is_connect(self._session):
            frame.createOrReplaceTempView(name)
        return name

    def sql(self, text: str) -> DataFrame:
        """The frame of a text with quoted names of views."""
        if not is_connect(self._session) or not self._frames:
            return self._session.sql(text)
        text = text.replace("{", "{{").replace("}", "}}")
        for name in self._frames:
            text = text.replace(f"`{name}`", f"{{{name}}}")
        return self._session.sql(text, **self._frames)

    def drop_all(self) -> None:
        while self._frames:
            name, _ = self._frames.popitem()
            if not is_connect(self._session):
                self._session.catalog.dropTempView(name)


@contextlib.contextmanager
def query_views(session: SparkSession) -> Iterator[QueryViews]:
    """Views for one query. Frames that use them stay valid after the views are dropped."""
    frames = QueryViews(session)
    try:
        yield frames
    finally:
        frames.drop_all()
