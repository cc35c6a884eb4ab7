"""The ``strandline`` command: entry point and exit code of the process.

The list of commands and the version are printed without further imports. Everything else goes to
``program``, which imports cyclopts: imports are half of the time of a short command.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from strandline.cli import overview
from strandline.platform import process


def run(tokens: Sequence[str]) -> int:
    """Run one command line and return the exit code."""
    try:
        code = _run(list(tokens))
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - reported without a traceback
        from strandline.cli import errors  # noqa: PLC0415 - needs cyclopts

        return errors.report(error)
    return code or 0


def main() -> None:
    """The entry point of the installed command."""
    process.tune_for_throughput()
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]  # a TextIOWrapper at process start
    sys.exit(run(sys.argv[1:]))


def _run(tokens: list[str]) -> int | None:
    if overview.is_requested(tokens):
        print(overview.page())
        return 0
    if tokens == ["--version"]:
        from strandline.cli.version import version_line  # noqa: PLC0415 - needs the metadata

        print(version_line())
        return 0
    from strandline.cli.program import make_app  # noqa: PLC0415 - needs cyclopts

    code: int | None = make_app()(
        tokens, exit_on_error=False, print_error=False, result_action="return_value"
    )
    return code
