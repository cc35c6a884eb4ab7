"""Short errors in place of long traces.

On the way from a Python worker through the JVM to the caller an error becomes a page of text. Two
things keep it short. In a worker, ``told_briefly`` leaves out the trace of errors that we raise on
purpose. At the caller, ``plain_errors`` turns what Spark raises back into the error that it was,
or, for the usual bad days of Spark itself, into one with the remedy.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from strandline import errors
from strandline.errors import (
    NotFound,
    NotInstalled,
    RecordsLost,
    StrandlineError,
    Unavailable,
)
from strandline.platform.disk import OsDisk

_OURS = re.compile(r"strandline\.errors\.(\w+): (.+)")
_LOST = re.compile(r"records (\d+) to (\d+) of topic '([^']*)' are gone \(([^)]*)\)")
_LAKE_FILE = re.compile(
    r"(\w+:/.*?)topics/[0-9a-f]{16}/data/(0*(\d+)-0*(\d+)-[0-9a-f]{16}\.parquet)"
)
_VERSIONS = re.compile(r"PYTHON_VERSION_MISMATCH\].*?(\d+\.\d+).*?(\d+\.\d+)", re.DOTALL)
_NO_MODULE = re.compile(r"No module named '(strandline|pyarrow|pandas|msgspec)\b")
_GAVE_UP = re.compile(
    "stopped SparkContext|Master removed our application|masters are unresponsive"
)
_NO_FILE_SYSTEM = re.compile(
    r"Class org\.apache\.hadoop\.fs\.(s3a|gs|azurebfs)\.\w+ not found"
    r"|No FileSystem for scheme \"(\w+)\""
)
_FILE_SYSTEMS = {
    "s3a": ("s3a://", "org.apache.hadoop:hadoop-aws, of the version of Spark's Hadoop"),
    "gs": ("gs://", "com.google.cloud.bigdataoss:gcs-connector"),
    "azurebfs": ("abfss://", "org.apache.hadoop:hadoop-azure, of the version of Spark's Hadoop"),
}
_TABLES_MAX = 64
_tables: deque[tuple[str, int, frozenset[str]]] = deque(maxlen=_TABLES_MAX)  # made of late
_IN_WORKER = ("PYTHON_WORKER_FACTORY_SECRET", "PYTHON_WORKER_FACTORY_SOCK_DIR")


@contextmanager
def told_briefly() -> Iterator[None]:
    """In a Python worker of Spark: our own errors travel without their trace."""
    try:
        yield
    except StrandlineError:
        if any(name in os.environ for name in _IN_WORKER):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # the worker ends with this error
        raise


@contextmanager
def plain_errors() -> Iterator[None]:
    """Errors that Spark raises in this block are what they were in the worker."""
    try:
        yield
    except StrandlineError:
        raise
    except Exception as error:
        plain = explain(error)
        if plain is None:
            raise
        raise plain from None


def explain(error: BaseException) -> StrandlineError | None:
    """The error behind one that Spark raised, None when it is none that we know."""
    # A stream that fails while it writes tells the cause only in its trace.
    text = f"{error}\n{getattr(error, '_stackTrace', '')}"
    for read in (_ours, _vanished, _version, _module, _gave_up, _no_file_system):
        found = read(text)
        if found is not None:
            return found
    return None


def _ours(text: str) -> StrandlineError | None:
    found = _OURS.search(text)
    if found is None:
        return None
    kind, message = getattr(errors, found[1], StrandlineError), found[2].strip()
    lost = _LOST.search(message)
    if kind is RecordsLost and lost is not None:
        return RecordsLost(lost[3], int(lost[1]), int(lost[2]), lost[4])
    make: Callable[..., StrandlineError] = kind
    if kind is errors.Corrupt:
        reason, _, where = message.partition(" in ")
        return errors.Corrupt(reason, path=where.partition(" at byte ")[0])
    return make(message)


def remember_table(topic: str, manifest: int, files: Iterable[str]) -> None:
    """Spark tells the name of a file that it misses; whose it was is known here."""
    _tables.append((topic, manifest, frozenset(files)))


def _vanished(text: str) -> StrandlineError | None:
    file = _LAKE_FILE.search(text)
    if file is None or not re.search("FILE_NOT_EXIST|FileNotFound|PATH_NOT_FOUND", text):
        return None
    folder, name, first, last = file.groups()
    path = unquote(re.sub("^file:/+", "/", file[0]))
    if folder.startswith("file:") and OsDisk().exists(path):
        return Unavailable(
            f"an executor cannot read {path}, which is here: every executor needs the folder of "
            "the lake, and the right to read it; or keep the lake in an object store"
        )
    whose = next((each for each in reversed(_tables) if name in each[2]), None)
    listed = "" if whose is None else f", which manifest {whose[1]} of topic {whose[0]!r} lists"
    return NotFound(
        f"the lake file with records {int(first)} to {int(last)} is gone ({name}){listed}: it left "
        "the lake after the table was made; make the table again, or raise lake.grace_s"
    )


def _version(text: str) -> StrandlineError | None:
    found = _VERSIONS.search(text)
    if found is None:
        return None
    return NotInstalled(
        f"the workers run Python {found[1]} and the driver {found[2]}: set PYSPARK_PYTHON to the "
        "driver's version on every machine, or use strandline.spark.session()"
    )


def _module(text: str) -> StrandlineError | None:
    found = _NO_MODULE.search(text)
    if found is None:
        if "worker failed to connect back" in text or "worker to connect back" in text:
            return _hinted(
                "a Python worker of Spark did not begin in time: the machine is too busy, try "
                "again; or PYSPARK_PYTHON names a Python that does not start",
                "try again when the workers are less busy, or check PYSPARK_PYTHON",
            )
        if "Cannot run program" in text:
            return _hinted(
                "Spark could not start a Python worker: set PYSPARK_PYTHON to a Python that "
                "exists on every machine",
                "check PYSPARK_PYTHON on every machine",
            )
        return None
    return NotInstalled(
        f"the workers' Python has no {found[1]}: pip install 'strandline[spark]' there, or name "
        "another with PYSPARK_PYTHON"
    )


def _gave_up(text: str) -> StrandlineError | None:
    if _GAVE_UP.search(text) is None:
        return None
    return _hinted(
        "Spark's master gave this application up: the logs of master and workers tell why; "
        "start the workers again, then the session",
        "check the Spark cluster: whether its workers run, and what they have left",
    )


def _hinted(message: str, hint: str) -> Unavailable:
    """An error of the cluster: the usual hint is about this machine's disk."""
    made = Unavailable(message)
    made.add_note(hint)
    return made


def _no_file_system(text: str) -> StrandlineError | None:
    """Spark itself reads files of an object store only with a jar that pip does not bring."""
    found = _NO_FILE_SYSTEM.search(text)
    if found is None:
        return None
    scheme, package = _FILE_SYSTEMS.get(found[1], (f"{found[2]}://", "the one that reads it"))
    return NotInstalled(
        f"Spark has no file system for {scheme}: name its package in spark.jars.packages "
        f'({package}), or use spark.read.format("strandline"), which needs none'
    )
