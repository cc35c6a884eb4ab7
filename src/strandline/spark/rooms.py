"""Sessions in which questions are asked: like the caller's, with nothing of his in them.

A room shares the machines of the session it was made from, and has its own temporary views and
settings: UTC, because the plan of a question counts on it; ANSI, so that what overflows is an
error. So nothing is changed in the session of the caller, however he has set it. Rooms are made
once for each session and time zone, and are for many questions at once: views have names that
nobody else has. Spark takes the session that was used last for the active one, and looks data
sources up there: so a room knows ours, too.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from strandline.spark.sessions import register

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
            for name, value in {**_SETTINGS, "spark.sql.session.timeZone": timezone}.items():
                session.conf.set(name, value)
            made[timezone] = session
        return made[timezone]


class Views:
    """Frames with names, as long as a question is read. Owned by one thread."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def add(self, frame: DataFrame) -> str:
        """A name for a frame that is nobody else's."""
        name = f"strandline_{next(_numbers)}"
        frame.createOrReplaceTempView(name)
        self._names.append(name)
        return name

    def leave(self, session: SparkSession) -> None:
        while self._names:
            session.catalog.dropTempView(self._names.pop())


@contextlib.contextmanager
def views(session: SparkSession) -> Iterator[Views]:
    """Views for one question. What was asked of them goes on when they have gone."""
    made = Views()
    try:
        yield made
    finally:
        made.leave(session)
