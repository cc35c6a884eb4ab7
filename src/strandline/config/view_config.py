"""How the views of a topic work. Part of the topic's configuration, on the log with it.

A view is a fold over a topic (``views/``): it is there as long as its configuration is.
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
    """Versions of a key that can still be read, the newest included. More take more disk: what is
    beyond it leaves the log."""

    grace_ms: int = 86_400_000
    """How long a deleted key's versions can still be read, and how long a watcher may be away. Then
    the key leaves the log."""

    def __post_init__(self) -> None:
        if not 1 <= self.history <= 1000:
            raise Invalid(f"history is {self.history}: keep from 1 to 1000 versions")


class QueueConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A work queue: every record is a job."""

    lease_ms: int = 30_000
    """How long a claimed job is its worker's, unless the claim says otherwise. Longer: the jobs of
    a worker that died wait longer. Shorter: a slow worker's jobs are given to others, too."""

    deliveries_max: int = 5
    """How often a job is given out before it becomes a dead letter; 0 is for ever."""

    claim_jitter_ms: int = 0
    """Claims that come within this time are served together, job after job to one after the other.
    Every claim waits so long. 0: each is served at once."""

    dead_letter: str | None = None
    """The topic that dead letters go to, which several queues may share; None is the queue's name
    and ``:dead``. Set when the queue is made, and never changed: letters would be left behind."""

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
    """What ``at`` counts: microseconds, unless you say otherwise. It is told to whoever asks, and
    nothing is converted; plain records are at their ts, in microseconds."""

    jitter: int = 0
    """How far behind its source's newest record one may come and still be no late arrival, in the
    unit of ``at``."""

    retention: int = 0
    """How far back records are kept, in the unit of ``at``; 0 keeps all, but for retention by the
    clock, where it is 60 days."""

    retention_by: Literal["newest", "clock"] = "newest"
    """From where retention counts: from the newest record of all sources, so that one record from
    the far future ends all others unless there is a ``future_max``; or from the clock. The clock
    needs a unit of time."""

    future_max: int = 0
    """How far after the clock a record may be, in the unit of ``at``; a later one is refused. 0
    takes any. Needs a unit of time."""

    inline_bytes: int = 256
    """Payloads up to this size are kept with the index too, so that one source of many is read
    without visiting the log. They take disk a second time, compressed, and memory until they are in
    a block: then fewer points of a source wait there to be put in order. 0 keeps none."""

    def __post_init__(self) -> None:
        if not 0 <= self.inline_bytes <= 4096:
            raise Invalid(f"inline_bytes is {self.inline_bytes}: give from 0 to 4096")
        if self.future_max < 0:
            raise Invalid(f"future_max is {self.future_max}: give 0 for no limit, or more")
        if self.unit not in UNITS_PER_S and (self.retention_by == "clock" or self.future_max):
            raise Invalid(
                f"the clock cannot be compared with an at in {self.unit!r}: retention_by='clock' "
                f"and future_max need a unit of time, one of {', '.join(UNITS_PER_S)}"
            )

    @property
    def kept(self) -> int:
        """How far back records are kept; 0 keeps all."""
        if self.retention or self.retention_by == "newest":
            return self.retention
        return CLOCK_RETENTION_S * UNITS_PER_S[self.unit]

    def time_of(self, now_us: int) -> int:
        """A time in microseconds in the unit of ``at``, which is one of time."""
        return now_us * UNITS_PER_S[self.unit] // 1_000_000


class MetricsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Measurements with tags and numeric fields."""

    block_points: int = 4096
    """Points that are packed together: of one series when it has many, else of several. More are
    smaller and quicker to read as a whole; fewer are quicker when a question wants a few."""

    def __post_init__(self) -> None:
        if not 16 <= self.block_points <= 65_536:
            raise Invalid(f"block_points is {self.block_points}: give from 16 to 65536")


class TableConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Events with a schema, in columns."""

    flush_rows: int = 262_144
    """Rows that are collected in memory before they become a file. More make fewer, larger files,
    and take memory, and time when a store is opened."""

    zone_rows: int = 8_192
    """Rows of a zone, of which a question reads all or nothing. Fewer are quicker when a question
    wants a few rows, more when it wants most."""

    retention_ms: int = 0
    """Events older than this are deleted; 0 keeps all."""

    def __post_init__(self) -> None:
        if not 256 <= self.zone_rows <= 1_048_576:
            raise Invalid(f"zone_rows is {self.zone_rows}: give from 256 to 1048576")
        if not 1 <= self.flush_rows <= 16_777_216:
            raise Invalid(f"flush_rows is {self.flush_rows}: give from 1 to 16777216")


class ViewConfigs(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The views of one topic, those that it has."""

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
    """The topic whose view keeps its own records in this one."""

    @property
    def is_queue_alone(self) -> bool:
        """Whether every record is a job and nothing else."""
        others = (self.kv, self.series, self.metrics, self.table)
        return self.queue is not None and others == (None,) * 4

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in KINDS) or bool(self.owner)


KINDS = ("kv", "queue", "series", "metrics", "table")
"""The views that a topic may have, by their fields above."""


def check_views(views: ViewConfigs) -> None:
    """Raise when an option of a view cannot be."""
    for kind in KINDS:
        config = getattr(views, kind)
        if config is None:
            continue
        for name, value in msgspec.structs.asdict(config).items():
            if isinstance(value, (int, float)) and not 0 <= value <= OPTION_MAX:
                raise Invalid(f"{kind} option {name} is {value}, not from 0 to {OPTION_MAX}")
