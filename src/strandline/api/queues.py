"""Queues on the wire: jobs in, jobs out under leases, dead letters.

A lease id is a whole number of more than 64 bits, told as text. Who names none is asked for by his
``node``: a job that another has by now is never touched, and is told in ``skipped``.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType, field

from strandline.api.bytes_fields import Base64, Json, Text

LEASE_MS_MAX = 86_400_000


class NewJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job to be put."""

    data: Json = UNSET
    data_base64: Base64 = UNSET
    key: Text = UNSET
    """Unique among the jobs that wait or are in flight."""
    key_base64: Base64 = UNSET
    group: Text = UNSET
    """Jobs of a group go out one after the other."""
    group_base64: Base64 = UNSET
    priority: int | None = None
    """0 to 255, lower first."""


class PutJobs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs to be put, all or none."""

    jobs: list[NewJob]
    priority: int | None = None
    """Of those that say none."""
    delay_ms: float = 0.0
    at_us: int | None = None
    """Not before this time."""
    ttl_ms: float | None = None
    """They are over after this."""
    tag: str | None = None


class PutJob(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job is."""

    seq: int
    existed: bool
    """Whether another with the same unique key was there already."""


class PutJobsDone(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    jobs: list[PutJob]


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: str
    """The worker."""
    max: int = 1
    lease_ms: int | None = None
    wait_ms: int = 0
    """How long to wait for the first job when there is none."""
    include_micros: bool = False


class ClaimedJob(msgspec.Struct, frozen=True, kw_only=True):
    seq: int = field(name="$seq")
    lease_id: str
    deadline: int
    """When the lease runs out, in ms."""
    ts: int = field(name="$ts")
    deliveries: int
    """How often it was given out, this time included."""
    key: Text = field(name="$key", default=UNSET)
    key_base64: Base64 = field(name="$key_base64", default=UNSET)
    tag: str | UnsetType = field(name="$tag", default=UNSET)
    data: Json = UNSET
    data_base64: Base64 = UNSET
    meta: Json = UNSET
    meta_base64: Base64 = UNSET
    us: int | UnsetType = field(name="$us", default=UNSET)
    deadline_us: int | UnsetType = UNSET


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    claimed: list[ClaimedJob]
    count: int
    ready: int


class Settle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """ack"""

    node: str
    seqs: list[int]
    lease_ids: list[str] | None = None
    """One for each seq: then only under exactly this lease."""


class Nack(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: str
    seqs: list[int]
    lease_ids: list[str] | None = None
    delay_ms: float = 0.0


class Extend(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: str
    seqs: list[int]
    lease_ms: int | None = None
    """From now on; without it the queue's own."""
    lease_ids: list[str] | None = None


class Acked(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    acked: int
    skipped: list[int]
    ready: int
    in_flight: int


class Nacked(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    nacked: int
    skipped: list[int]
    ready: int
    in_flight: int


class Extended(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    extended: int
    skipped: list[int]
    deadlines: dict[str, int]
    """New deadlines in ms, by seq."""


class WorkQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: str
    max: int = 1
    """Most jobs that are in this connection's hands at a time."""
    lease_ms: int | None = None
    include_micros: bool = False


class Release(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: str


class Released(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    released: int


class PurgeJobs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Waiting jobs that fit all of this; without any, all that wait."""

    tag: str | None = None
    """With a ``*`` at its end every tag that begins so."""
    from_seq: int | None = None
    to_seq: int | None = None
    """The last seq, included."""
    dry_run: bool = False


class PeekQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max: int = 1
    include_micros: bool = False


class WaitingJob(msgspec.Struct, frozen=True, kw_only=True):
    seq: int = field(name="$seq")
    ts: int = field(name="$ts")
    priority: int
    deliveries: int
    key: Text = field(name="$key", default=UNSET)
    key_base64: Base64 = field(name="$key_base64", default=UNSET)
    tag: str | UnsetType = field(name="$tag", default=UNSET)
    data: Json = UNSET
    data_base64: Base64 = UNSET
    us: int | UnsetType = field(name="$us", default=UNSET)


class Peeked(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    jobs: list[WaitingJob]


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in numbers."""

    topic: str
    ready: int
    delayed: int
    blocked: int
    in_flight: int
    dying: int
    dead: int
    paused: bool


class Paused(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    paused: bool


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    topic: str


class LettersQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: int = 0
    limit: int = 100


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter."""

    seq: int = field(name="$seq")
    """Its place among the dead letters."""
    ts: int = field(name="$ts")
    """When it was given up."""
    us: int = field(name="$us")
    queue: str = field(name="$dead_letter_from", default="")
    """The queue that gave it up."""
    src_seq: int = field(name="$dead_letter_src_seq", default=0)
    """The seq that it had as a job; 0 when it was appended by hand."""
    times: int = field(name="$dead_letter_deliveries", default=0)
    """How often it was given out."""
    reason: str
    job_seq: int
    """The same as ``$dead_letter_src_seq``."""
    put_us: int
    deliveries: int
    """The same as ``$dead_letter_deliveries``."""
    priority: int
    unique: bool = False
    """Whether its key was unique."""
    key: Text = field(name="$key", default=UNSET)
    key_base64: Base64 = field(name="$key_base64", default=UNSET)
    tag: str | UnsetType = field(name="$tag", default=UNSET)
    group: Text = UNSET
    group_base64: Base64 = UNSET
    data: Json = UNSET
    data_base64: Base64 = UNSET
    meta: Json = UNSET
    """The meta that was appended with the job as a plain record."""
    meta_base64: Base64 = UNSET


class Letters(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    letters: list[Letter]
    next_after: int
    """Where to go on; 0 when there is no more."""


class Meant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters: those that are all of this; without any, all."""

    seqs: list[int] | None = None
    key: Text = UNSET
    key_base64: Base64 = UNSET
    tag: str | None = None
    """With a ``*`` behind it every tag that begins so."""
    group: Text = UNSET
    group_base64: Base64 = UNSET
    contains: Text = UNSET
    """Text in the data."""
    contains_base64: Base64 = UNSET
    reason: str | None = None
    before_us: int | None = None
    """Given up before this time."""
    after_us: int | None = None
    """Given up at or after this time."""


class Redrive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    where: Meant = Meant()
    limit: int | None = None
    dry_run: bool = False


class Redriven(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    matched: int
    redriven: int
    kept: list[int]
    """Those that stay, because another job has their unique key."""
    dry_run: bool


class Purge(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    where: Meant = Meant()
    dry_run: bool = False


class Purged(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    purged: int
    dry_run: bool
