"""Asks a person before something is gone for good."""

from __future__ import annotations

import sys

from strandline.errors import Invalid


def ask(question: str) -> None:
    """Let a person think again; nobody else may go on."""
    refused = Invalid("nothing was deleted")
    refused.add_note("answer y to delete it, or give --yes")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise refused
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise refused
