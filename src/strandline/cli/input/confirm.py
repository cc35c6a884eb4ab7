"""Asks before something is deleted for good: on a terminal, and elsewhere ``--yes`` is needed."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from strandline.cli.options import Flag
from strandline.errors import Invalid

Yes = Annotated[Flag, Parameter(name=["--yes", "-y"], help="Do not ask.")]


def ask(question: str) -> None:
    """Return when the answer is yes; Invalid without a terminal."""
    refused = Invalid("nothing was deleted")
    refused.add_note("answer y to delete it, or give --yes")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        unseen = Invalid("nothing was deleted: there is no terminal on which to ask")
        unseen.add_note("give --yes to delete it")
        raise unseen
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise refused
