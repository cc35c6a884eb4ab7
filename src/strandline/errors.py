"""Every error that Strandline raises on purpose, as a tree sorted by what the caller should do.

    StrandlineError
    ├── Invalid                     the request is wrong              fix the call
    │   ├── UnknownTopic            no such topic                     create it, or check the name
    │   ├── TooLarge                a record or field over a limit    split it, or raise the limit
    │   │   └── BatchTooLarge       too many records, none too large  append fewer at once
    │   ├── PointsRefused           points too old, or in the future  leave out, or drop_refused
    │   ├── NotInstalled            Java, pyspark or a part missing   install what it names
    │   ├── NotAStore               the directory is not a store      name another directory
    │   ├── QueryError              a wrong command (query/)          fix its text at the place
    │   └── UnsupportedObjectStore  it breaks a rule safety rests on  name another object store
    ├── Forbidden                   this user may not do that         request the right, or a key
    ├── NotFound                    there is no such object           read again what named it
    │   └── UnknownRouter           no such router                    put it, or check the name
    ├── Conflict                    another writer wrote first        read again, then retry
    │   ├── TopicExists             exists, configured otherwise      alter it instead
    │   ├── TopicFull               a cap that rejects is reached     delete records, raise the cap
    │   ├── ObjectExists            another writer's object           read it, then decide
    │   ├── RouterCycle             routers would form a cycle        leave a router out
    │   └── RouterFanIn             the destination has a source      name another destination
    ├── RecordsLost                 a reader crossed a tombstone      resume after the gap
    ├── Unavailable                 the disk is failing or busy       retry later
    │   ├── DiskFull                no space for another write        free space; appends resume
    │   ├── MemoryPressure          a share of the memory is full     retry later, or enlarge it
    │   ├── Locked                  another process has the store     close it, or open read-only
    │   ├── StoreFailed             a sync failed                     close and reopen the store
    │   ├── ObjectStoreUnreachable  no response after retries         retry: it may have happened
    │   ├── ObjectStoreDenied       it rejects our credentials        set them, or their rights
    │   └── BucketNotFound          the bucket does not exist         create it, or check its name
    ├── Closed                      this handle is finished           open a new one
    │   └── Fenced                  a newer writer took over          stop; reopen to take it back
    ├── UnsupportedFormat           written by a newer Strandline     upgrade this installation
    └── Corrupt                     stored bytes are not ours         run ``strandline verify``

``code`` is stable: it crosses the wire and appears in docs/guide/errors.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class StrandlineError(Exception):
    """The base of the tree: catch it to catch everything Strandline raises on purpose."""

    code = "error"
    results: tuple[Any, ...] = ()
    """Of a BATCH: the results of the commands that were completed before one failed."""


class Invalid(StrandlineError):
    """The request is wrong. Fix the call; retrying it unchanged can never help."""

    code = "invalid"


class PointsRefused(Invalid):
    """Points are before the floor of a series or too far in the future. Nothing was appended.

    ``refused`` lists them: position in the batch from 0, at, and ``"floor"`` or ``"future"``.
    """

    code = "points_refused"
    refused: tuple[tuple[int, int, str], ...] = ()

    def __init__(self, message: str, refused: Iterable[tuple[int, int, str]]) -> None:
        super().__init__(message)
        self.refused = tuple(refused)


class UnknownTopic(Invalid):
    """There is no topic of this name. Create it, or check the spelling."""

    code = "unknown_topic"


class TooLarge(Invalid):
    """A record, batch or field is over its limit. Split it, or raise the limit in the settings."""

    code = "too_large"


class BatchTooLarge(TooLarge):
    """The batch exceeds a limit although each record is within it. Split the batch."""

    code = "batch_too_large"


class NotInstalled(Invalid):
    """Java, pyspark or another optional part is missing or unsuitable. Install what is named."""

    code = "not_installed"


class NotAStore(Invalid):
    """The directory contains something that is not a store. Nothing in it was changed."""

    code = "not_a_store"


class UnsupportedObjectStore(Invalid):
    """The object store breaks a rule that safety rests on. Name another object store."""

    code = "unfit_store"


class Forbidden(StrandlineError):
    """This user may not do that, or has another key. Request the right from an admin."""

    code = "forbidden"


class NotFound(StrandlineError):
    """There is no such object. Read again what named it: it may have been replaced."""

    code = "not_found"


class UnknownRouter(NotFound):
    """There is no router of this name."""

    code = "unknown_router"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no router {name!r}: put one, or check the name")


class Conflict(StrandlineError):
    """Another writer wrote first. Read again, then decide."""

    code = "conflict"


class TopicExists(Conflict):
    """The topic exists with another configuration. Use ``alter`` to change it."""

    code = "topic_exists"


class TopicFull(Conflict):
    """A cap with ``discard="reject"`` is reached. Nothing was appended."""

    code = "topic_full"


class ObjectExists(Conflict):
    """Another writer's object has this name. Read it, then decide."""

    code = "already_there"


