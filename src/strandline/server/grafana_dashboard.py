"""A dashboard for Grafana over the metrics of ``server/routes/prometheus.py``. Pure.

Rows of panels; each queries metrics that the server exports, and no others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

_WIDTH, _HEIGHT, _ACROSS = 8, 7, 3
_RATE = "[$__rate_interval]"


class _Panel(NamedTuple):
    """One graph: its title, unit, and queries."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    """PromQL and the legend of each query."""


def _rate(name: str) -> str:
    return f"rate({name}{_RATE})"


def _quantile(share: float) -> str:
    buckets = f"sum by (le) ({_rate('strandline_wal_fsync_latency_us_bucket')})"
    return f"histogram_quantile({share}, {buckets}) / 1e6"


PANELS: tuple[_Panel, ...] = (
    _Panel("Health of the store", "short", (("strandline_store_health == 1", "{{status}}"),)),
    _Panel("Accepts requests", "bool", (("strandline_ready", "ready"),)),
    _Panel("Uptime", "ms", (("strandline_uptime_ms", "uptime"),)),
    _Panel(
        "Records per second",
        "ops",
        (
            (_rate("strandline_records_appended_total"), "appended"),
            (_rate("strandline_records_read_total"), "read"),
        ),
    ),
    _Panel("Appends per second", "reqps", ((_rate("strandline_appends_total"), "appends"),)),
    _Panel(
        "Responses by status",
        "reqps",
        ((f"sum by (status) ({_rate('strandline_http_requests_total')})", "{{status}}"),),
    ),
    _Panel(
        "Sync latency",
        "s",
        tuple((_quantile(share), f"p{round(share * 100)}") for share in (0.5, 0.9, 0.99)),
    ),
    _Panel(
        "Syncs per second",
        "ops",
        ((f"sum({_rate('strandline_wal_fsyncs_total')})", "syncs"),),
    ),
    _Panel(
        "Bytes written to the log",
        "Bps",
        ((f"sum({_rate('strandline_wal_bytes_written_total')})", "log"),),
    ),
    _Panel(
        "Commits written to the log",
        "ops",
        ((f"sum({_rate('strandline_wal_frames_total')})", "frames"),),
    ),
    _Panel(
        "Appends waiting for a sync",
        "short",
        (
            ("sum(strandline_wal_queue_depth)", "waiting"),
            ("max(strandline_wal_queue_depth_peak)", "most"),
        ),
    ),
    _Panel("Pressure", "percentunit", (("strandline_pressure", "pressure"),)),
    _Panel("Read-only logs", "short", (("sum(strandline_wal_read_only)", "read only"),)),
    _Panel("Live records", "short", (("strandline_records_live", "records"),)),
    _Panel("Live bytes", "bytes", (("strandline_bytes_live", "bytes"),)),
    _Panel("Free disk space", "bytes", (("strandline_disk_free_bytes", "free"),)),
    _Panel("Topics by durability", "short", (("strandline_topics_by_class", "{{class}}"),)),
    _Panel(
        "Streams",
        "short",
        (
            ("strandline_sse_connections", "SSE"),
            ("strandline_websocket_connections", "WebSocket"),
            ("strandline_watch_sessions", "sessions"),
        ),
    ),
    _Panel(
        "Jobs",
        "short",
        (
            ("strandline_queue_ready", "ready"),
            ("strandline_queue_leases_in_flight", "in flight"),
            ("strandline_queue_dead_letters", "dead letters"),
        ),
    ),
    _Panel(
        "Memory by share",
        "percentunit",
        (("strandline_memory_used_bytes / strandline_memory_limit_bytes", "{{share}}"),),
    ),
    _Panel("Routers", "short", (("strandline_routers", "routers"),)),
    _Panel(
        "Largest topics (with metrics_per_topic)",
        "bytes",
        (("topk(10, strandline_topic_bytes_live)", "{{topic}}"),),
    ),
)


def dashboard(title: str = "Strandline") -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    return {
        "title": title,
        "uid": "strandline",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {
                    "name": "source",
                    "label": "Prometheus",
                    "type": "datasource",
                    "query": "prometheus",
                }
            ]
        },
        "panels": [_panel(index, panel) for index, panel in enumerate(PANELS)],
    }


def _panel(index: int, panel: _Panel) -> dict[str, Any]:
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "gridPos": {
            "x": index % _ACROSS * _WIDTH,
            "y": index // _ACROSS * _HEIGHT,
            "w": _WIDTH,
            "h": _HEIGHT,
        },
        "targets": [
            {"refId": chr(ord("A") + number), "expr": expression, "legendFormat": legend}
            for number, (expression, legend) in enumerate(panel.queries)
        ],
    }
