"""Short errors in place of long traces.

From a Python worker through the JVM to the caller, an error grows to a page of text. In a worker,
``short_errors`` hides the trace of errors of this package. At the caller, ``plain_errors`` converts
the errors of Spark back into the original ones, or, for common failures of Spark itself, into
errors with a remedy.
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
_MASTER_GONE = re.compile(
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
_tables: deque[tuple[str, int, frozenset[str]]] = deque(maxlen=_TABLES_MAX)  # the newest ones
_IN_WORKER = ("PYTHON_WORKER_FACTORY_SECRET", "PYTHON_WORKER_FACTORY_SOCK_DIR")


@contextmanager
def short_errors() -> Iterator[None]:
    """In a Python worker of Spark: errors of this package are sent without their trace."""
    try:
        yield
    except StrandlineError:
        if any(name in os.environ for name in _IN_WORKER):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # the worker ends with this error
        raise


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise errors of Spark in this block as the errors that the worker raised."""
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
    """The original of an error that Spark raised, None if it is not recognized."""
    # A stream that fails in a write has the cause only in its trace.
    text = f"{error}\n{getattr(error, '_stackTrace', '')}"
    for reader in (_own_error, _missing_file, _version, _module, _master_gone, _no_file_system):
        original = reader(text)
        if original is not None:
            return original
    return None


def _own_error(text: str) -> StrandlineError | None:
    match = _OURS.search(text)
    if match is None:
        return None
    kind, message = getattr(errors, match[1], StrandlineError), match[2].strip()
    lost = _LOST.search(message)
    if kind is RecordsLost and lost is not None:
        return RecordsLost(lost[3], int(lost[1]), int(lost[2]), lost[4])
    make: Callable[..., StrandlineError] = kind
    if kind is errors.Corrupt:
        reason, _, location = message.partition(" in ")
        return errors.Corrupt(reason, path=location.partition(" at byte ")[0])
    return make(message)


def remember_table(topic: str, manifest: int, files: Iterable[str]) -> None:
    """Store the files of a table: Spark reports a missing file by its name only."""
    _tables.append((topic, manifest, frozenset(files)))


def _missing_file(text: str) -> StrandlineError | None:
    file = _LAKE_FILE.search(text)
    if file is None or not re.search("FILE_NOT_EXIST|FileNotFound|PATH_NOT_FOUND", text):
        return None
    folder, name, first, last = file.groups()
    path = unquote(re.sub("^file:/+", "/", file[0]))
    if folder.startswith("file:") and OsDisk().exists(path):
        return Unavailable(
            f"an executor cannot read {path}, which exists here: every executor needs access to "
            "the folder of the lake; or keep the lake in an object store"
        )
    owner = next((each for each in reversed(_tables) if name in each[2]), None)
    listed = "" if owner is None else f", which manifest {owner[1]} of topic {owner[0]!r} lists"
    return NotFound(
        f"the lake file with records {int(first)} to {int(last)} is gone ({name}){listed}: it left "
        "the lake after the table was created; create the table again, or raise lake.grace_s"
    )


def _version(text: str) -> StrandlineError | None:
    match = _VERSIONS.search(text)
    if match is None:
        return None
    return NotInstalled(
        f"the workers run Python {match[1]} and the driver {match[2]}: set PYSPARK_PYTHON to the "
        "driver's version on every machine, or use strandline.spark.session()"
    )


def _module(text: str) -> StrandlineError | None:
    match = _NO_MODULE.search(text)
    if match is None:
        if "worker failed to connect back" in text or "worker to connect back" in text:
            return _hinted(
                "a Python worker of Spark did not start in time: the machine is too busy, try "
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
        f"the workers' Python has no {match[1]}: pip install 'strandline[spark]' there, or name "
        "another with PYSPARK_PYTHON"
    )


def _master_gone(text: str) -> StrandlineError | None:
    if _MASTER_GONE.search(text) is None:
        return None
    return _hinted(
        "the Spark master removed this application: see the logs of master and workers; "
        "start the workers again, then the session",
        "check that the workers of the Spark cluster run and have free resources",
    )


def _hinted(message: str, hint: str) -> Unavailable:
    """An error of the cluster with its own hint: the default one is about the local disk."""
    error = Unavailable(message)
    error.add_note(hint)
    return error


def _no_file_system(text: str) -> StrandlineError | None:
    """Spark reads files of an object store only with a jar that pip does not install."""
    match = _NO_FILE_SYSTEM.search(text)
    if match is None:
        return None
    scheme, package = _FILE_SYSTEMS.get(match[1], (f"{match[2]}://", "the one of this scheme"))
    return NotInstalled(
        f"Spark has no file system for {scheme}: name its package in spark.jars.packages "
        f'({package}), or use spark.read.format("strandline"), which needs none'
    )
