"""Confirms a permanent delete on a terminal; without a terminal ``--yes`` is required."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from strandline.cli.options import Flag
from strandline.errors import Invalid

Yes = Annotated[Flag, Parameter(name=["--yes", "-y"], help="Do not ask for confirmation.")]


def confirm(question: str) -> None:
    """Return when the response is yes; ``Invalid`` otherwise, and without a terminal."""
    declined = Invalid("nothing was deleted")
    declined.add_note("type y to delete it, or give --yes")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        no_terminal = Invalid("nothing was deleted: there is no terminal for the confirmation")
        no_terminal.add_note("give --yes to delete it")
        raise no_terminal
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise declined
