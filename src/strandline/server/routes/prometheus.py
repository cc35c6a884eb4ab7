"""Metrics of the server: Prometheus text, or the same as JSON.

All names are in ``FAMILIES``; no others are exported. By default no metric has a line for every
topic: ``metrics_per_topic`` adds those, for ``TOPICS_MAX`` topics at most, and
``strandline_topic_metrics_truncated`` is 1 when there are more. Values are gathered on request, on
a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from starlette.responses import Response

from strandline.errors import StrandlineError
from strandline.log.wal.stats import SYNC_BUCKETS_US
from strandline.server.app_state import AppState
from strandline.server.http.request import RequestContext
from strandline.server.http.route import JsonResponse, Route, RoutePermission
from strandline.server.routes.pipelines import metric_samples

TOPICS_MAX = 1000
"""Topics with lines of their own."""
QUEUES_MAX = 100
"""Queues whose leases are counted."""
TEXT = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


class _MetricFamily(NamedTuple):
    """The type and help text of a metric."""

    kind: Literal["gauge", "counter", "histogram"]
    help: str


class MetricSample(NamedTuple):
    """One value of a metric."""

    name: str
    value: float
    labels: Labels = {}  # noqa: RUF012 - never changed
    suffix: str = ""
    """For a histogram: ``_bucket``, ``_sum`` or ``_count``."""


FAMILIES: dict[str, _MetricFamily] = {
    "strandline_topics": _MetricFamily("gauge", "Topics"),
    "strandline_topics_by_class": _MetricFamily("gauge", "Topics by durability"),
    "strandline_routers": _MetricFamily("gauge", "Routers"),
    "strandline_records_live": _MetricFamily("gauge", "Live records of all topics"),
    "strandline_bytes_live": _MetricFamily("gauge", "Bytes of live records of all topics"),
    "strandline_queue_topics": _MetricFamily("gauge", "Topics that are queues"),
    "strandline_queue_ready": _MetricFamily("gauge", "Jobs that can be claimed"),
    "strandline_queue_leases_in_flight": _MetricFamily("gauge", "Jobs leased to a worker"),
    "strandline_queue_dead_letters": _MetricFamily("gauge", "Dead letters"),
    "strandline_queue_metrics_truncated": _MetricFamily(
        "gauge", "1 when some queues are not counted"
    ),
    "strandline_sse_connections": _MetricFamily("gauge", "Open SSE streams"),
    "strandline_websocket_connections": _MetricFamily("gauge", "Open WebSockets"),
    "strandline_watch_sessions": _MetricFamily("gauge", "Watch sessions"),
    "strandline_pressure": _MetricFamily("gauge", "Load that controls load shedding, from 0 to 1"),
    "strandline_ready": _MetricFamily("gauge", "1 when the server accepts requests"),
    "strandline_recovery_progress": _MetricFamily(
        "gauge", "Share of the log that was replayed, 0 to 1"
    ),
    "strandline_uptime_ms": _MetricFamily("gauge", "Milliseconds since the server started"),
    "strandline_store_health": _MetricFamily("gauge", "1 for the state that the store is in"),
    "strandline_disk_free_bytes": _MetricFamily("gauge", "Free bytes on the disk of the store"),
    "strandline_memory_used_bytes": _MetricFamily("gauge", "Memory in use by share of the budget"),
    "strandline_memory_limit_bytes": _MetricFamily("gauge", "Memory that a share may use"),
    "strandline_appends_total": _MetricFamily("counter", "Appends written to the log"),
    "strandline_records_appended_total": _MetricFamily("counter", "Appended records"),
    "strandline_records_read_total": _MetricFamily("counter", "Records that reads returned"),
    "strandline_http_requests_total": _MetricFamily(
        "counter", "Responses by status, fast appends aside"
    ),
    "strandline_wal_frames_total": _MetricFamily("counter", "Commits written to the log"),
    "strandline_wal_bytes_written_total": _MetricFamily("counter", "Bytes written to the log"),
    "strandline_wal_fsyncs_total": _MetricFamily("counter", "Syncs of the log"),
    "strandline_wal_slow_fsyncs_total": _MetricFamily(
        "counter", "Syncs that took more than 500 ms"
    ),
    "strandline_wal_slow": _MetricFamily("gauge", "1 when syncs of the last minute were slow"),
    "strandline_wal_rotations_total": _MetricFamily("counter", "Files that the log started"),
    "strandline_wal_queue_depth": _MetricFamily("gauge", "Appends waiting for a sync"),
    "strandline_wal_queue_depth_peak": _MetricFamily(
        "gauge", "Most appends that waited for one sync"
    ),
    "strandline_wal_read_only": _MetricFamily("gauge", "1 when a log accepts no more appends"),
    "strandline_idempotency_keys_evicted_total": _MetricFamily(
        "counter", "Idempotency keys evicted by a limit before their window ended"
    ),
    "strandline_wal_fsync_latency_us": _MetricFamily("histogram", "Microseconds that a sync took"),
    "strandline_pipeline_runs_total": _MetricFamily("counter", "Runs of a declared pipeline"),
    "strandline_pipeline_failures_total": _MetricFamily("counter", "Runs that failed or were lost"),
    "strandline_pipeline_running": _MetricFamily("gauge", "1 while a declared pipeline runs"),
    "strandline_pipeline_last_success_timestamp_seconds": _MetricFamily(
        "gauge", "Unix time of the last successful run; 0 for never"
    ),
    "strandline_topic_head_seq": _MetricFamily("gauge", "The newest seq"),
    "strandline_topic_earliest_seq": _MetricFamily("gauge", "The first live seq"),
    "strandline_topic_records_live": _MetricFamily("gauge", "Live records"),
    "strandline_topic_bytes_live": _MetricFamily("gauge", "Bytes of live records"),
    "strandline_topic_queue_ready": _MetricFamily("gauge", "Jobs that can be claimed"),
    "strandline_topic_queue_in_flight": _MetricFamily("gauge", "Jobs leased to a worker"),
    "strandline_topic_metrics_truncated": _MetricFamily(
        "gauge", "1 when some topics have no lines"
    ),
}


async def metrics(call: RequestContext) -> JsonResponse | Response:
    """Return the server's metrics."""
    samples = await call.parts.bridge.metrics(gather, call.parts)
    if "application/json" in call.accept:
        return JsonResponse(as_json(samples))
    return Response(as_text(samples), media_type=TEXT)


