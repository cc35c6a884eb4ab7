"""What an operator may set. Data only; the text under a field tells the price of changing it.

Parts (clock, disk) are arguments of ``strandline.open``, never settings.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from strandline.config.pipeline_config import Declared
from strandline.config.view_config import ViewConfigs, check_views
from strandline.errors import Invalid
from strandline.schema import checked_fields

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

OPTION_MAX = 2**53
"""The largest number in a topic's options: in microseconds it still fits where times are kept."""

PRIORITY_MAX = 1000
"""The highest priority of a topic; the lowest is as far below 0."""

Durability = Literal["ephemeral", "memory", "disk", "fsync"]
Discard = Literal["old", "reject"]
Compression = Literal["none", "zstd"]


class ObjectSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How patient we are with an object store."""

    attempts_max: int = 6
    """How often a request is tried before the caller is told. More hides longer outages and makes
    the caller wait for the news."""

    retry_s_max: float = 45.0
    """No further attempt begins after so long. It bounds a caller's wait while a store is gone."""

    delay_s_first: float = 0.1
    """Pause before the second attempt; each next one doubles, with up to as much again by chance,
    so that many clients do not come back at once."""

    request_s_max: float = 30.0
    """How long one request may take, its body included. Too short fails large objects."""

    connect_s_max: float = 5.0
    """How long a connection may take to be made. Too short fails a distant store."""


class WalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How recent batches are made durable."""

    shards: int = 1
    """WALs side by side. More than one helps several processes or slow syncs, not threads. May
    change between openings."""

    file_size_first: int = 1 * MIB
    """Size of the first WAL file after opening; each next one doubles. Small keeps small stores
    small."""

    file_size_max: int = 64 * MIB
    """WAL files stop doubling here. Larger: fewer rotations, more disk for a quiet store."""

    keep_bytes: int = 0
    """Keep so much of each shard's log after checkpoints no longer need it. As much as is written
    between two backups makes every moment between them restorable; it costs that much disk."""

    sync_interval_ms: int = 20
    """How long bytes of ``disk`` and ``memory`` topics may wait for their background sync, and
    ``memory`` records for their flush. Shorter loses less on power loss and costs throughput."""


class SegmentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the log is folded into segments."""

    checkpoint_bytes: int = 64 * MIB
    """Checkpoint when the WAL holds so much. Larger: fewer, longer checkpoints, slower recovery."""

    checkpoint_interval_s: float = 60.0
    """Checkpoint a WAL that has news at least this often."""

    seal_bytes: int = 64 * MIB
    """Give a topic its own sealed segment when this much of it is in shared ones."""

    seal_records: int = 1_000_000
    """The same, counted in records."""

    seal_idle_s: float = 3600.0
    """The same, when the oldest shared part is this old and worth a file (``own_bytes_min``)."""

    own_bytes_min: int = 1 * MIB
    """Never give a topic a file of its own below this: many small topics share files."""

    shared_files_max: int = 8
    """Merge shared segments when there are more. Fewer files, more rewriting."""

    block_records: int = 4096
    """Rows per block in segments. Larger compresses better and reads more for one record."""

    compression: Compression = "none"
    """``zstd`` makes JSON about seven times smaller for about 0.2 us per record at sealing."""

    cache_bytes: int = 64 * MIB
    """Verified blocks kept in memory for reading, and indexes of tags for deletes by tag."""


class LakeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How sealed history moves into Parquet files."""

    url: str = ""
    """Where the lake is: ``s3://bucket/prefix``, ``az://``, ``gs://``, a folder; empty is the
    folder ``lake`` of the store. Moving it is a copy of all its objects, then a new url."""

    hot_segments: int = 4
    """Sealed segments of a topic that stay on the local disk; older ones move into the lake.
    More: faster history, more disk."""

    hot_bytes: int = 0
    """The same in bytes of segments, 0 for no such bound."""

    copy_hot: bool = False
    """Copy segments into the lake as soon as they are sealed; those within the hot bound stay on
    the local disk as well. A lost disk then costs only what was not yet sealed."""

    file_bytes: int = 256 * MIB
    """Payload of one Parquet file, about: segments that move together share one."""

    zone_rows: int = 65_536
    """Rows of a zone (a row group) at most. Fewer: less is fetched for one record, larger files."""

    zone_bytes: int = 16 * MIB
    """Payload of a zone at most."""

    cache_bytes: int = 64 * MIB
    """Zones kept in memory for reading."""

    read_threads: int = 2
    """Threads that fetch and decode ahead of a reader."""

    dead_share: float = 1 / 3
    """Rewrite a file when more than this share of its rows is deleted or below the floor."""

    grace_s: float = 86_400.0
    """How long a file stays in the store after no manifest lists it: the longest a reader of an
    older manifest may take."""

    keep_s: float = 86_400.0
    """How long older manifests stay readable."""

    interval_s: float = 10.0
    """How often to look for segments to move."""

    objects: ObjectSettings = ObjectSettings()
    """How patient we are with an object store."""


class ScrubSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How stored files are checked in the background."""

    bytes_per_s: int = 4 * MIB
    """How fast to read; 0 is off. Faster finds damage sooner and takes more of disk and network."""

    cycle_s: float = 604_800.0
    """A round over all files begins at most so often. An object store may charge for every one."""


class ReservoirSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a reservoir packs, checkpoints and caches its pages."""

    file_bytes: int = 64 * MIB
    """A data file is full with so many bytes of pages. Larger: fewer requests, more memory for
    files that are on their way, and more to download for one page."""

    uploads_waiting_max: int = 4
    """Full files in memory at most; whoever would make one more waits for the object store."""

    uploads_at_once: int = 2
    """Files that are uploaded at the same time."""

    snapshot_interval: int = 20
    """Every so many checkpoints one holds the whole table of pages. More: smaller checkpoints, a
    longer recovery."""

    keep_versions: int = 2
    """Versions before the newest that can still be recovered. Older garbage is deleted."""

    compact_share: float = 0.33
    """A file whose live bytes are below this share of ``file_bytes`` may be rewritten; 0 rewrites
    none. Higher, up to a half: less space, more requests."""

    compression: Compression = "none"
    """``zstd`` packs each page by itself: fewer bytes stored and cached, more time for a page."""

    cache_bytes: int = 10 * GIB
    """Files kept on the local disk at most."""

    cache_direct_io: bool = True
    """Read and write cached files past the page cache: they take no memory, and each read waits for
    the disk. False: pages that are read often come from the page cache, as far as it has room."""

    downloads_at_once: int = 2
    """Files that are downloaded into the cache at the same time."""

    keep_last_versions: int = -1
    """Older stream versions that stay beside the current one; -1 keeps all, 0 none."""

    objects: ObjectSettings = ObjectSettings()
    """How patient we are with an object store."""


class ViewSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How views are kept."""

    url: str = ""
    """Where their state is saved: ``s3://bucket/prefix``, ``az://``, ``gs://``, a folder; empty is
    the folder ``views`` of the store. It is derived: without it views are folded again."""

    memory_bytes: int = 2 * GIB
    """What records in memory, views and caches may take together; each has its share."""

    checkpoint_interval_s: float = 60.0
    """Save views that have news at least this often. Rarer: a longer replay after a crash."""

    checkpoint_records: int = 1_000_000
    """The same, when so many records were folded in since."""

    reservoir: ReservoirSettings = ReservoirSettings()
    """How their pages are packed and cached."""


class QuerySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How questions are answered."""

    timezone: str = "UTC"
    """Where days, weeks, months and years begin, as a name of the tz database."""

    week_start: str = "monday"
    """The day with which a week begins."""

    memory_bytes: int = 1 * GIB
    """What questions may take of memory to calculate, besides what they read."""


class PipelineSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which pipelines run when they are due."""

    declared: tuple[Declared, ...] = ()
    """The pipelines: docs/guide/pipelines.md. Each run is a process of its own."""

    scheduled: bool = True
    """Whether a server runs them. Without, ``strandline pipeline schedule`` does, here or beside
    the server, or somebody asks for a run."""

    runs_at_once: int = 2
    """Runs of different pipelines at the same time. More: they wait less for each other, and take
    more memory and processors."""


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one request may ask for."""

    record_bytes_max: int = 1 * MIB
    """Largest ``data`` of one record."""

    batch_records_max: int = 100_000
    """Most records in one append."""

    batch_bytes_max: int = 64 * MIB
    """Most bytes in one append. A WAL file grows to hold it."""

    topics_max: int = 1_000_000
    """Most topics in one store: each costs 1 to 2 KiB of memory."""

    page_records_max: int = 1_000_000
    """Most records in one page of a read."""

    idempotency_keys_max: int = 100_000
    """Most idempotency keys that one topic remembers; the oldest are evicted, and a retry with one
    of them is appended again. More: retries are safe for longer where many keys come."""

    idempotency_bytes_max: int = 32 * MIB
    """The same in bytes of memory: a key takes its own bytes and 400."""

    router_copies_max: int = 1_000
    """Most copies that one record may become through routers, chains of them included. Higher: one
    append may cost that much more disk and time."""


class SpaceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the store behaves when the disk runs full."""

    free_soft: int = 256 * MIB
    """Below this much free space sealing and merging stop, and health turns yellow."""

    free_hard: int = 64 * MIB
    """Below this much free space appends are refused with ``DiskFull``; reads and deletes go on."""

    ballast_bytes: int = 4 * MIB
    """A file that is given up first when the disk is full, so that recovery has room."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything an operator may set, in groups."""

    wal: WalSettings = WalSettings()
    """How recent batches are made durable."""

    segment: SegmentSettings = SegmentSettings()
    """How the log is folded into segments."""

    lake: LakeSettings = LakeSettings()
    """How sealed history moves into Parquet files."""

    scrub: ScrubSettings = ScrubSettings()
    """How stored files are checked in the background."""

    views: ViewSettings = ViewSettings()
    """How views are kept."""

    query: QuerySettings = QuerySettings()
    """How questions are answered."""

    pipelines: PipelineSettings = PipelineSettings()
    """Which pipelines run when they are due."""

    limits: LimitSettings = LimitSettings()
    """What one request may ask for."""

    space: SpaceSettings = SpaceSettings()
    """What happens when the disk runs full."""


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one topic keeps its records. Stored in the log, changed with ``alter``."""

    durability: Durability = "disk"
    """When an append is acknowledged: see docs/guide/durability.md."""

    ttl_ms: int = 0
    """Records older than this are gone (strictly older); 0 keeps them."""

    cap_records: int = 0
    """Keep at most so many live records; 0 is no cap."""

    cap_bytes: int = 0
    """Keep at most so many live bytes (key, tag, node, meta and data); 0 is no cap."""

    discard: Discard = "old"
    """What gives way at a cap: the ``old`` records, or the new append (``reject``)."""

    idempotency_window_ms: int = 120_000
    """How long an idempotency key is remembered."""

    dedupe_node: bool = True
    """Whether a reader that names its node is spared that node's own records."""

    priority: int | None = None
    """How soon a server delivers the topic's records when it is busy, from -1000 to 1000; None
    leaves it to the server."""

    auto_priority: bool = True
    """Whether a topic without a priority matters more while somebody reads it."""

    auto_create: bool = True
    """Whether an append over the wire makes the topic when there is none, unless it says so
    itself. Told, and kept for whoever makes the topic again."""

    schema: dict[str, str] = {}
    """Fields of ``data``, a JSON object, by name, with their types (``schema.py``): typed columns
    in the lake. Deriving them takes time and space when records move there; appends are not
    checked. A change is for files that are written from then on."""

    schema_version: int = 0
    """How often the schema was changed. Not an option: it counts by itself."""

    views: ViewConfigs = ViewConfigs()
    """The views of the topic. While it has one, records leave it only when its views let them go:
    no ttl, no caps, no deletes, and not ``ephemeral``. A queue that is the only view of its topic
    is the exception: ttl and caps bound its waiting jobs (docs/guide/queues.md)."""


