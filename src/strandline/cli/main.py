"""The ``strandline`` command: its commands, and the way in and out of the process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version

from cyclopts import App

from strandline.cli import (
    append,
    audit,
    backup,
    bench,
    check,
    checkpoint,
    completion,
    context,
    dashboard,
    demo,
    doctor,
    failures,
    groups,
    inspect,
    kv,
    lake,
    metrics,
    pipeline,
    queues,
    read,
    reservoir,
    routers,
    series,
    serve,
    sql,
    tokens,
    topics,
    views,
)
from strandline.cli import run as commands
from strandline.env import process

Command = Callable[..., int | None]


def make_app() -> App:
    """The commands, in the order in which a newcomer needs them."""
    app = App(
        name="strandline",
        help="One durable log, every view of it: append, read and look after a store.\n\n"
        "Try `strandline append greetings hello`, then `strandline read greetings`.",
        version=_version,
        suppress_keyboard_interrupt=False,
    )
    records: list[Command] = [append.append, read.read, read.tail]
    care: list[Command] = [inspect.inspect, check.verify, check.repair]
    care += [checkpoint.checkpoint, bench.bench, dashboard.dashboard]
    app.command(demo.demo, sort_key=demo.PLACE)
    for place, command in enumerate(records):
        app.command(command, sort_key=place)
    app.command(topics.app)
    for group in (views, kv, queues, series, metrics, groups, routers):
        app.command(group.app)
    app.command(sql.sql, sort_key=sql.PLACE)
    app.command(commands.run, sort_key=commands.PLACE)
    app.command(serve.serve, sort_key=serve.PLACE)
    app.command(tokens.app)
    app.command(audit.app)
    app.command(lake.app)
    app.command(pipeline.app)
    for place, command in enumerate(care, start=pipeline.PLACE + 1):
        app.command(command, sort_key=place)
    app.command(backup.app)
    app.command(backup.restore, sort_key=backup.PLACE + 1)
    app.command(reservoir.app)
    app.command(context.app)
    app.command(doctor.doctor, sort_key=doctor.PLACE)
    app.command(completion.completion_of(app), sort_key=completion.PLACE)
    app.register_install_completion_command(help="Let your shell complete our commands.")
    return app


def run(tokens: Sequence[str]) -> int:
    """Run one command line; the exit code."""
    try:
        code = make_app()(
            list(tokens), exit_on_error=False, print_error=False, result_action="return_value"
        )
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - nobody gets a traceback
        return failures.report(error)
    return code or 0


def main() -> None:
    """The entry point of the installed command."""
    process.tune_for_throughput()
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]  # a TextIOWrapper at process start
    sys.exit(run(sys.argv[1:]))


def _version() -> str:
    try:
        return f"strandline {version('strandline')}"
    except PackageNotFoundError:
        return "strandline (not installed)"