def gather(parts: AppState) -> list[MetricSample]:
    """All metrics. They are read one after another, not at one moment."""
    return [
        *_of_topics(parts),
        *_of_server(parts),
        *_of_store(parts),
        *_of_log(parts),
        *(MetricSample(*sample) for sample in metric_samples(parts.schedule)),
        *(_of_each_topic(parts) if parts.settings.metrics_per_topic else ()),
    ]


def as_text(samples: list[MetricSample]) -> str:
    """Samples in the text format of Prometheus."""
    by_name: dict[str, list[MetricSample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    lines = []
    for name, family_samples in by_name.items():
        family = FAMILIES[name]
        lines += [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}"]
        lines += [
            f"{name}{each.suffix}{_labels(each.labels)} {_number(each.value)}"
            for each in family_samples
        ]
    return "\n".join(lines) + "\n"


def as_json(samples: list[MetricSample]) -> dict[str, Any]:
    """By name: a number, or a list of numbers with their labels."""
    by_name: dict[str, Any] = {}
    for name, value, labels, suffix in samples:
        if labels:
            by_name.setdefault(name + suffix, []).append({**labels, "value": value + 0})
        else:
            by_name[name + suffix] = value + 0  # True is 1
    return by_name


def _of_topics(parts: AppState) -> Iterator[MetricSample]:
    totals = parts.store.totals()
    yield MetricSample("strandline_topics", totals.topics)
    for durability, count in sorted(totals.by_durability.items()):
        yield MetricSample("strandline_topics_by_class", count, {"class": durability})
    yield MetricSample("strandline_routers", len(parts.store.routers.list()))
    yield MetricSample("strandline_records_live", totals.records)
    yield MetricSample("strandline_bytes_live", totals.payload_bytes)
    yield MetricSample("strandline_queue_topics", len(totals.queues))
    yield from _of_queues(parts, totals.queues)


def _of_queues(parts: AppState, names: list[str]) -> Iterator[MetricSample]:
    ready = in_flight = dead = 0
    for name in names[:QUEUES_MAX]:
        try:
            numbers = parts.store.queue(name).statistics()
        except StrandlineError:
            continue  # deleted in the meantime
        ready += numbers.ready
        in_flight += numbers.in_flight
        dead += numbers.dead
    yield MetricSample("strandline_queue_ready", ready)
    yield MetricSample("strandline_queue_leases_in_flight", in_flight)
    yield MetricSample("strandline_queue_dead_letters", dead)
    yield MetricSample("strandline_queue_metrics_truncated", len(names) > QUEUES_MAX)


def _of_server(parts: AppState) -> Iterator[MetricSample]:
    counters = parts.counters
    yield MetricSample("strandline_ready", not parts.draining)
    yield MetricSample("strandline_recovery_progress", 1)
    yield MetricSample(
        "strandline_uptime_ms", int((parts.clock.monotonic() - parts.started_s) * 1000)
    )
    streams = [stream.wrapping in ("frame", "text") for stream in list(parts.hub.streams)]
    yield MetricSample("strandline_sse_connections", streams.count(False))
    yield MetricSample("strandline_websocket_connections", streams.count(True))
    yield MetricSample("strandline_watch_sessions", len(parts.hub.sessions))
    yield MetricSample("strandline_pressure", parts.hub.load_shedder.pressure)
    yield MetricSample("strandline_appends_total", counters.appends)
    yield MetricSample("strandline_records_appended_total", counters.records)
    yield MetricSample("strandline_records_read_total", counters.records_read)
    for status, count in sorted(dict(counters.requests).items()):
        yield MetricSample("strandline_http_requests_total", count, {"status": str(status)})


def _of_store(parts: AppState) -> Iterator[MetricSample]:
    health = parts.store.health()
    for status in ("green", "yellow", "red"):
        yield MetricSample("strandline_store_health", health.status == status, {"status": status})
    yield MetricSample("strandline_disk_free_bytes", health.free_bytes)
    for share, use in parts.store.views.memory().items():
        yield MetricSample("strandline_memory_used_bytes", use.used, {"share": share})
        yield MetricSample("strandline_memory_limit_bytes", use.limit, {"share": share})


def _of_log(parts: AppState) -> Iterator[MetricSample]:
    for numbers in parts.store.log_statistics():
        shard = {"shard": str(numbers.shard)}
        yield MetricSample("strandline_wal_frames_total", numbers.frames, shard)
        yield MetricSample("strandline_wal_bytes_written_total", numbers.bytes_written, shard)
        yield MetricSample("strandline_wal_fsyncs_total", numbers.syncs, shard)
        yield MetricSample("strandline_wal_slow_fsyncs_total", numbers.slow_syncs, shard)
        yield MetricSample("strandline_wal_slow", numbers.is_slow, shard)
        yield MetricSample("strandline_wal_rotations_total", numbers.rotations, shard)
        yield MetricSample("strandline_wal_queue_depth", numbers.waiting, shard)
        yield MetricSample("strandline_wal_queue_depth_peak", numbers.waiting_most, shard)
        yield MetricSample("strandline_wal_read_only", numbers.failed, shard)
        yield MetricSample("strandline_idempotency_keys_evicted_total", numbers.keys_evicted, shard)
        count = 0
        for bound, more in zip((*SYNC_BUCKETS_US, None), numbers.sync_counts, strict=True):
            count += more
            bound_text = "+Inf" if bound is None else str(bound)
            yield _of_syncs(count, {**shard, "le": bound_text}, "_bucket")
        yield _of_syncs(numbers.sync_total_us, shard, "_sum")
        yield _of_syncs(count, shard, "_count")


def _of_syncs(value: float, labels: Labels, suffix: str) -> MetricSample:
    return MetricSample("strandline_wal_fsync_latency_us", value, labels, suffix)


def _of_each_topic(parts: AppState) -> Iterator[MetricSample]:
    names = parts.store.topics()
    for name in names[:TOPICS_MAX]:
        labels = {"topic": name}
        try:
            numbers = parts.store.existing_topic(name).estimate()
            yield MetricSample("strandline_topic_head_seq", numbers.head_seq, labels)
            yield MetricSample("strandline_topic_earliest_seq", numbers.earliest_seq, labels)
            yield MetricSample("strandline_topic_records_live", numbers.count, labels)
            yield MetricSample("strandline_topic_bytes_live", numbers.payload_bytes, labels)
            if numbers.config.views.queue is not None:
                jobs = parts.store.queue(name).statistics()
                yield MetricSample("strandline_topic_queue_ready", jobs.ready, labels)
                yield MetricSample("strandline_topic_queue_in_flight", jobs.in_flight, labels)
        except StrandlineError:
            continue  # deleted in the meantime
    yield MetricSample("strandline_topic_metrics_truncated", len(names) > TOPICS_MAX)


def _number(value: float) -> str:
    return repr(value) if isinstance(value, float) else str(int(value))


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v0/metrics",
        handler=metrics,
        needs=(RoutePermission("metrics"),),
        summary="Get the server's metrics as Prometheus text or JSON.",
        answers={200: dict[str, Any]},
        gives=("text/plain", "application/json"),
    ),
)
