"""The ``strandline`` command: its commands, and the way in and out of the process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from cyclopts import App

from strandline.cli import completion, failures
from strandline.env import process

COMMANDS = {
    "demo": "demo:demo",
    "append": "append:append",
    "read": "read:read",
    "tail": "read:tail",
    "topic": "topics:app",
    "view": "views:app",
    "kv": "kv:app",
    "queue": "queues:app",
    "series": "series:app",
    "metrics": "metrics:app",
    "group": "groups:app",
    "router": "routers:app",
    "sql": "sql:sql",
    "run": "run:run",
    "serve": "serve:serve",
    "token": "tokens:app",
    "audit": "audit:app",
    "lake": "lake:app",
    "pipeline": "pipeline:app",
    "inspect": "inspect:inspect",
    "verify": "check:verify",
    "repair": "check:repair",
    "checkpoint": "checkpoint:checkpoint",
    "bench": "bench:bench",
    "dashboard": "dashboard:dashboard",
    "backup": "backup:app",
    "restore": "backup:restore",
    "reservoir": "reservoir:app",
    "context": "context:app",
    "doctor": "doctor:doctor",
}
"""Where each command is, in the order in which a newcomer needs them. A module is imported when its
command is asked for: all of them together take longer than most commands."""


def make_app() -> App:
    """The commands. Only those that are asked for are loaded."""
    app = App(
        name="strandline",
        help="One durable log, every view of it: append, read and look after a store.\n\n"
        "Try `strandline append greetings hello`, then `strandline read greetings`.",
        version=_version,
        suppress_keyboard_interrupt=False,
    )
    for place, (name, where) in enumerate(COMMANDS.items()):
        app.command(f"strandline.cli.{where}", name=name, sort_key=place)
    app.command(completion.completion_of(app), sort_key=len(COMMANDS))
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
