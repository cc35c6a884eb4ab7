"""Short errors in place of long traces.

On the way from a Python worker through the JVM to the caller an error becomes a page of text. Two
things keep it short. In a worker, ``told_briefly`` leaves out the trace of errors that we raise on
purpose. At the caller, ``plain_errors`` turns what Spark raises back into the error that it was,
or, for the usual bad days of Spark itself, into one with the remedy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from strandline import errors
from strandline.errors import (
    NotFound,
    NotInstalled,
    RecordsLost,
    StrandlineError,
    Unavailable,
)

_OURS = re.compile(r"strandline\.errors\.(\w+): (.+)")
_LOST = re.compile(r"records (\d+) to (\d+) of topic '([^']*)' are gone \(([^)]*)\)")
_LAKE_FILE = re.compile(r"topics/([0-9a-f]{16})/data/0*(\d+)-0*(\d+)-[0-9a-f]{16}\.parquet")
_VERSIONS = re.compile(r"PYTHON_VERSION_MISMATCH\].*?(\d+\.\d+).*?(\d+\.\d+)", re.DOTALL)
_NO_MODULE = re.compile(r"No module named '(strandline|pyarrow|pandas|msgspec)\b")
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
    text = str(error)
    for read in (_ours, _vanished, _version, _module):
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


def _vanished(text: str) -> StrandlineError | None:
    file = _LAKE_FILE.search(text)
    if file is None or not re.search("FILE_NOT_EXIST|FileNotFound|PATH_NOT_FOUND", text):
        return None
    return NotFound(
        f"the lake file with records {int(file[2])} to {int(file[3])} of topic "
        f"{int(file[1], 16)} is gone ({file[0]}): it left the lake after the table was made; "
        "make the table again"
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
        if "Python worker failed to connect back" in text or "Cannot run program" in text:
            return Unavailable(
                "Spark could not start a Python worker: set PYSPARK_PYTHON to a Python that "
                "exists on every machine"
            )
        return None
    return NotInstalled(
        f"the workers' Python has no {found[1]}: pip install 'strandline[spark]' there, or name "
        "another with PYSPARK_PYTHON"
    )
