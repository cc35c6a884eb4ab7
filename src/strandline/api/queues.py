"""Queues on the wire: puts, claims under leases, acks, dead letters.

A lease id is an integer of more than 64 bits, sent as text. Without lease ids the jobs that the
``node`` holds are used: a job that another worker holds by now is never changed, and is listed in
``skipped``.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType, field

from strandline.api.bytes_fields import Base64, Json, Text

LEASE_MS_MAX = 86_400_000


class NewJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job to put."""

    data: Json = UNSET
    data_base64: Base64 = UNSET
    key: Text = UNSET
    """Unique among the jobs that are waiting or in flight."""
    key_base64: Base64 = UNSET
    group: Text = UNSET
    """Jobs of a group are claimed one at a time."""
    group_base64: Base64 = UNSET
    priority: int | None = None
    """0 to 255, lower values first."""


class PutJobs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs to put, all or none."""

    jobs: list[NewJob]
    priority: int | None = None
    """Priority of jobs without one."""
    delay_ms: float = 0.0
    at_us: int | None = None
    """Not before this time."""
    ttl_ms: float | None = None
    """The jobs expire after this time."""
    tag: str | None = None


class PutJob(msgspec.Struct, frozen=True, kw_only=True):
    """The seq of a job."""

    seq: int
    existed: bool
    """Whether a job with the same unique key existed already."""


class PutJobsResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    jobs: list[PutJob]


class ClaimJobsRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: str
    """The worker."""
    max: int = 1
    lease_ms: int | None = None
    wait_ms: int = 0
    """How long to wait for the first job when no job is ready."""
    include_micros: bool = False


class ClaimedJob(msgspec.Struct, frozen=True, kw_only=True):
    seq: int = field(name="$seq")
    lease_id: str
    deadline: int
    """End of the lease, in ms."""
    ts: int = field(name="$ts")
    deliveries: int
    """Number of deliveries of the job, this one included."""
    key: Text = field(name="$key", default=UNSET)
    key_base64: Base64 = field(name="$key_base64", default=UNSET)
    tag: str | UnsetType = field(name="$tag", default=UNSET)
    data: Json = UNSET
    data_base64: Base64 = UNSET
    meta: Json = UNSET
    meta_base64: Base64 = UNSET
    us: int | UnsetType = field(name="$us", default=UNSET)
    deadline_us: int | UnsetType = UNSET


class ClaimJobsResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    claimed: list[ClaimedJob]
    count: int
    ready: int


class AckJobsRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request of ack."""

    node: str
    seqs: list[int]
    lease_ids: list[str] | None = None
    """One for each seq: then the job is acked only under exactly this lease."""


class NackJobsRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: str
    seqs: list[int]
    lease_ids: list[str] | None = None
    delay_ms: float = 0.0


class ExtendJobsRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: str
    seqs: list[int]
    lease_ms: int | None = None
    """Duration from now; the queue's own by default."""
    lease_ids: list[str] | None = None


class AckJobsResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    acked: int
    skipped: list[int]
    ready: int
    in_flight: int


class NackJobsResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    nacked: int
    skipped: list[int]
    ready: int
    in_flight: int


class ExtendJobsResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    extended: int
    skipped: list[int]
    deadlines: dict[str, int]
    """New deadlines in ms, by seq."""


class WorkQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: str
    max: int = 1
    """Most jobs that this connection holds at a time."""
    lease_ms: int | None = None
    include_micros: bool = False


class ReleaseJobsRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: str


class ReleaseJobsResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    released: int


class PurgeJobs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects waiting jobs: all conditions that are set must hold; without any, all of them."""

    tag: str | None = None
    """A tag; with a ``*`` at its end, a prefix of tags."""
    from_seq: int | None = None
    to_seq: int | None = None
    """The last seq, inclusive."""
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


class PeekResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    jobs: list[WaitingJob]


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a queue."""

    topic: str
    ready: int
    delayed: int
    blocked: int
    in_flight: int
    dying: int
    dead: int
    paused: bool


class PauseResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    paused: bool


class CompactQueueResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str


class DeadLettersQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: int = 0
    limit: int = 100


class DeadLetterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter."""

    seq: int = field(name="$seq")
    """The seq of the dead letter in its topic."""
    ts: int = field(name="$ts")
    """Time at which the job became a dead letter."""
    us: int = field(name="$us")
    queue: str = field(name="$dead_letter_from", default="")
    """The queue of the job."""
    src_seq: int = field(name="$dead_letter_src_seq", default=0)
    """The seq of the job; 0 for a record that was appended directly."""
    times: int = field(name="$dead_letter_deliveries", default=0)
    """Number of deliveries of the job."""
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


class DeadLettersResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    letters: list[DeadLetterInfo]
    next_after: int
    """The next ``after``; 0 when there are no more."""


class DeadLetterSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects dead letters: all conditions that are set must hold; without any, all of them."""

    seqs: list[int] | None = None
    key: Text = UNSET
    key_base64: Base64 = UNSET
    tag: str | None = None
    """A tag; with a ``*`` at its end, a prefix of tags."""
    group: Text = UNSET
    group_base64: Base64 = UNSET
    contains: Text = UNSET
    """Text in the data."""
    contains_base64: Base64 = UNSET
    reason: str | None = None
    before_us: int | None = None
    """Became a dead letter before this time."""
    after_us: int | None = None
    """Became a dead letter at or after this time."""


class RedriveRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    where: DeadLetterSelection = DeadLetterSelection()
    limit: int | None = None
    dry_run: bool = False


class RedriveResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    matched: int
    redriven: int
    kept: list[int]
    """Dead letters that stay, because another job has their unique key."""
    dry_run: bool


class PurgeDeadLettersRequest(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    where: DeadLetterSelection = DeadLetterSelection()
    dry_run: bool = False


class PurgeResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    purged: int
    dry_run: bool
