"""Topics on the wire: what is asked for, and what is answered."""

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
    """What may be said about a topic; what is not said stays as it is, or is the default."""

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
    """All that a topic is set to."""

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
    """When a topic may be made or changed."""

    given: Literal["any", "absent", "same", "present"] = "any"
    """``absent``: only make it. ``present``: only change it. ``same``: an existing one must have
    these options."""


class PutAnswer(msgspec.Struct, kw_only=True):
    """A topic was made, changed, or is as it was."""

    topic: str
    created: bool
    config: TopicSettings


class TouchQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether asking counts as reading."""

    touch: bool = False


class QueueCounts(msgspec.Struct, kw_only=True):
    """The jobs of a queue."""

    ready: int
    in_flight: int
    dead_lettered: int


class TopicState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A topic at one moment. Fields that end in ``_us`` are microseconds."""

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
    """Its id and when it was made (microseconds): names are used again, these never are."""
    settings: dict[str, Any]
    """The configuration as the store keeps it."""
    gaps: list[tuple[int, int]]
    """First and last seqs of records that were lost."""
    cold: dict[str, Any] | None = None
    """What is in the lake."""
    queue: QueueCounts | UnsetType = UNSET


class ListQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which topics to list."""

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
    """A page of topics; with ``next_cursor`` there are more."""

    topics: list[TopicLine]
    next_cursor: str | UnsetType = UNSET


class DeleteTopicQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether records keep a topic alive."""

    if_empty: bool = False


class TopicDeleted(msgspec.Struct, kw_only=True):
    """Whether there was such a topic, and which routers went with it."""

    topic: str
    deleted: bool
    routers_removed: list[str]


class NumberedBatch(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A producer's number of a batch: the topic takes each once, in rising order."""

    producer: str
    number: Seq


class Append(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Records to append, all or none."""

    records: Annotated[list[WriteRecord], Meta(min_length=1)]
    node: Node | None = None
    """Of records that name none."""
    idempotency_key: str | None = None
    """At most 256 bytes. A second append with the same key appends nothing."""
    idempotency_key_base64: str | None = None
    numbered: NumberedBatch | None = None
    expected_head_seq: Seq | None = None
    """Append only when this is the head: else 409."""
    create: bool | None = None
    """Whether to make the topic when there is none; by default as ``auto_create`` says."""
    config: TopicOptions | None = None
    """Of the topic, when this append makes it."""
    disable_backpressure: bool = False


class AppendQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What may be said about an append besides its body. All but ``return_seqs`` are for bodies
    that have no room for it: NDJSON and Arrow."""

    return_seqs: bool = False
    idempotency_key: str | None = None
    idempotency_key_base64: str | None = None
    producer: str | None = None
    number: Seq | None = None
    expected_head_seq: Seq | None = None
    create: bool | None = None
    node: Node | None = None
    disable_backpressure: bool = False


class AppendAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where records landed. ``deduped``: an earlier append with the same key did it."""

    topic: str
    first_seq: int
    last_seq: int
    seqs: list[int] | UnsetType = UNSET
    """When asked for with ``return_seqs``."""
    head_seq: int
    count: int
    created: bool
    deduped: bool


class Diff(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which records to read."""

    from_seq: Seq = 0
    """Records after this one."""
    limit: Count = 256
    """At most so many; 0 is 256, and more than the server allows is that."""
    node: Node | NodeNames | None = None
    """Spares the reader records of its own nodes."""
    include_tags: bool = False
    include_meta: bool = True
    include_data: bool = True
    include_micros: bool = False
    wait_ms: Count = 0
    """How long to wait for the next record when there is none."""
    max_batch_bytes: Count = 1 << 20
    """Of data in one answer, about; 0 is 1 MiB."""
    epoch: int | None = None
    """Which life of the topic the cursor is from: told by an earlier answer."""


class TombstoneTold(msgspec.Struct, kw_only=True):
    """Records that were lost before the first one of the answer."""

    reason: str
    gap_from: int
    gap_to: int
    missed_estimate: int
    earliest_seq: int
    head_seq: int


class DiffAnswer(msgspec.Struct, kw_only=True):
    """Records, and where to go on. ``caught_up`` is the only sign that there is no more."""

    topic: str
    records: list[ReadRecord]
    next_from_seq: int
    head_seq: int
    earliest_seq: int
    caught_up: bool
    tombstone: TombstoneTold | None
    lag: int
    epoch: int


class Deletion(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which records to delete: below a seq, by tag, or both."""

    before_seq: Annotated[int, Meta(ge=1, le=SEQ_MAX)] | None = None
    match: Match | None = None
    """A tag; or ``["tag", "Eq", TAG]``, or ``["tag", "Glob", "BEGINNING*"]``."""


class DeletionAnswer(msgspec.Struct, kw_only=True):
    """What a delete did."""

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


class SeekAnswer(msgspec.Struct, kw_only=True):
    """The cursor from which a read gives the records of a time and later."""

    topic: str
    from_seq: int
    head_seq: int
    earliest_seq: int


class Pick(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Seqs of records that are wanted."""

    seqs: Annotated[list[Seq], Meta(max_length=10_000)]
    include_tags: bool = True
    include_meta: bool = True
    include_micros: bool = False


class PickAnswer(msgspec.Struct, kw_only=True):
    """The live ones of them."""

    topic: str
    records: list[ReadRecord]
    head_seq: int
    epoch: int


class ProducersQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which producers."""

    prefix: str = ""


class Producers(msgspec.Struct, kw_only=True):
    """Names of producers who have had numbers taken, and are not forgotten."""

    topic: str
    producers: list[str]


class ProducerTaken(msgspec.Struct, kw_only=True):
    """The highest number that was taken of a producer, None when there was none."""

    topic: str
    producer: str
    number: int | None
