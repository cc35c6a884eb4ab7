"""``/v0/pipelines``: declared pipelines, their past runs, and runs on request.

The schedule uses files in the store's folder (``pipelines/schedule/``), so runs that another
scheduler started are listed, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import structlog

from strandline.api.pipelines import PipelineList, RunBegun, RunLine, RunList, RunsQuery
from strandline.assembly import RUNS_TOPIC
from strandline.pipelines.schedule.history import runs_in
from strandline.pipelines.schedule.scheduler import Schedule
from strandline.platform.background_jobs import Job
from strandline.server.app_state import Parts
from strandline.server.http.request import Call
from strandline.server.http.route import Answer, Need, Route

TICK_S = 1.0
_LOG = structlog.get_logger("strandline.server")


async def list_all(call: Call) -> Answer:
    """Declared pipelines, with their last and next runs."""
    pipelines = await call.parts.bridge.run(call.parts.schedule.status)
    return Answer(PipelineList(pipelines=pipelines))


async def runs(call: Call) -> Answer:
    """Runs that have ended, the newest first."""
    ended = await call.parts.bridge.run(_runs, call.parts, call.query)
    return Answer(RunList(runs=ended))


async def start(call: Call) -> Answer:
    """Run a declared pipeline now."""
    run = await call.parts.bridge.slow(call.parts.schedule.start, call.path["name"])
    return Answer(RunBegun(run=run), 202)


def job_of(parts: Parts) -> Job | None:
    """The job that runs declared pipelines when they are due; None when none is scheduled."""
    settings = parts.settings.store.pipelines
    if not (settings.declared and settings.scheduled):
        return None

    def on_death(reason: str) -> None:
        _LOG.error("declared pipelines no longer run: the schedule job ended", reason=reason)

    return Job("schedule", parts.schedule.look, parts.clock, interval_s=TICK_S, on_death=on_death)


def told_for_metrics(schedule: Schedule) -> Iterator[tuple[str, float, dict[str, str]]]:
    """Name, value and labels of the metrics of declared pipelines."""
    for pipeline in schedule.status():
        labels = {"pipeline": pipeline.name}
        yield "strandline_pipeline_runs_total", pipeline.runs, labels
        yield "strandline_pipeline_failures_total", pipeline.failures, labels
        yield "strandline_pipeline_running", pipeline.running, labels
        name = "strandline_pipeline_last_success_timestamp_seconds"
        yield name, (pipeline.last_success_us or 0) / 1e6, labels


def _runs(parts: Parts, query: RunsQuery) -> list[RunLine]:
    store = parts.store
    if RUNS_TOPIC not in store.topics(RUNS_TOPIC):
        return []
    topic = store.existing_topic(RUNS_TOPIC)
    return runs_in(topic, name=query.name, limit=query.limit, before=query.before)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v0/pipelines",
        handler=list_all,
        needs=(Need("metrics"),),
        summary="List the declared pipelines, with their last and next runs.",
        answers={200: PipelineList},
    ),
    Route(
        method="GET",
        path="/v0/pipelines/runs",
        handler=runs,
        needs=(Need("metrics"),),
        summary="List runs of declared pipelines, the newest first.",
        query=RunsQuery,
        answers={200: RunList},
    ),
    Route(
        method="POST",
        path="/v0/pipelines/{name}/run",
        handler=start,
        needs=(Need("admin"),),
        summary="Run a declared pipeline now.",
        answers={202: RunBegun},
        errors=("not_found", "conflict"),
    ),
)
