"""``strandline doctor``: checks this machine, a store or a server, and suggests remedies.

Every line is ok, warn or fail. Exit code 1 if a check fails; warnings do not count.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Literal, NamedTuple

import msgspec

from strandline.cli import errors
from strandline.cli.open_store import open_target_to_read
from strandline.cli.options import VIEW_TARGET, ViewTarget
from strandline.cli.output import formatting
from strandline.cli.output.formatting import OutputRow, PreparedRow
from strandline.cli.output.output import output
from strandline.cli.target import ResolvedTarget
from strandline.config.settings import GIB, MIB
from strandline.errors import Forbidden, NotAStore, StrandlineError
from strandline.ingest import rejected
from strandline.log.files.layout import Layout
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.cloud import open_objects
from strandline.store import Store

State = Literal["ok", "warn", "fail"]

_PYTHON_MIN = (3, 11)
_NEEDED = ("msgspec", "pyarrow", "duckdb", "uvicorn", "starlette", "httptools", "rich", "cyclopts")
_OPTIONAL = ("uvloop",)
_SPACE_FAIL, _SPACE_WARN = 200 * MIB, 2 * GIB
_SYNC_S_WARN = 0.05
_SYNCS = 5
_FILES_WARN = 1024
_CLOCK_YEAR_MIN = 2025
_REMEDY_DISK = "free some space, or keep the store on another disk: --store DIR"


class _CheckResult(NamedTuple):
    """The result of one check, and its remedy."""

    what: str
    state: State
    found: str
    todo: str = ""


def doctor(*, target: ViewTarget = VIEW_TARGET) -> int:
    """Check the environment and the store or server.

    The environment is Python, packages, disk, clock and Java.
    Exit code 1 if a check fails.
    """
    place = target.resolved
    out = output(target.output)
    worst = 0
    rows: list[OutputRow] = []
    for finding in _findings(place, target):
        worst = errors.FAILED if finding.state == "fail" else worst
        rows.append(_row(finding))
    out.rows(rows)
    out.end()
    return worst


def _findings(place: ResolvedTarget, target: ViewTarget) -> Iterator[_CheckResult]:
    yield _version()
    yield _python()
    yield from map(_package, (*_NEEDED, *_OPTIONAL))
    yield _clock()
    yield _files()
    yield _java()
    if place.url:
        yield from _server(target)
        return
    folder = _existing_part_of(place.store)
    yield _space(folder)
    yield _sync_speed(folder)
    yield from _store(place.store)
    yield _lake(place.store, target.lake_url)


def _version() -> _CheckResult:
    try:
        return _CheckResult("strandline", "ok", version("strandline"))
    except PackageNotFoundError:
        return _CheckResult("strandline", "warn", "not installed", "pip install strandline")


def _python() -> _CheckResult:
    description = f"{platform.python_version()} ({platform.system()} {platform.machine()})"
    if sys.version_info < _PYTHON_MIN:
        return _CheckResult("python", "fail", description, "install Python 3.11 or newer")
    return _CheckResult("python", "ok", description)


def _package(name: str) -> _CheckResult:
    what = f"package {name}"
    if importlib.util.find_spec(name) is None:
        state: State = "warn" if name in _OPTIONAL else "fail"
        return _CheckResult(what, state, "missing", "pip install --upgrade strandline")
    try:
        return _CheckResult(what, "ok", version(name))
    except PackageNotFoundError:
        return _CheckResult(what, "ok", "present")


def _clock() -> _CheckResult:
    now = time.gmtime()
    description = time.strftime("%Y-%m-%dT%H:%M:%SZ", now)
    if now.tm_year < _CLOCK_YEAR_MIN:
        return _CheckResult("clock", "fail", description, "set the clock: it stamps the records")
    return _CheckResult("clock", "ok", description)


def _files() -> _CheckResult:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    description = f"{soft} (at most {hard})"
    if soft < _FILES_WARN:
        return _CheckResult(
            "open files", "warn", description, "ulimit -n 65536, for many connections"
        )
    return _CheckResult("open files", "ok", description)


def _java() -> _CheckResult:
    if importlib.util.find_spec("pyspark") is None:
        todo = "pip install 'strandline[spark]', if you want Spark"
        return _CheckResult("spark", "warn", "pyspark is not installed", todo)
    from strandline.spark.sessions import check_java  # noqa: PLC0415 - only where pyspark is

    try:
        return _CheckResult("spark", "ok", f"pyspark {version('pyspark')}, {check_java()}")
    except StrandlineError as error:
        return _CheckResult(
            "spark", "warn", str(error), "install Java 17 or newer, if you want Spark"
        )


def _existing_part_of(path: str) -> str:
    """The directory itself, or its nearest existing parent."""
    path = os.path.abspath(path)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _space(folder: str) -> _CheckResult:
    free = shutil.disk_usage(folder).free
    description = f"{formatting.size(free)} free in {folder}"
    if free < _SPACE_FAIL:
        return _CheckResult("disk space", "fail", description, _REMEDY_DISK)
    return _CheckResult(
        "disk space", "warn" if free < _SPACE_WARN else "ok", description, _REMEDY_DISK
    )


def _sync_speed(folder: str) -> _CheckResult:
    """The time of a small write with fsync, which every append with durability fsync waits for."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            seconds = sorted(_timed(lambda: _write_and_sync(file.fileno())) for _ in range(_SYNCS))
    except OSError as error:
        return _CheckResult(
            "fsync", "fail", f"cannot write in {folder}: {error.strerror}", _REMEDY_DISK
        )
    median = seconds[len(seconds) // 2]
    description = f"{median * 1000:.2f} ms"
    if median > _SYNC_S_WARN:
        todo = "a slow disk: keep stores on a local SSD, or use the durability `disk`"
        return _CheckResult("fsync", "warn", description, todo)
    return _CheckResult("fsync", "ok", description)


def _write_and_sync(descriptor: int) -> None:
    os.write(descriptor, b"x" * 4096)
    os.fsync(descriptor)


def _timed(act: Callable[[], object]) -> float:
    started_at = time.perf_counter()
    act()
    return time.perf_counter() - started_at


def _store(path: str) -> Iterator[_CheckResult]:
    what = "store"
    try:
        with Store(path, readonly=True) as store:
            description = f"{os.path.abspath(path)}: {len(store.topics())} topics"
            reasons = store.health().reasons
    except NotAStore:
        todo = "append or topic create creates one; or name another with --store"
        yield _CheckResult(what, "warn", f"there is no store in {os.path.abspath(path)}", todo)
        return
    except StrandlineError as error:
        yield _CheckResult(what, "fail", str(error), "`strandline verify` lists details")
        return
    if reasons:
        yield _CheckResult(what, "warn", "; ".join(reasons), "`strandline verify` lists details")
    else:
        yield _CheckResult(what, "ok", description)
    yield _lock(path)
    yield from _rejected(path)


def _rejected(path: str) -> Iterator[_CheckResult]:
    """Deliveries of other processes that the store rejected."""
    folder = open_objects(Layout(os.path.abspath(path)).incoming)
    try:
        reasons = [reason for _, reason in (*rejected.deliveries(folder), *rejected.views(folder))]
    except StrandlineError as error:
        reasons = [str(error)]
    finally:
        folder.close()
    if reasons:
        todo = "fix the cause and repeat the pipeline or write; this report expires after a week"
        more = f"; and {len(reasons) - 1} more" if len(reasons) > 1 else ""
        yield _CheckResult("refused", "warn", reasons[0] + more, todo)


def _lock(path: str) -> _CheckResult:
    disk, file = OsDisk(), Layout(os.path.abspath(path)).lock
    if disk.exists(file):
        lock = disk.lock(file, disk.read(file))
        if lock is None:
            todo = "commands that write go through that process: name its server with --url"
            return _CheckResult("lock", "ok", f"another process writes this store: {todo}")
        lock.release()
    return _CheckResult("lock", "ok", "free")


def _lake(path: str, url: str) -> _CheckResult:
    location = url or Layout(os.path.abspath(path)).lake
    if not url and not os.path.isdir(location):
        return _CheckResult("lake", "ok", "none yet: it is created when history is relocated")
    try:
        objects = open_objects(location)
        try:
            next(iter(objects.list("")), None)
        finally:
            objects.close()
    except StrandlineError as error:
        return _CheckResult(
            "lake", "fail", str(error), "check its URL, the network and the credentials"
        )
    return _CheckResult("lake", "ok", location)


def _server(target: ViewTarget) -> Iterator[_CheckResult]:
    url = target.resolved.url
    try:
        with open_target_to_read(target) as store:
            started_at = time.perf_counter()
            topics = len(store.topics())
            seconds = time.perf_counter() - started_at
            reasons: list[str] = []
            with contextlib.suppress(Forbidden):  # the token may lack the scope
                reasons = store.health().reasons
    except StrandlineError as error:
        yield _CheckResult("server", "fail", str(error), errors.explain(error)[1])
        return
    yield _CheckResult(
        "server", "ok", f"{url}: {topics} topics, responds in {seconds * 1000:.1f} ms"
    )
    if reasons:
        todo = "check the log and the disk of the server"
        yield _CheckResult("server's store", "warn", "; ".join(reasons), todo)


def _row(finding: _CheckResult) -> OutputRow:
    todo = "" if finding.state == "ok" else finding.todo
    json = {**finding._asdict(), "todo": todo or None}
    columns = {
        "state": finding.state,
        "what": finding.what,
        "found": formatting.plain(finding.found),
        "to do": formatting.plain(todo) if todo else None,
    }
    return PreparedRow(msgspec.to_builtins(json), columns)
