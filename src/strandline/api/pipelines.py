"""Declared pipelines and their runs, on the wire and as stored."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Outcome = Literal["done", "failed", "timeout", "lost", "stopped"]
"""How a run ended: ``lost`` when the process that watched it died, and ``stopped`` when it was
stopped on request. Runs with these two outcomes are repeated."""


class PipelineRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a declared pipeline."""

    name: str
    pipeline: str
    number: int
    """Number of the run within this declaration, from 1."""
    engine: str
    begun_us: int
    due_us: int | None = None
    """The scheduled time of the run; null for a run that was started on request."""
    missed: int = 0
    """Number of earlier scheduled times that were missed because no scheduler was running."""
    ended_us: int | None = None
    """Null while it runs."""
    seconds: float = 0.0
    rows: int = 0
    """Rows read, written or dropped, as the pipeline counts them."""
    outcome: Outcome | None = None
    """Null while it runs."""
    failure: str = ""


class ScheduledPipeline(msgspec.Struct, frozen=True, kw_only=True):
    """A declared pipeline and its state."""

    name: str
    pipeline: str
    engine: str
    when: str
    """``every 6h``, ``at 30 3 * * * UTC``."""
    next_us: int
    """The next scheduled time; in the past when the pipeline is due."""
    running: bool
    last: PipelineRun | None
    """The newest run, running or ended."""
    last_success_us: int | None
    """End of the last successful run."""
    runs: int
    failures: int
    """Runs that failed, timed out or were lost."""
    problem: str = ""
    """The reason why it cannot run at all."""


class PipelineList(msgspec.Struct, kw_only=True):
    """The declared pipelines, in the order of their names."""

    pipelines: list[ScheduledPipeline]


class RunsQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Selects the runs to list."""

    name: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    before: Annotated[int, Meta(ge=1)] | None = None
    """Only runs before this ``seq`` of an earlier response."""


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the history, with its seq there."""

    seq: int
    run: PipelineRun


class RunList(msgspec.Struct, kw_only=True):
    """Ended runs, newest first."""

    runs: list[RunLine]


class StartRunResponse(msgspec.Struct, kw_only=True):
    """A run that was started on request."""

    run: PipelineRun
