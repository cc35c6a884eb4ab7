"""The kinds of views that a store has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from strandline.config.view_config import (
    KvConfig,
    MetricsConfig,
    QueueConfig,
    SeriesConfig,
    TableConfig,
)
from strandline.log.topic.topic import Topic
from strandline.views.kv.fold import KvFold
from strandline.views.kv.kv import Kv
from strandline.views.metrics.fold import MetricsFold
from strandline.views.metrics.metrics import Metrics
from strandline.views.open_view import ViewKind
from strandline.views.queue.dead_letters import dead_letter_of
from strandline.views.queue.fold import QueueFold
from strandline.views.queue.queue import Queue
from strandline.views.series.fold import SeriesFold
from strandline.views.series.series import Series
from strandline.views.table.fold import TableFold
from strandline.views.table.table import Table
from strandline.views.view_runner import ViewRunner


def _queue(
    host: ViewRunner[QueueFold], companion: Callable[[str], Topic], plain: Callable[[str], Topic]
) -> Queue:
    name = dead_letter_of(host)
    return Queue(host, dead=partial(companion, ":dead") if name is None else partial(plain, name))


KV = ViewKind("kv", KvConfig, "kv", ("",), KvFold, lambda host, *_: Kv(host))
QUEUE = ViewKind("queue", QueueConfig, "queue", ("", ":leases"), QueueFold, _queue)
SERIES = ViewKind(
    "series",
    SeriesConfig,
    "series",
    ("",),
    SeriesFold,
    lambda host, *_: Series(host),
    # Other options decide what is appended. These four existed when the first views were saved.
    essence=lambda config: {
        name: getattr(config, name) for name in ("unit", "jitter", "retention", "inline_bytes")
    },
)

METRICS = ViewKind(
    "metrics", MetricsConfig, "series", ("",), MetricsFold, lambda host, *_: Metrics(host)
)

TABLE = ViewKind(
    "table",
    TableConfig,
    "series",
    ("",),
    TableFold,
    lambda host, *_: Table(host),
    essence=lambda _: "",  # the configuration changes how rows are stored, not what they are
)

KINDS: dict[str, ViewKind[Any]] = {kind.name: kind for kind in (KV, QUEUE, SERIES, METRICS, TABLE)}
