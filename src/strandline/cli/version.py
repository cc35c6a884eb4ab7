"""The version of the installed package, as ``strandline --version`` prints it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def version_line() -> str:
    try:
        return f"strandline {version('strandline')}"
    except PackageNotFoundError:
        return "strandline (not installed)"
