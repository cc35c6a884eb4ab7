"""Sessions in which questions are asked: like the caller's, with nothing of his in them.

A room shares the machines of the session it was made from, and has its own temporary views and
settings: UTC, because the plan of a question counts on it; ANSI, so that what overflows is an
error. So nothing is changed in the session of the caller, however he has set it. Rooms are made
once for each session and time zone, and are for many questions at once: views have names that
nobody else has. Spark takes the session that was used last for the active one, and looks data
sources up there: so a room knows ours, too.
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
    # Files of ours were written by no Spark: days and moments are what they say.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.pyspark.jvmStacktrace.enabled": "false",
}
_rooms: WeakKeyDictionary[SparkSession, dict[str, SparkSession]] = WeakKeyDictionary()
_making = threading.Lock()
_numbers = itertools.count()


def room(spark: SparkSession, timezone: str = "UTC") -> SparkSession:
    """The session for questions whose times are shown in this zone."""
    with _making:
        made = _rooms.setdefault(spark, {})
        if timezone not in made:
            session = register(spark.newSession())
            if is_connect(spark):
                atexit.register(_close, weakref.ref(spark), session)
            for name, value in {**_SETTINGS, "spark.sql.session.timeZone": timezone}.items():
                session.conf.set(name, value)
            made[timezone] = session
        return made[timezone]


def _close(caller: Callable[[], Any], session: Any) -> None:
    """Close the connection of a room before its client does so at the exit of the process.

    The client asks the server first, and tries for minutes when that was stopped with the caller's
    session, as a local one is.
    """
    spark = caller()
    if spark is not None and not spark.is_stopped:
        session.client.release_session()
    session.client.close()


class Views:
    """Frames with names, as long as a question is read. Owned by one thread.

    A classic session resolves the names when it is given the text. A session of Spark Connect does
    so whenever the frame is used, so there the frames travel with the text.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._frames: dict[str, Any] = {}

    def add(self, frame: DataFrame) -> str:
        """A name for a frame that is nobody else's."""
        name = f"strandline_{next(_numbers)}"
        self._frames[name] = frame
        if not is_connect(self._session):
            frame.createOrReplaceTempView(name)
        return name

    def sql(self, text: str) -> DataFrame:
        """The frame of a text that names views, quoted."""
        if not is_connect(self._session) or not self._frames:
            return self._session.sql(text)
        text = text.replace("{", "{{").replace("}", "}}")
        for name in self._frames:
            text = text.replace(f"`{name}`", f"{{{name}}}")
        return self._session.sql(text, **self._frames)

    def leave(self) -> None:
        while self._frames:
            name, _ = self._frames.popitem()
            if not is_connect(self._session):
                self._session.catalog.dropTempView(name)


@contextlib.contextmanager
def views(session: SparkSession) -> Iterator[Views]:
    """Views for one question. What was asked of them goes on when they have gone."""
    made = Views(session)
    try:
        yield made
    finally:
        made.leave()
