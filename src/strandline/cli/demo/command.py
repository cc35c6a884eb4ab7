"""``strandline demo``: a server with live example data of a small shop.

data       orders, page views, profiles, a queue of mails, couriers on a map, checkouts
feed       new records a few times a second; two workers send the mails
pipeline   once, with Spark, if Java is installed
server     on a free port of this machine, in a folder that is removed at the end
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, cast

from cyclopts import Parameter
from rich.console import Console

from strandline.cli.demo.shop import DemoFeed, fill
from strandline.cli.options import Flag, milliseconds
from strandline.client.connect import connect
from strandline.errors import Invalid, StrandlineError, Unavailable
from strandline.platform.clock import SystemClock

if TYPE_CHECKING:
    from strandline.server.serve import Server
    from strandline.store import Store

_START_S_MAX = 60.0
_END_S_MAX = 30.0
_POLL_S = 0.2
_REPORT_S = 10.0


def demo(
    *,
    data: Annotated[str | None, Parameter(metavar="DIR")] = None,
    bind: Annotated[str, Parameter(metavar="HOST:PORT")] = "127.0.0.1:0",
    duration: Annotated[str | None, Parameter(name="--for", metavar="DURATION")] = None,
    no_pipeline: Flag = False,
) -> None:
    """Start a server with example data.

    The data is that of a small shop. The server runs until Ctrl-C and prints commands to try.

    Parameters
    ----------
    data
        Directory of the store. Default: a temporary one, which is removed at the end.
    bind
        Address to listen on. Default: a free port of this machine.
    duration
        Stop after this time: 30s, 15m.
    no_pipeline
        Skip the Spark pipeline.
    """
    seconds = None if duration is None else milliseconds(duration) / 1000
    if seconds is not None and seconds <= 0:
        raise Invalid("--for is more than 0 seconds")
    console = Console(highlight=False, soft_wrap=True)
    with contextlib.ExitStack() as stack, _terminable():
        root = None if data else stack.enter_context(_temporary())
        folder = os.path.abspath(data or f"{root}/store")
        serving = stack.enter_context(_served(folder, bind))
        clock = SystemClock()
        with connect(serving.url) as store:
            count = fill(cast("Store", store), clock)
        feed = DemoFeed(lambda: cast("Store", connect(serving.url)), clock)
        feed.start()
        stack.callback(feed.stop)
        _introduce(console, serving.url, folder, count)
        pipeline = None if no_pipeline else _pipeline(console, folder)
        if pipeline is not None:
            stack.callback(_end, pipeline)
        with contextlib.suppress(KeyboardInterrupt):
            _watch(console, feed, pipeline, seconds)
        console.print("stopping: everything acknowledged is on disk", style="dim")


@contextlib.contextmanager
def _temporary() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="strandline-demo-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Turn SIGTERM into KeyboardInterrupt, for an orderly end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _served(folder: str, bind: str) -> Iterator[Server]:
    """Start a server on a thread of its own, and wait until it is ready."""
    from strandline.server.serve import Server  # noqa: PLC0415 - slow to import, only used here
    from strandline.server.settings import ServerSettings  # noqa: PLC0415 - as above

    ready = threading.Event()
    failed: list[BaseException] = []
    serving = Server(ServerSettings(data=folder, bind=bind), on_ready=lambda _: ready.set())

    def run() -> None:
        try:
            serving.run()
        except BaseException as error:  # noqa: BLE001 - raised by the waiting thread
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="server", daemon=True)
    thread.start()
    try:
        if not ready.wait(_START_S_MAX):
            raise Unavailable(f"the server was not ready within {_START_S_MAX:.0f} s")
        if failed:
            raise failed[0]
        yield serving
    finally:
        serving.stop()
        thread.join(_END_S_MAX)


def _introduce(console: Console, url: str, folder: str, count: int) -> None:
    console.print("[bold]Strandline[/]: one durable log, every view of it.")
    console.print(f"A small shop is open at [bold]{url}[/], its store is in {folder}")
    if count:
        console.print(f"{count:,} records at the start, and new ones all the time.")
    console.print(f"Open it in a browser: [bold]{url}/[/] (OpenAPI: {url}/v0/openapi.json)")
    console.print("Or try, in another terminal:\n")
    diff = '\'{"from_seq": 0, "limit": 2, "include_tags": true}\''
    for line in (
        f"export STRANDLINE_URL={url}",
        "strandline tail orders -f",
        "strandline topic ls",
        "strandline kv history profiles c007",
        "strandline queue stats mails",
        "strandline series range gps bike-1 --limit 5",
        "strandline sql 'select tag, count(*) n from orders group by tag order by n desc'",
        "strandline run 'SHOW funnel'",
        f"curl -s {url}/v0/topics",
        f"curl -s {url}/v0/topics/orders/diff -H 'content-type: application/json' -d {diff}",
    ):
        console.print(f"  {line}", style="cyan", markup=False)
    console.print("\nStop with Ctrl-C.", style="dim")


def _pipeline(console: Console, folder: str) -> subprocess.Popen[bytes] | None:
    """Start a Spark export of the orders to Parquet files by country."""
    reason = _spark_missing()
    if reason:
        console.print(f"The Spark pipeline is skipped: {reason}", markup=False)
        return None
    to = f"{folder}-exported-{time.time_ns() // 1_000_000}"
    console.print(f"Spark exports the orders to {to} …", markup=False)
    arguments = ["pipeline", "run", "export", "--store", folder, "--topic", "orders", "--to", to]
    arguments += [
        "--engine",
        "spark",
        "--partition-by",
        "tag",
        "--data",
        "json",
        "--output",
        "jsonl",
    ]
    program = [sys.executable, "-c", "from strandline.cli.main import main; main()", *arguments]
    return subprocess.Popen(  # noqa: S603 - the program itself
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def _spark_missing() -> str:
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed: pip install 'strandline[spark]'"
    from strandline.spark.sessions import check_java  # noqa: PLC0415 - only where pyspark is

    try:
        check_java()
    except StrandlineError as error:
        return str(error)
    return ""


def _watch(
    console: Console,
    feed: DemoFeed,
    pipeline: subprocess.Popen[bytes] | None,
    seconds: float | None,
) -> None:
    """Print progress until the time is over, or without end."""
    started_at = reported_at = time.monotonic()
    while seconds is None or time.monotonic() - started_at < seconds:
        time.sleep(_POLL_S)
        if feed.error:
            raise Unavailable(f"the shop failed: {feed.error}")
        if pipeline is not None and pipeline.poll() is not None:
            _report(console, pipeline)
            pipeline = None
        if time.monotonic() - reported_at >= _REPORT_S:
            reported_at = time.monotonic()
            text = f"{feed.orders} new orders, {feed.mails} mails sent"
            console.print(text, style="dim", markup=False)


def _report(console: Console, pipeline: subprocess.Popen[bytes]) -> None:
    _, err = pipeline.communicate()
    if pipeline.returncode:
        output = err.decode(errors="replace").strip().splitlines() or ["it failed"]
        lines = [line for line in output if line.startswith("error:")] or output[-1:]
        console.print(f"The Spark pipeline failed: {lines[0]}", markup=False)
    else:
        console.print("The Spark pipeline is done: Parquet files of the orders, by country.")


def _end(pipeline: subprocess.Popen[bytes]) -> None:
    if pipeline.poll() is None:
        pipeline.kill()
    pipeline.communicate()
