"""``strandline inspect``, ``verify`` and ``repair``: what is in a store, and whether it is well."""

from strandline.cli.options import TARGET, Target


def inspect(*, target: Target = TARGET) -> None:
    """x."""


def verify(*, target: Target = TARGET) -> None:
    """x."""


def repair(*, target: Target = TARGET) -> None:
    """x."""
