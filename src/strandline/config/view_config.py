"""Options of the views of a topic. Part of the topic's configuration, stored in the log with it.

A view is a fold over a topic (``views/``): it exists as long as its configuration does.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from strandline.errors import Invalid

OPTION_MAX = 2**53
UNITS_PER_S = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
CLOCK_RETENTION_S = 60 * 86_400


class KvConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key-value map over the records' keys."""

    history: int = 8
    """Number of readable versions of a key, from 1 to 1000, the newest included. Older versions
    leave the log. More: more disk."""

    grace_ms: int = 86_400_000
    """Milliseconds that the versions of a deleted key stay readable, and that a watcher may be
    disconnected without missing it. Then the key leaves the log."""

    def __post_init__(self) -> None:
        if not 1 <= self.history <= 1000:
            raise Invalid(f"history is {self.history}: give from 1 to 1000 versions")


class QueueConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A work queue: every record is a job."""

    lease_ms: int = 30_000
    """Milliseconds of a lease for which the claim sets no time. Longer: the jobs of a worker that
    died wait longer. Shorter: the jobs of a slow worker are delivered to others, too."""

    deliveries_max: int = 5
    """Number of deliveries after which a job becomes a dead letter; 0 means no limit."""

    claim_jitter_ms: int = 0
    """Milliseconds that every claim waits, so that claims of the same time share the jobs evenly:
    one job to each in turn. 0: each claim is served at once."""

    dead_letter: str | None = None
    """The topic for dead letters, which several queues may share; None is the queue's name and
    ``:dead``. Set at creation only: a change would leave dead letters in the previous topic."""

    def __post_init__(self) -> None:
        if not 1 <= self.lease_ms <= 86_400_000:
            raise Invalid(f"lease_ms is {self.lease_ms}: give from 1 to 86400000")
        if not 0 <= self.deliveries_max <= 65_535:
            raise Invalid(f"deliveries_max is {self.deliveries_max}: give from 0 to 65535")
        if not 0 <= self.claim_jitter_ms <= 5_000:
            raise Invalid(f"claim_jitter_ms is {self.claim_jitter_ms}: give from 0 to 5000")


class SeriesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Records by source and time."""

    unit: str = "us"
    """Unit of ``at``, microseconds by default. It is reported to clients, and nothing is converted;
    records without ``at`` have their ts, in microseconds."""

    jitter: int = 0
    """How much older than the newest record of its source a record may be without being a late
    arrival, in the unit of ``at``."""

    retention: int = 0
    """Maximum age of records, in the unit of ``at``; 0 means no limit, or 60 days if
    ``retention_by`` is ``clock``."""

    retention_by: Literal["newest", "clock"] = "newest"
    """Reference time of retention: the ``newest`` record of all sources, so that one record from
    the far future expires all others unless ``future_max`` is set; or the ``clock``, which needs
    a unit of time."""

    future_max: int = 0
    """Maximum distance of a record after the clock, in the unit of ``at``; a later record is
    rejected. 0 accepts any. Needs a unit of time."""

    inline_bytes: int = 256
    """Payloads up to this size are also stored with the index, so that one source of many is read
    without the log. They take disk a second time, compressed, and memory until they are in a block:
    then fewer points of a source wait there to be sorted. 0 stores none."""

    def __post_init__(self) -> None:
        if not 0 <= self.inline_bytes <= 4096:
            raise Invalid(f"inline_bytes is {self.inline_bytes}: give from 0 to 4096")
        if self.future_max < 0:
            raise Invalid(f"future_max is {self.future_max}: give 0, which is no limit, or more")
        if self.unit not in UNITS_PER_S and (self.retention_by == "clock" or self.future_max):
            raise Invalid(
                f"the clock cannot be compared with an at in {self.unit!r}: retention_by='clock' "
                f"and future_max need a unit of time, one of {', '.join(UNITS_PER_S)}"
            )

    @property
    def effective_retention(self) -> int:
        """The effective retention, in the unit of ``at``; 0 means no limit."""
        if self.retention or self.retention_by == "newest":
            return self.retention
        return CLOCK_RETENTION_S * UNITS_PER_S[self.unit]

    def time_of(self, now_us: int) -> int:
        """Convert microseconds into the unit of ``at``, which must be a unit of time."""
        return now_us * UNITS_PER_S[self.unit] // 1_000_000


class MetricsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Measurements with tags and numeric fields."""

    block_points: int = 4096
    """Points per block, of one series if it has many, else of several. More: smaller blocks, faster
    reads of many points. Fewer: faster queries for a few points."""

    def __post_init__(self) -> None:
        if not 16 <= self.block_points <= 65_536:
            raise Invalid(f"block_points is {self.block_points}: give from 16 to 65536")


class TableConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Events with a schema, in columns."""

    flush_rows: int = 262_144
    """Rows that are collected in memory before they become a file. More: fewer, larger files, more
    memory, slower opening of the store."""

    zone_rows: int = 8_192
    """Rows of a zone, which a query reads as a whole. Fewer: faster queries for a few rows. More:
    faster queries for most rows."""

    retention_ms: int = 0
    """Milliseconds after which events are deleted; 0 means no limit."""

    def __post_init__(self) -> None:
        if not 256 <= self.zone_rows <= 1_048_576:
            raise Invalid(f"zone_rows is {self.zone_rows}: give from 256 to 1048576")
        if not 1 <= self.flush_rows <= 16_777_216:
            raise Invalid(f"flush_rows is {self.flush_rows}: give from 1 to 16777216")


class ViewConfigs(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The views of one topic; None is a view that it does not have."""

    kv: KvConfig | None = None
    """A key-value map."""

    queue: QueueConfig | None = None
    """A work queue."""

    series: SeriesConfig | None = None
    """Records by source and time."""

    metrics: MetricsConfig | None = None
    """Measurements."""

    table: TableConfig | None = None
    """An event table."""

    owner: str = ""
    """The topic whose view stores its own records in this one."""

    @property
    def is_queue_alone(self) -> bool:
        """Whether the topic has a queue and no other view."""
        others = (self.kv, self.series, self.metrics, self.table)
        return self.queue is not None and others == (None,) * 4

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in KINDS) or bool(self.owner)


KINDS = ("kv", "queue", "series", "metrics", "table")
"""The views that a topic may have, by their fields above."""


def check_views(views: ViewConfigs) -> None:
    """Raise when a number among the options of a view is out of range."""
    for kind in KINDS:
        config = getattr(views, kind)
        if config is None:
            continue
        for name, value in msgspec.structs.asdict(config).items():
            if isinstance(value, (int, float)) and not 0 <= value <= OPTION_MAX:
                raise Invalid(f"{kind} option {name} is {value}, not from 0 to {OPTION_MAX}")
