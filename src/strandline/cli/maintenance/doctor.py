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
from strandline.cli.open_store import reading
from strandline.cli.options import VIEW_TARGET, ViewTarget
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Made, Row
from strandline.cli.output.output import output
from strandline.cli.target import Place
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


class Finding(NamedTuple):
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
    place = target.place
    out = output(target.output)
    worst = 0
    rows: list[Row] = []
    for finding in _findings(place, target):
        worst = errors.FAILED if finding.state == "fail" else worst
        rows.append(_row(finding))
    out.rows(rows)
    out.end()
    return worst


def _findings(place: Place, target: ViewTarget) -> Iterator[Finding]:
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


def _version() -> Finding:
    try:
        return Finding("strandline", "ok", version("strandline"))
    except PackageNotFoundError:
        return Finding("strandline", "warn", "not installed", "pip install strandline")


def _python() -> Finding:
    description = f"{platform.python_version()} ({platform.system()} {platform.machine()})"
    if sys.version_info < _PYTHON_MIN:
        return Finding("python", "fail", description, "install Python 3.11 or newer")
    return Finding("python", "ok", description)


def _package(name: str) -> Finding:
    what = f"package {name}"
    if importlib.util.find_spec(name) is None:
        state: State = "warn" if name in _OPTIONAL else "fail"
        return Finding(what, state, "missing", "pip install --upgrade strandline")
    try:
        return Finding(what, "ok", version(name))
    except PackageNotFoundError:
        return Finding(what, "ok", "present")


def _clock() -> Finding:
    now = time.gmtime()
    description = time.strftime("%Y-%m-%dT%H:%M:%SZ", now)
    if now.tm_year < _CLOCK_YEAR_MIN:
        return Finding("clock", "fail", description, "set the clock: it stamps the records")
    return Finding("clock", "ok", description)


def _files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    description = f"{soft} (at most {hard})"
    if soft < _FILES_WARN:
        return Finding("open files", "warn", description, "ulimit -n 65536, for many connections")
    return Finding("open files", "ok", description)


def _java() -> Finding:
    if importlib.util.find_spec("pyspark") is None:
        todo = "pip install 'strandline[spark]', if you want Spark"
        return Finding("spark", "warn", "pyspark is not installed", todo)
    from strandline.spark.sessions import check_java  # noqa: PLC0415 - only where pyspark is

    try:
        return Finding("spark", "ok", f"pyspark {version('pyspark')}, {check_java()}")
    except StrandlineError as error:
        return Finding("spark", "warn", str(error), "install Java 17 or newer, if you want Spark")


def _existing_part_of(path: str) -> str:
    """The directory itself, or its nearest existing parent."""
    path = os.path.abspath(path)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _space(folder: str) -> Finding:
    free = shutil.disk_usage(folder).free
    description = f"{formatting.size(free)} free in {folder}"
    if free < _SPACE_FAIL:
        return Finding("disk space", "fail", description, _REMEDY_DISK)
    return Finding("disk space", "warn" if free < _SPACE_WARN else "ok", description, _REMEDY_DISK)


def _sync_speed(folder: str) -> Finding:
    """The time of a small write with fsync, which every append with durability fsync waits for."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            seconds = sorted(_timed(lambda: _write_and_sync(file.fileno())) for _ in range(_SYNCS))
    except OSError as error:
        return Finding("fsync", "fail", f"cannot write in {folder}: {error.strerror}", _REMEDY_DISK)
    median = seconds[len(seconds) // 2]
    description = f"{median * 1000:.2f} ms"
    if median > _SYNC_S_WARN:
        todo = "a slow disk: keep stores on a local SSD, or use the durability `disk`"
        return Finding("fsync", "warn", description, todo)
    return Finding("fsync", "ok", description)


def _write_and_sync(descriptor: int) -> None:
    os.write(descriptor, b"x" * 4096)
    os.fsync(descriptor)


def _timed(act: Callable[[], object]) -> float:
    started_at = time.perf_counter()
    act()
    return time.perf_counter() - started_at


def _store(path: str) -> Iterator[Finding]:
    what = "store"
    try:
        with Store(path, readonly=True) as store:
            description = f"{os.path.abspath(path)}: {len(store.topics())} topics"
            reasons = store.health().reasons
    except NotAStore:
        todo = "append or topic create creates one; or name another with --store"
        yield Finding(what, "warn", f"there is no store in {os.path.abspath(path)}", todo)
        return
    except StrandlineError as error:
        yield Finding(what, "fail", str(error), "`strandline verify` lists details")
        return
    if reasons:
        yield Finding(what, "warn", "; ".join(reasons), "`strandline verify` lists details")
    else:
        yield Finding(what, "ok", description)
    yield _lock(path)
    yield from _rejected(path)


def _rejected(path: str) -> Iterator[Finding]:
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
        yield Finding("refused", "warn", reasons[0] + more, todo)


def _lock(path: str) -> Finding:
    disk, file = OsDisk(), Layout(os.path.abspath(path)).lock
    if disk.exists(file):
        lock = disk.lock(file, disk.read(file))
        if lock is None:
            todo = "commands that write go through that process: name its server with --url"
            return Finding("lock", "ok", f"another process writes this store: {todo}")
        lock.release()
    return Finding("lock", "ok", "free")


def _lake(path: str, url: str) -> Finding:
    location = url or Layout(os.path.abspath(path)).lake
    if not url and not os.path.isdir(location):
        return Finding("lake", "ok", "none yet: it is created when history is relocated")
    try:
        objects = open_objects(location)
        try:
            next(iter(objects.list("")), None)
        finally:
            objects.close()
    except StrandlineError as error:
        return Finding("lake", "fail", str(error), "check its URL, the network and the credentials")
    return Finding("lake", "ok", location)


def _server(target: ViewTarget) -> Iterator[Finding]:
    url = target.place.url
    try:
        with reading(target) as store:
            started_at = time.perf_counter()
            topics = len(store.topics())
            seconds = time.perf_counter() - started_at
            reasons: list[str] = []
            with contextlib.suppress(Forbidden):  # the token may lack the scope
                reasons = store.health().reasons
    except StrandlineError as error:
        yield Finding("server", "fail", str(error), errors.explain(error)[1])
        return
    yield Finding("server", "ok", f"{url}: {topics} topics, responds in {seconds * 1000:.1f} ms")
    if reasons:
        todo = "check the log and the disk of the server"
        yield Finding("server's store", "warn", "; ".join(reasons), todo)


def _row(finding: Finding) -> Row:
    todo = "" if finding.state == "ok" else finding.todo
    json = {**finding._asdict(), "todo": todo or None}
    columns = {
        "state": finding.state,
        "what": finding.what,
        "found": formatting.plain(finding.found),
        "to do": formatting.plain(todo) if todo else None,
    }
    return Made(msgspec.to_builtins(json), columns)
