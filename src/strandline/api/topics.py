"""Topics and their records on the wire: requests and responses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from strandline.api.records import Node, ReadRecord, WriteRecord
from strandline.config.settings import Discard, Durability
from strandline.config.view_config import ViewConfigs

SEQ_MAX = 2**63 - 1
IDEMPOTENCY_KEY_SIZE_MAX = 256

Seq = Annotated[int, Meta(ge=0, le=SEQ_MAX)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
TopicType = Literal["log", "queue"]
NodeNames = Annotated[list[Node], Meta(max_length=256)]
Match = str | Annotated[list[str], Meta(min_length=3, max_length=3)]


class TopicOptions(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Options of a topic; an absent one keeps its value, or is the default of a new topic."""

    type: TopicType | UnsetType = UNSET
    ttl_ms: Count | UnsetType = UNSET
    cap_records: Count | UnsetType = UNSET
    cap_bytes: Count | UnsetType = UNSET
    discard: Discard | UnsetType = UNSET
    durable: bool | UnsetType = UNSET
    durability: Durability | UnsetType = UNSET
    priority: int | UnsetType | None = UNSET
    auto_priority: bool | UnsetType = UNSET
    auto_create: bool | UnsetType = UNSET
    idempotency_window_ms: Count | UnsetType = UNSET
    dedupe_node: bool | UnsetType = UNSET
    schema: dict[str, str] | UnsetType = UNSET
    views: ViewConfigs | UnsetType = UNSET
    lease_ms: Count | UnsetType = UNSET
    claim_jitter_ms: Count | UnsetType = UNSET
    max_deliveries: Count | UnsetType = UNSET
    dead_letter: str | UnsetType | None = UNSET
    leases_durable: bool | UnsetType = UNSET


class TopicSettings(msgspec.Struct, kw_only=True):
    """All options of a topic."""

    type: TopicType
    ttl_ms: int
    cap_records: int
    cap_bytes: int
    discard: Discard
    durable: bool
    """Whether durability is ``fsync``."""
    durability: Durability
    priority: int | None
    auto_priority: bool
    auto_create: bool
    idempotency_window_ms: int
    dedupe_node: bool
    lease_ms: int
    claim_jitter_ms: int
    max_deliveries: int
    dead_letter: str | None
    leases_durable: bool
    schema: dict[str, str]
    views: ViewConfigs


class PutQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename={"given": "if"}):
    """The condition for creating or changing a topic."""

    given: Literal["any", "absent", "same", "present"] = "any"
    """``absent``: only create. ``present``: only change. ``same``: an existing topic must have
    these options."""


class PutTopicResponse(msgspec.Struct, kw_only=True):
    """A topic that was created, changed or left unchanged."""

    topic: str
    created: bool
    config: TopicSettings


class TouchQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether the request counts as a read of the topic."""

    touch: bool = False


class QueueCounts(msgspec.Struct, kw_only=True):
    """The jobs of a queue."""

    ready: int
    in_flight: int
    dead_lettered: int


class TopicInfo(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The state of a topic. Fields that end in ``_us`` are microseconds."""

    topic: str
    type: TopicType
    head_seq: int
    earliest_seq: int
    next_seq: int
    count: int
    bytes: int
    config: TopicSettings
    effective_priority: int
    last_write_ts: int | None
    last_read_ts: int | None
    epoch: int
    evict_floor: int
    last_ts_us: int
    identity: tuple[int, int]
    """Its id and time of creation (microseconds): names are reused, identities are not."""
    settings: dict[str, Any]
    """The configuration as stored."""
    gaps: list[tuple[int, int]]
    """First and last seqs of records that were lost."""
    cold: dict[str, Any] | None = None
    """The part of the topic that is in the lake."""
    queue: QueueCounts | UnsetType = UNSET


class ListQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Selects the topics to list."""

    prefix: str = ""
    page_size: Annotated[int, Meta(ge=1)] = 100
    cursor: str = ""
    touch: bool = False


class TopicLine(msgspec.Struct, kw_only=True):
    """A topic in a list."""

    topic: str
    head_seq: int
    earliest_seq: int
    count: int
    bytes: int
    durable: bool
    effective_priority: int


class TopicList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of topics; ``next_cursor`` is set when there are more."""

    topics: list[TopicLine]
    next_cursor: str | UnsetType = UNSET


class DeleteTopicQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The condition for deleting a topic."""

    if_empty: bool = False


class DeleteTopicResponse(msgspec.Struct, kw_only=True):
    """Whether the topic existed, and which routers were deleted with it."""

    topic: str
    deleted: bool
    routers_removed: list[str]


class NumberedBatch(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A producer's number of a batch: the topic accepts each number once, in rising order."""

    producer: str
    number: Seq


class AppendBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Records to append, all or none."""

    records: Annotated[list[WriteRecord], Meta(min_length=1)]
    node: Node | None = None
    """Node of records without one."""
    idempotency_key: str | None = None
    """At most 256 bytes. A second append with the same key appends nothing."""
    idempotency_key_base64: str | None = None
    numbered: NumberedBatch | None = None
    expected_head_seq: Seq | None = None
    """Append only when this is the head, else 409."""
    create: bool | None = None
    """Whether to create a missing topic; the default is ``auto_create``."""
    config: TopicOptions | None = None
    """Options of the topic when this append creates it."""
    disable_backpressure: bool = False


class AppendQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Options of an append outside its body. All but ``return_seqs`` are for bodies that cannot
    contain them: NDJSON and Arrow."""

    return_seqs: bool = False
    idempotency_key: str | None = None
    idempotency_key_base64: str | None = None
    producer: str | None = None
    number: Seq | None = None
    expected_head_seq: Seq | None = None
    create: bool | None = None
    node: Node | None = None
    disable_backpressure: bool = False


class AppendResponse(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The seqs of the appended records. ``deduped``: an earlier append with the same key wrote
    them."""

    topic: str
    first_seq: int
    last_seq: int
    seqs: list[int] | UnsetType = UNSET
    """Only with ``return_seqs``."""
    head_seq: int
    count: int
    created: bool
    deduped: bool


class DiffRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Selects the records to read."""

    from_seq: Seq = 0
    """The cursor: read records after this seq."""
    limit: Count = 256
    """Most records; 0 is 256. A value above the server's limit is reduced to it."""
    node: Node | NodeNames | None = None
    """The reader's own nodes: their records are omitted."""
    include_tags: bool = False
    include_meta: bool = True
    include_data: bool = True
    include_micros: bool = False
    wait_ms: Count = 0
    """How long to wait for a record when there is none."""
    max_batch_bytes: Count = 1 << 20
    """Approximate bytes of data in one response; 0 is 1 MiB."""
    epoch: int | None = None
    """The epoch of the cursor, as returned with it."""


class TombstoneResponse(msgspec.Struct, kw_only=True):
    """Records that were lost before the first one of the response."""

    reason: str
    gap_from: int
    gap_to: int
    missed_estimate: int
    earliest_seq: int
    head_seq: int


class DiffResponse(msgspec.Struct, kw_only=True):
    """Records and the next cursor. Only ``caught_up`` indicates that there are no more."""

    topic: str
    records: list[ReadRecord]
    next_from_seq: int
    head_seq: int
    earliest_seq: int
    caught_up: bool
    tombstone: TombstoneResponse | None
    lag: int
    epoch: int


class DeleteRecordsRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Selects the records to delete: below a seq, by tag, or both."""

    before_seq: Annotated[int, Meta(ge=1, le=SEQ_MAX)] | None = None
    match: Match | None = None
    """A tag; or ``["tag", "Eq", TAG]``, or ``["tag", "Glob", "PREFIX*"]``."""


class DeleteRecordsResponse(msgspec.Struct, kw_only=True):
    """Result of a delete."""

    topic: str
    deleted: int
    earliest_seq: int
    head_seq: int
    count: int
    bytes: int


class SeekQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A time, in milliseconds or microseconds."""

    ts: int | None = None
    ts_us: int | None = None


class SeekResponse(msgspec.Struct, kw_only=True):
    """The cursor from which a read returns the records of a time and later."""

    topic: str
    from_seq: int
    head_seq: int
    earliest_seq: int


class PickRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Selects records by seq."""

    seqs: Annotated[list[Seq], Meta(max_length=10_000)]
    include_tags: bool = True
    include_meta: bool = True
    include_micros: bool = False


class PickResponse(msgspec.Struct, kw_only=True):
    """The requested records that are live."""

    topic: str
    records: list[ReadRecord]
    head_seq: int
    epoch: int


class ProducersQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Selects the producers to list."""

    prefix: str = ""


class ProducersResponse(msgspec.Struct, kw_only=True):
    """Names of producers with accepted numbers that the topic still stores."""

    topic: str
    producers: list[str]


class ProducerResponse(msgspec.Struct, kw_only=True):
    """The highest accepted number of a producer, null when there is none."""

    topic: str
    producer: str
    number: int | None
