"""``/v0/pipelines``: declared pipelines, their past runs, and runs on request.

The schedule uses files in the store's folder (``pipelines/schedule/``), so runs that another
scheduler started are listed, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import structlog

from strandline.api.pipelines import PipelineList, RunLine, RunList, RunsQuery, StartRunResponse
from strandline.assembly import RUNS_TOPIC
from strandline.pipelines.schedule.history import runs_in
from strandline.pipelines.schedule.scheduler import PipelineScheduler
from strandline.platform.background_jobs import BackgroundJob
from strandline.server.app_state import AppState
from strandline.server.http.request import RequestContext
from strandline.server.http.route import JsonResponse, Route, RoutePermission

TICK_S = 1.0
_LOG = structlog.get_logger("strandline.server")


async def list_all(call: RequestContext) -> JsonResponse:
    """Declared pipelines, with their last and next runs."""
    pipelines = await call.parts.bridge.run(call.parts.schedule.status)
    return JsonResponse(PipelineList(pipelines=pipelines))


async def runs(call: RequestContext) -> JsonResponse:
    """Runs that have ended, the newest first."""
    ended = await call.parts.bridge.run(_runs, call.parts, call.query)
    return JsonResponse(RunList(runs=ended))


async def start(call: RequestContext) -> JsonResponse:
    """Run a declared pipeline now."""
    run = await call.parts.bridge.slow(call.parts.schedule.start, call.path["name"])
    return JsonResponse(StartRunResponse(run=run), 202)


def schedule_job(parts: AppState) -> BackgroundJob | None:
    """The job that runs declared pipelines when they are due; None when none is scheduled."""
    settings = parts.settings.store.pipelines
    if not (settings.declared and settings.scheduled):
        return None

    def on_death(reason: str) -> None:
        _LOG.error("declared pipelines no longer run: the schedule job ended", reason=reason)

    return BackgroundJob(
        "schedule", parts.schedule.start_due, parts.clock, interval_s=TICK_S, on_death=on_death
    )


def metric_samples(schedule: PipelineScheduler) -> Iterator[tuple[str, float, dict[str, str]]]:
    """Name, value and labels of the metrics of declared pipelines."""
    for pipeline in schedule.status():
        labels = {"pipeline": pipeline.name}
        yield "strandline_pipeline_runs_total", pipeline.runs, labels
        yield "strandline_pipeline_failures_total", pipeline.failures, labels
        yield "strandline_pipeline_running", pipeline.running, labels
        name = "strandline_pipeline_last_success_timestamp_seconds"
        yield name, (pipeline.last_success_us or 0) / 1e6, labels


def _runs(parts: AppState, query: RunsQuery) -> list[RunLine]:
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
        needs=(RoutePermission("metrics"),),
        summary="List the declared pipelines, with their last and next runs.",
        answers={200: PipelineList},
    ),
    Route(
        method="GET",
        path="/v0/pipelines/runs",
        handler=runs,
        needs=(RoutePermission("metrics"),),
        summary="List runs of declared pipelines, the newest first.",
        query=RunsQuery,
        answers={200: RunList},
    ),
    Route(
        method="POST",
        path="/v0/pipelines/{name}/run",
        handler=start,
        needs=(RoutePermission("admin"),),
        summary="Run a declared pipeline now.",
        answers={202: StartRunResponse},
        errors=("not_found", "conflict"),
    ),
)
