"""Declared pipelines and their runs: as the API tells them, and as they are kept."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Outcome = Literal["done", "failed", "timeout", "lost", "stopped"]
"""How a run ended: ``lost`` when the process that watched it died, and ``stopped`` when it was told
to stop. Those two are run again."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a declared pipeline."""

    name: str
    pipeline: str
    number: int
    """From 1, of this declaration."""
    engine: str
    begun_us: int
    due_us: int | None = None
    """The point in time for which it ran; null when somebody asked for it."""
    missed: int = 0
    """Points before that at which nobody was there to run it."""
    ended_us: int | None = None
    """Null while it runs."""
    seconds: float = 0.0
    rows: int = 0
    """Rows that were read, written or dropped, as the pipeline counts them."""
    outcome: Outcome | None = None
    """Null while it runs."""
    failure: str = ""


class Scheduled(msgspec.Struct, frozen=True, kw_only=True):
    """A declared pipeline, and how it is doing."""

    name: str
    pipeline: str
    engine: str
    when: str
    """``every 6h``, ``at 30 3 * * * UTC``."""
    next_us: int
    """When it is due next; the past when it is due already."""
    running: bool
    last: Run | None
    """The newest run, under way or ended."""
    last_success_us: int | None
    """When a run last ended well."""
    runs: int
    failures: int
    """Runs that failed, took too long or were lost."""
    problem: str = ""
    """What keeps it from being run at all."""


class PipelineList(msgspec.Struct, kw_only=True):
    """The declared pipelines, in the order of their names."""

    pipelines: list[Scheduled]


class RunsQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which runs to list."""

    name: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    before: Annotated[int, Meta(ge=1)] | None = None
    """Only runs before this ``seq`` of an earlier answer."""


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the history, with its place in it."""

    seq: int
    run: Run


class RunList(msgspec.Struct, kw_only=True):
    """Runs that have ended, the newest first."""

    runs: list[RunLine]


class RunBegun(msgspec.Struct, kw_only=True):
    """A run that was asked for and has begun."""

    run: Run