def checked(settings: Settings) -> Settings:
    """The settings themselves, or a clear error that names the bad one."""
    _check_kind(settings, Settings)
    for group in Settings.__struct_fields__:
        for name, value in msgspec.structs.asdict(getattr(settings, group)).items():
            if isinstance(value, (int, float)) and not 0 <= value < float("inf"):
                raise Invalid(f"bad settings: {group}.{name} is {value}, not a number from 0 up")
    return settings


def checked_reservoir(settings: ReservoirSettings) -> ReservoirSettings:
    """The settings themselves, or a clear error that names the bad one."""
    _check_kind(settings, ReservoirSettings)
    bounds = {
        "file_bytes": (1, GIB),
        "uploads_waiting_max": (1, 1000),
        "uploads_at_once": (1, 1000),
        "snapshot_interval": (1, 1_000_000),
        "keep_versions": (0, 1_000_000),
        "compact_share": (0, 0.5),
        "cache_bytes": (0, OPTION_MAX),
        "downloads_at_once": (1, 1000),
        "keep_last_versions": (-1, 1_000_000),
    }
    for name, (low, high) in bounds.items():
        if not low <= getattr(settings, name) <= high:
            raise Invalid(
                f"bad settings: {name} is {getattr(settings, name)}, not from {low} to {high}"
            )
    return settings


def _check_kind(settings: object, kind: type[msgspec.Struct]) -> None:
    """Raise unless it is of this kind, with values of the right kinds: a struct does not look."""
    if not isinstance(settings, kind):
        raise Invalid(f"settings are strandline.{kind.__name__}, not {type(settings).__name__}")
    try:
        msgspec.convert(msgspec.to_builtins(settings), kind)
    except (msgspec.ValidationError, TypeError) as error:
        raise Invalid(f"bad settings: {error}") from error


def topic_config(base: TopicConfig, options: dict[str, object]) -> TopicConfig:
    """The base with the options put in, or a clear error that names the bad one."""
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
        merged["schema"] = fields if changed else base.schema  # the order of fields is no change
        merged["schema_version"] = base.schema_version + changed
    try:
        config = msgspec.convert(merged, TopicConfig)
    except msgspec.ValidationError as error:
        raise Invalid(f"bad topic option: {error}") from error
    for name in ("ttl_ms", "cap_records", "cap_bytes", "idempotency_window_ms"):
        if not 0 <= getattr(config, name) <= OPTION_MAX:
            raise Invalid(f"topic option {name} is 0 to {OPTION_MAX}")
    if config.priority is not None and not -PRIORITY_MAX <= config.priority <= PRIORITY_MAX:
        raise Invalid(f"topic option priority is -{PRIORITY_MAX} to {PRIORITY_MAX}")
    check_views(config.views)
    _check_bounds(config)
    return config


def _check_bounds(config: TopicConfig) -> None:
    """Raise when the views of a topic do not allow what may leave it."""
    views = config.views
    if not views or views.is_queue_alone:
        return
    if config.ttl_ms or config.cap_records or config.cap_bytes:
        raise Invalid(
            "a topic with views has no ttl and no caps, unless a queue is its only view: set "
            "ttl_ms, cap_records and cap_bytes to 0, or give the queue a topic of its own"
        )
    if config.durability == "ephemeral" and not views.owner:
        raise Invalid(
            "a topic with views cannot be ephemeral, unless a queue is its only view: views are "
            "rebuilt from the log, so choose memory, disk or fsync"
        )
