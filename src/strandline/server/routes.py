"""The whole table of routes: what is not in it is not served."""

from __future__ import annotations

from strandline.server import (
    console,
    dead_letters,
    groups,
    health,
    kv,
    kv_waiting,
    measurements,
    metrics,
    pipelines,
    queues,
    records,
    routers,
    series,
    sockets,
    sql,
    tables,
    tokens,
    topics,
    views,
    watching,
)
from strandline.server.openapi import routes_with_document
from strandline.server.routing import Route

_SERVED: tuple[Route, ...] = (
    *topics.ROUTES,
    *records.ROUTES,
    *routers.ROUTES,
    *tokens.ROUTES,
    *health.ROUTES,
    *metrics.ROUTES,
    *pipelines.ROUTES,
    *queues.ROUTES,
    *dead_letters.ROUTES,
    *kv.ROUTES,
    *kv_waiting.ROUTES,
    *series.ROUTES,
    *measurements.ROUTES,
    *groups.ROUTES,
    *tables.ROUTES,
    *sql.ROUTES,
    *views.ROUTES,
    *watching.ROUTES,
    *sockets.ROUTES,
    *console.ROUTES,
)

ROUTES: tuple[Route, ...] = routes_with_document(_SERVED)
