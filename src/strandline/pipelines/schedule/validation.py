"""Validates declarations when they are read: names, pipelines, arguments, times."""

from __future__ import annotations

import re
from collections.abc import Mapping

from strandline.config.pipeline_config import DeclaredPipeline
from strandline.config.settings import PipelineSettings
from strandline.errors import Invalid
from strandline.pipelines.schedule.cron import (
    CalendarTimes,
    DueTimes,
    IntervalTimes,
    duration_s,
    zone_of,
)
from strandline.pipelines.schedule.registry import (
    PIPELINES,
    Pipeline,
    arguments_of,
    pipeline_of,
)

DECLARED_MAX = 1_000
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MASTER = re.compile(r"local(\[[0-9*]+\])?|(spark|k8s|yarn|mesos)(://\S+)?")


def check_declared(
    settings: PipelineSettings, known: Mapping[str, Pipeline] = PIPELINES
) -> PipelineSettings:
    """The settings themselves; Invalid names the first wrong declaration and the reason."""
    if len(settings.declared) > DECLARED_MAX:
        raise Invalid(f"{DECLARED_MAX} pipelines can be declared, not {len(settings.declared)}")
    if settings.runs_at_once < 1:
        raise Invalid("pipelines.runs_at_once is 1 or more")
    names: set[str] = set()
    for number, declared in enumerate(settings.declared, start=1):
        if not _NAME.fullmatch(declared.name):
            raise Invalid(
                f"the name {declared.name!r} of declared pipeline {number} is not valid: use "
                "1 to 64 of a-z 0-9 - _ and begin with a letter or digit"
            )
        if declared.name in names:
            raise Invalid(f"two declared pipelines have the name {declared.name!r}: rename one")
        names.add(declared.name)
        try:
            _check(declared, known)
        except Invalid as error:
            raise Invalid(f"declared pipeline {declared.name!r}: {error}") from error
    return settings


def due_times_of(declared: DeclaredPipeline) -> DueTimes:
    """The due times of a declaration."""
    if bool(declared.every) == bool(declared.at):
        raise Invalid("set either every or at, as every = '6h' or at = '30 3 * * *'")
    if declared.every:
        if declared.timezone != "UTC":
            raise Invalid("timezone is only for at")
        return IntervalTimes(declared.every)
    return CalendarTimes(declared.at, declared.timezone)


def when_text(declared: DeclaredPipeline) -> str:
    if declared.every:
        return f"every {declared.every}"
    return f"at {declared.at} {declared.timezone}"


def _check(declared: DeclaredPipeline, known: Mapping[str, Pipeline]) -> None:
    pipeline = pipeline_of(declared.pipeline, known)
    arguments_of(pipeline, declared.arguments)
    zone_of(declared.timezone)
    due_times_of(declared)
    duration_s(declared.timeout, "timeout")
    if not _MASTER.fullmatch(declared.master):
        raise Invalid(f"master is local[*], spark://host:7077, …, not {declared.master!r}")
