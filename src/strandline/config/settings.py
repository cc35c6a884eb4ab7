"""Settings of a store and options of a topic. Data only; a field's text gives the cost of a change.

Parts (clock, disk) are arguments of ``strandline.open``, never settings.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from strandline.config.pipeline_config import DeclaredPipeline
from strandline.config.view_config import ViewConfigs, check_views
from strandline.errors import Invalid
from strandline.schema import checked_fields

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

OPTION_MAX = 2**53
"""The largest number in a topic's options: as microseconds it still fits into a stored time."""

PRIORITY_MAX = 1000
"""The highest priority of a topic; the lowest is its negative."""

Durability = Literal["ephemeral", "memory", "disk", "fsync"]
Discard = Literal["old", "reject"]
Compression = Literal["none", "zstd"]


class ObjectSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Retries and timeouts of requests to an object store."""

    attempts_max: int = 6
    """Maximum attempts per request, the first included, before it fails. More: longer outages stay
    unnoticed, and the caller waits longer for the error."""

    retry_s_max: float = 45.0
    """Seconds after which no attempt begins. It bounds a caller's wait while a store is gone."""

    delay_s_first: float = 0.1
    """Seconds before the second attempt; each next pause doubles, plus a random part of up to the
    same length, so that many clients do not retry at once."""

    request_s_max: float = 30.0
    """Timeout of one request in seconds, its body included. Too short: large objects fail."""

    connect_s_max: float = 5.0
    """Timeout of a connection attempt in seconds. Too short: a distant store fails."""


class WalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The write-ahead log (WAL): how recent batches become durable."""

    shards: int = 1
    """Number of parallel WALs. More than one helps with slow syncs or several processes, not with
    threads. May change between openings."""

    file_size_first: int = 1 * MIB
    """Bytes of the first WAL file after opening; each next file is twice as large. A small value
    keeps small stores small."""

    file_size_max: int = 64 * MIB
    """Bytes at which WAL files stop doubling. Larger: fewer rotations, more disk when idle."""

    retained_bytes: int = 0
    """Bytes of each shard's log to keep after checkpoints no longer need them; 0 keeps none. With
    as much as is written between two backups, every time between them can be restored."""

    sync_interval_ms: int = 20
    """Milliseconds that bytes of ``disk`` and ``memory`` topics may wait for the background sync,
    and ``memory`` records for their flush. Shorter: less is lost on power loss, less throughput."""


class SegmentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When and how records move from the log into segments."""

    checkpoint_bytes: int = 64 * MIB
    """WAL bytes that start a checkpoint. Larger: fewer, longer checkpoints, slower recovery."""

    checkpoint_interval_s: float = 60.0
    """Maximum seconds between checkpoints of a WAL that has new records."""

    seal_bytes: int = 64 * MIB
    """Bytes of a topic in shared segments from which it gets a sealed segment of its own."""

    seal_records: int = 1_000_000
    """The same limit in records."""

    seal_idle_s: float = 3600.0
    """Age in seconds of a topic's oldest shared part at which it is sealed, if the topic has at
    least ``own_bytes_min`` in shared segments."""

    own_bytes_min: int = 1 * MIB
    """Bytes below which a topic never gets a segment of its own: many small topics share files."""

    shared_files_max: int = 8
    """Number of shared segments above which they are merged. Lower: fewer files, more rewriting."""

    block_records: int = 4096
    """Rows per block in segments. Larger: better compression, more bytes to read for one record."""

    compression: Compression = "none"
    """``zstd`` makes JSON about seven times smaller for about 0.2 us per record at sealing."""

    cache_bytes: int = 64 * MIB
    """Bytes of memory for verified blocks, and for the tag indexes of deletes by tag."""


class LakeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When and how sealed segments move into Parquet files in an object store."""

    url: str = ""
    """Address of the lake: ``s3://bucket/prefix``, ``az://``, ``gs://`` or a folder; empty is the
    folder ``lake`` of the store. To move a lake, copy all its objects, then change the url."""

    hot_segments: int = 4
    """Number of sealed segments of a topic that stay on the local disk; older ones move into the
    lake. More: faster reads of old records, more disk."""

    hot_bytes: int = 0
    """The same limit in bytes of segments; 0 means no limit."""

    copy_hot: bool = False
    """Copy segments into the lake as soon as they are sealed; those within the hot limits stay on
    the local disk as well. A lost disk then costs only the records that were not sealed."""

    file_bytes: int = 256 * MIB
    """Approximate payload bytes of one Parquet file: segments that move together share one."""

    zone_rows: int = 65_536
    """Maximum rows of a zone (a row group). Fewer: less to fetch for one record, larger files."""

    zone_bytes: int = 16 * MIB
    """Maximum payload bytes of a zone."""

    cache_bytes: int = 64 * MIB
    """Bytes of memory for zones that were read."""

    read_threads: int = 2
    """Threads that fetch and decode ahead of a reader."""

    dead_share: float = 1 / 3
    """Share of deleted or trimmed rows, 0 to 1, above which a file is rewritten."""

    grace_s: float = 86_400.0
    """Seconds that a file stays in the object store after it left the manifest: the longest that a
    reader of an older manifest may take."""

    manifest_retention_s: float = 86_400.0
    """Seconds that older manifests stay readable."""

    interval_s: float = 10.0
    """Seconds between searches for segments to move."""

    objects: ObjectSettings = ObjectSettings()
    """Retries and timeouts of requests to the lake."""


class ScrubSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The scrub: a background check of all stored files."""

    bytes_per_s: int = 4 * MIB
    """Bytes to read per second; 0 is off. More: damage is found sooner, more load on the disk."""

    cycle_s: float = 604_800.0
    """Minimum seconds between the starts of two scrubs. An object store may charge for each one."""


class ReservoirSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Data files, checkpoints and cache of a reservoir."""

    file_bytes: int = 64 * MIB
    """Bytes of pages in a full data file. Larger: fewer requests, more memory for files that wait
    for their upload, and more to download for one page."""

    uploads_waiting_max: int = 4
    """Maximum number of full data files in memory; a write that needs one more waits."""

    uploads_at_once: int = 2
    """Number of concurrent uploads."""

    snapshot_interval: int = 20
    """Number of checkpoints from one that holds the whole page table to the next. More: smaller
    checkpoints, slower recovery."""

    retained_versions: int = 2
    """Number of versions before the newest that can be recovered; older ones are deleted."""

    compact_share: float = 0.33
    """Rewrite a file whose live bytes are below this share of ``file_bytes``, from 0 (never) to
    0.5. Higher: less space, more requests."""

    compression: Compression = "none"
    """``zstd`` compresses each page alone: fewer bytes stored and cached, more time per page."""

    cache_bytes: int = 10 * GIB
    """Maximum bytes of data files in the cache on the local disk."""

    cache_direct_io: bool = True
    """Bypass the page cache of the operating system for cached files: no memory is used, and each
    read waits for the disk. False: frequent reads come from the page cache while it has room."""

    downloads_at_once: int = 2
    """Number of concurrent downloads into the cache."""

    retained_stream_versions: int = -1
    """Number of older stream versions to keep beside the current one; -1 keeps all, 0 none."""

    objects: ObjectSettings = ObjectSettings()
    """Retries and timeouts of requests to the reservoir."""


class ViewSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Storage, memory and checkpoints of views."""

    url: str = ""
    """Address of the view state: ``s3://bucket/prefix``, ``az://``, ``gs://`` or a folder; empty is
    the folder ``views`` of the store. State that is missing is rebuilt from the log."""

    memory_bytes: int = 2 * GIB
    """Bytes of memory for recent records, views and caches together; each has a fixed share."""

    checkpoint_interval_s: float = 60.0
    """Maximum seconds between checkpoints of a view with new records. Longer: slower recovery."""

    checkpoint_records: int = 1_000_000
    """The same limit in records applied since the last checkpoint."""

    reservoir: ReservoirSettings = ReservoirSettings()
    """Data files, checkpoints and cache of the view state."""


class QuerySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Calendar and memory of queries."""

    timezone: str = "UTC"
    """Time zone in which days, weeks, months and years begin, as a name of the tz database."""

    week_start: str = "monday"
    """First day of a week."""

    memory_bytes: int = 1 * GIB
    """Bytes of memory that queries may compute with, in addition to the data that they read."""


class PipelineSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pipelines that run on a schedule."""

    declared: tuple[DeclaredPipeline, ...] = ()
    """The pipelines: docs/guide/pipelines.md. Each run is a process of its own."""

    scheduled: bool = True
    """Whether a server starts due pipelines. If not, they run under ``strandline pipeline
    schedule``, here or beside the server, or on request."""

    runs_at_once: int = 2
    """Number of concurrent runs, of different pipelines. More: shorter waits, more memory."""


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of requests, topics and idempotency keys."""

    record_bytes_max: int = 1 * MIB
    """Maximum bytes of ``data`` in one record."""

    batch_records_max: int = 100_000
    """Maximum records in one append."""

    batch_bytes_max: int = 64 * MIB
    """Maximum bytes in one append. A WAL file grows to hold it."""

    topics_max: int = 1_000_000
    """Maximum topics in one store: each costs 1 to 2 KiB of memory."""

    page_records_max: int = 1_000_000
    """Maximum records in one page of a read."""

    idempotency_keys_max: int = 100_000
    """Maximum idempotency keys per topic; the oldest are evicted, and a retry with an evicted key
    is appended again. More: retries stay safe for longer in topics with many keys."""

    idempotency_bytes_max: int = 32 * MIB
    """The same limit in bytes of memory: a key takes its own bytes and 400."""

    router_copies_max: int = 1_000
    """Maximum copies of one record through routers, chains included. Higher: one append may cost
    that much more disk and time."""


class SpaceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Behavior of the store when the disk runs full."""

    free_bytes_soft: int = 256 * MIB
    """Free bytes below which sealing and merging stop, and health turns yellow."""

    free_bytes_hard: int = 64 * MIB
    """Free bytes below which appends fail with ``DiskFull``; reads and deletes continue."""

    ballast_bytes: int = 4 * MIB
    """Bytes of a reserved file that is released when the disk is full, to leave recovery space."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of a store, in groups."""

    wal: WalSettings = WalSettings()
    """The write-ahead log: how recent batches become durable."""

    segment: SegmentSettings = SegmentSettings()
    """When and how records move from the log into segments."""

    lake: LakeSettings = LakeSettings()
    """When and how sealed segments move into Parquet files in an object store."""

    scrub: ScrubSettings = ScrubSettings()
    """The background check of all stored files."""

    views: ViewSettings = ViewSettings()
    """Storage, memory and checkpoints of views."""

    query: QuerySettings = QuerySettings()
    """Calendar and memory of queries."""

    pipelines: PipelineSettings = PipelineSettings()
    """Pipelines that run on a schedule."""

    limits: LimitSettings = LimitSettings()
    """Limits of requests, topics and idempotency keys."""

    space: SpaceSettings = SpaceSettings()
    """Behavior of the store when the disk runs full."""


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of one topic. Stored in the log, changed with ``alter``."""

    durability: Durability = "disk"
    """When an append is acknowledged: see docs/guide/durability.md."""

    ttl_ms: int = 0
    """Milliseconds; strictly older records expire. 0 means no limit."""

    cap_records: int = 0
    """Maximum number of live records; 0 means no limit."""

    cap_bytes: int = 0
    """Maximum live bytes (key, tag, node, meta and data); 0 means no limit."""

    discard: Discard = "old"
    """At a cap, remove the ``old`` records or reject the new append (``reject``)."""

    idempotency_window_ms: int = 120_000
    """Milliseconds for which an idempotency key is stored."""

    dedupe_node: bool = True
    """Whether a reader that names its node does not receive the records of that node."""

    priority: int | None = None
    """Priority of the topic's deliveries on a busy server, from -1000 to 1000; None lets the server
    choose."""

    auto_priority: bool = True
    """Whether a topic without a priority gets a higher one while clients read it."""

    auto_create: bool = True
    """Whether a client's append creates the topic if it does not exist, unless the request itself
    decides. Reported to clients; stored so that a re-created topic inherits it."""

    schema: dict[str, str] = {}
    """Fields of ``data``, a JSON object, by name, with their types (``schema.py``): typed columns
    in the lake. Deriving them takes time and space when records move there; appends are not
    checked. A change applies to files that are written after it."""

    schema_version: int = 0
    """Number of changes of the schema. Not an option: the store counts them."""

    views: ViewConfigs = ViewConfigs()
    """The views of the topic. While it has one, records leave it only when its views release them:
    no ttl, no caps, no deletes, and not ``ephemeral``. A queue that is the only view of its topic
    is the exception: ttl and caps bound its waiting jobs (docs/guide/queues.md)."""


def check_settings(settings: Settings) -> Settings:
    """Return the settings; raise Invalid with the name of a setting that is out of range."""
    _check_type(settings, Settings)
    for group in Settings.__struct_fields__:
        for name, value in msgspec.structs.asdict(getattr(settings, group)).items():
            if isinstance(value, (int, float)) and not 0 <= value < float("inf"):
                raise Invalid(f"bad settings: {group}.{name} is {value}, not a number from 0 up")
    return settings


def check_reservoir_settings(settings: ReservoirSettings) -> ReservoirSettings:
    """Return the settings; raise Invalid with the name of a setting that is out of range."""
    _check_type(settings, ReservoirSettings)
    bounds = {
        "file_bytes": (1, GIB),
        "uploads_waiting_max": (1, 1000),
        "uploads_at_once": (1, 1000),
        "snapshot_interval": (1, 1_000_000),
        "retained_versions": (0, 1_000_000),
        "compact_share": (0, 0.5),
        "cache_bytes": (0, OPTION_MAX),
        "downloads_at_once": (1, 1000),
        "retained_stream_versions": (-1, 1_000_000),
    }
    for name, (low, high) in bounds.items():
        if not low <= getattr(settings, name) <= high:
            raise Invalid(
                f"bad settings: {name} is {getattr(settings, name)}, not from {low} to {high}"
            )
    return settings


def _check_type(settings: object, struct: type[msgspec.Struct]) -> None:
    """Raise unless it is of this type, with values of its types: a struct does not check them."""
    if not isinstance(settings, struct):
        raise Invalid(f"settings are strandline.{struct.__name__}, not {type(settings).__name__}")
    try:
        msgspec.convert(msgspec.to_builtins(settings), struct)
    except (msgspec.ValidationError, TypeError) as error:
        raise Invalid(f"bad settings: {error}") from error


def topic_config(base: TopicConfig, options: dict[str, object]) -> TopicConfig:
    """The base with the options applied; raise Invalid with the name of a bad option."""
    known = [name for name in TopicConfig.__struct_fields__ if name != "schema_version"]
    for name in options:
        if name not in known:
            raise Invalid(f"unknown topic option {name!r}: known are {', '.join(known)}")
    merged = msgspec.structs.asdict(base) | {"views": msgspec.to_builtins(base.views)} | options
    if isinstance(merged["views"], ViewConfigs):
        merged["views"] = msgspec.to_builtins(merged["views"])
    if "schema" in options:
        fields = checked_fields(options["schema"])
        changed = fields != base.schema
        merged["schema"] = fields if changed else base.schema  # ignores the order of fields
        merged["schema_version"] = base.schema_version + changed
    try:
        config = msgspec.convert(merged, TopicConfig)
    except msgspec.ValidationError as error:
        raise Invalid(f"bad topic option: {error}") from error
    for name in ("ttl_ms", "cap_records", "cap_bytes", "idempotency_window_ms"):
        if not 0 <= getattr(config, name) <= OPTION_MAX:
            raise Invalid(f"topic option {name} is not from 0 to {OPTION_MAX}")
    if config.priority is not None and not -PRIORITY_MAX <= config.priority <= PRIORITY_MAX:
        raise Invalid(f"topic option priority is not from -{PRIORITY_MAX} to {PRIORITY_MAX}")
    check_views(config.views)
    _check_bounds(config)
    return config


def _check_bounds(config: TopicConfig) -> None:
    """Raise when the views of a topic do not allow its retention or its durability."""
    views = config.views
    if not views or views.is_queue_alone:
        return
    if config.ttl_ms or config.cap_records or config.cap_bytes:
        raise Invalid(
            "a topic with views cannot have a ttl or caps, unless a queue is its only view: set "
            "ttl_ms, cap_records and cap_bytes to 0, or give the queue a topic of its own"
        )
    if config.durability == "ephemeral" and not views.owner:
        raise Invalid(
            "a topic with views cannot be ephemeral, unless a queue is its only view: views are "
            "rebuilt from the log, so choose memory, disk or fsync"
        )
