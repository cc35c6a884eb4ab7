"""The table of all routes: other paths are not served."""

from __future__ import annotations

from strandline.server import console
from strandline.server.http.route import Route
from strandline.server.openapi import routes_with_document
from strandline.server.routes import (
    dead_letters,
    groups,
    health,
    kv,
    kv_watch,
    pipelines,
    prometheus,
    query,
    queue,
    records,
    routers,
    series,
    tables,
    tokens,
    topics,
    views,
    watch,
    websocket,
)
from strandline.server.routes import metrics as routes_metrics

_SERVED: tuple[Route, ...] = (
    *topics.ROUTES,
    *records.ROUTES,
    *routers.ROUTES,
    *tokens.ROUTES,
    *health.ROUTES,
    *prometheus.ROUTES,
    *pipelines.ROUTES,
    *queue.ROUTES,
    *dead_letters.ROUTES,
    *kv.ROUTES,
    *kv_watch.ROUTES,
    *series.ROUTES,
    *routes_metrics.ROUTES,
    *groups.ROUTES,
    *tables.ROUTES,
    *query.ROUTES,
    *views.ROUTES,
    *watch.ROUTES,
    *websocket.ROUTES,
    *console.ROUTES,
)

ROUTES: tuple[Route, ...] = routes_with_document(_SERVED)