class RouterCycle(Conflict):
    """Routers would form a cycle. ``cycle`` has its topics, the first one twice."""

    code = "router_cycle"

    def __init__(self, cycle: list[str]) -> None:
        super().__init__(
            f"routers would form a cycle ({' > '.join(cycle)}): leave one out, or set allow_cycle"
        )
        self.cycle = cycle


class RouterFanIn(Conflict):
    """Another router already forwards into the destination from another source."""

    code = "router_fan_in"

    def __init__(self, dest: str, router: str, source: str) -> None:
        super().__init__(
            f"router {router!r} already feeds topic {dest!r} from {source!r}: "
            "name another destination"
        )


class RecordsLost(StrandlineError):
    """A reader crossed records that were lost. Resume after ``gap_to``."""

    code = "records_lost"

    def __init__(self, topic: str, gap_from: int, gap_to: int, reason: str) -> None:
        super().__init__(
            f"records {gap_from} to {gap_to} of topic {topic!r} are gone ({reason}): "
            f"resume with after={gap_to}"
        )
        self.gap_from = gap_from
        self.gap_to = gap_to
        self.reason = reason


class Unavailable(StrandlineError):
    """The disk is failing or busy. What was acknowledged is safe; retry later."""

    code = "unavailable"


class DiskFull(Unavailable):
    """There is no space for another write. Reads and deletes still work; free space to resume."""

    code = "disk_full"


class MemoryPressure(Unavailable):
    """A share of the memory budget is full. Nothing was appended; retry later, or raise the budget
    in the settings."""

    code = "memory_pressure"


class Locked(Unavailable):
    """Another process has the store open for writing. Close it, or open with ``readonly=True``."""

    code = "locked"


class StoreFailed(Unavailable):
    """A sync failed, so what reached the disk is unknown. Close and reopen the store."""

    code = "poisoned"


class ObjectStoreUnreachable(Unavailable):
    """The object store did not respond after retries. A write may have happened: repeat it with the
    same bytes to find out."""

    code = "unreachable"


class ObjectStoreDenied(Unavailable):
    """The object store rejects our credentials, or there are none. Set them, or their rights."""

    code = "denied"


class BucketNotFound(Unavailable):
    """The bucket or container does not exist. Create it, or check its name and region."""

    code = "no_bucket"


class Closed(StrandlineError):
    """This handle is finished. Open a new one."""

    code = "closed"


class Fenced(Closed):
    """A newer writer has taken over. Stop writing; opening again takes over from it."""

    code = "fenced"


class UnsupportedFormat(StrandlineError):
    """The store was written by a newer Strandline. Upgrade this installation to open it."""

    code = "newer_format"


class Corrupt(StrandlineError):
    """Stored bytes are not what was written. Run ``strandline verify``, then decide on a repair."""

    code = "corrupt"

    def __init__(
        self,
        reason: str,
        *,
        path: str,
        offset: int = 0,
        topic_id: int | None = None,
        first_seq: int | None = None,
        last_seq: int | None = None,
    ) -> None:
        where = f"{reason} in {path} at byte {offset}"
        if first_seq is not None:
            where += f" (records {first_seq} to {last_seq} of topic {topic_id})"
        super().__init__(where)
        self.reason = reason
        self.path = path
        self.offset = offset
        self.topic_id = topic_id
        self.first_seq = first_seq
        self.last_seq = last_seq


def of_another_store(what: str, file_id: bytes, store_id: bytes) -> str:
    """Format the reason of a Corrupt for an intact file that another store has written."""
    return (
        f"another store's {what} (of store {file_id.hex()}, and this is store {store_id.hex()}: "
        "restore this store's own from a backup, or let `strandline repair` continue without it)"
    )
