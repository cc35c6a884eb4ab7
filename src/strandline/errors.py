"""Every error a caller can meet.

    StrandlineError
    ├── Invalid            the request is wrong                    fix the call
    │   ├── UnknownTopic   no such topic                           create it, or check the name
    │   ├── TooLarge       a record, batch or field over a limit   split it, or raise the limit
    │   │   └── BatchTooLarge  not one record, all of them are     give fewer at once
    │   ├── PointsRefused  too old for a series, or in the future  leave them out, or drop_refused
    │   ├── NotInstalled   Java, pyspark or a part is missing      install it: the message tells how
    │   ├── NotAStore      the directory holds something else      name another directory
    │   └── UnfitStore     an object store that cannot keep order  name another object store
    ├── Forbidden          this user may not do that               ask for the right, or another key
    ├── NotFound           there is no such object                 re-read what named it
    │   └── UnknownRouter  no such router                          put it, or check the name
    ├── Conflict           someone else wrote first                re-read, then retry
    │   ├── TopicExists    it exists with another configuration    alter it instead
    │   ├── TopicFull      a cap with discard="reject" is reached  delete records or raise the cap
    │   ├── AlreadyThere   another writer's object has this name   read it, then decide
    │   ├── RouterCycle    records would go round in a circle      leave a router out
    │   └── RouterFanIn    the destination has another source      name another destination
    ├── RecordsLost        a reader crossed a tombstone            go on behind the gap
    ├── Unavailable        the disk is failing or busy             retry later
    │   ├── DiskFull       no room for another write               free space; the store goes on
    │   ├── MemoryPressure a share of the memory is full           retry later, or give it more
    │   ├── Locked         another process has the store           close it, or open read-only
    │   ├── Poisoned       a sync failed                           close and reopen the store
    │   ├── Unreachable    the object store does not answer        retry later; it may have happened
    │   ├── Denied         it refuses our credentials              set them, or their rights
    │   └── NoBucket       the bucket does not exist               make it, or check the name
    ├── Closed             this handle is finished                 open a new one
    │   └── Fenced         a newer writer took over                stop; open again to take it back
    ├── NewerFormat        written by a newer Strandline           upgrade this installation
    └── Corrupt            stored bytes are not what we wrote      run ``strandline verify``

``code`` is stable: it crosses the wire and appears in docs/guide/errors.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class StrandlineError(Exception):
    """The root of the tree: catch it to catch everything Strandline raises on purpose."""

    code = "error"
    results: tuple[Any, ...] = ()
    """Of a BATCH: the results of the commands that were done before one failed."""


class Invalid(StrandlineError):
    """The request is wrong. Fix the call; retrying it unchanged can never help."""

    code = "invalid"


class PointsRefused(Invalid):
    """Points are before the floor of a series or too far in the future. Nothing was appended.

    ``refused`` has them: place in the batch from 0, at, and ``"floor"`` or ``"future"``.
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
    """So many records, or bytes, are too many at once, though no record is. Split the batch."""

    code = "batch_too_large"


class NotInstalled(Invalid):
    """Java, pyspark or another optional part is missing or unfit. Install what the message says."""

    code = "not_installed"


class NotAStore(Invalid):
    """The directory holds something that is not a store. Nothing in it was touched."""

    code = "not_a_store"


class UnfitStore(Invalid):
    """The object store breaks a rule that safety rests on. Name another one."""

    code = "unfit_store"


class Forbidden(StrandlineError):
    """This user may not do that, or has another key. Ask an admin for the right."""

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
    """Somebody else wrote first. Read again, then decide."""

    code = "conflict"


class TopicExists(Conflict):
    """The topic exists with another configuration. Use ``alter`` to change it."""

    code = "topic_exists"


class TopicFull(Conflict):
    """A cap with ``discard="reject"`` is reached. Nothing was appended."""

    code = "topic_full"


class AlreadyThere(Conflict):
    """Another writer's object has this name. Read it, then decide."""

    code = "already_there"


class RouterCycle(Conflict):
    """Records would go round in a circle. ``cycle`` has its topics, the first one twice."""

    code = "router_cycle"

    def __init__(self, cycle: list[str]) -> None:
        super().__init__(
            f"routers would form a circle ({' > '.join(cycle)}): leave one out, or say allow_cycle"
        )
        self.cycle = cycle


class RouterFanIn(Conflict):
    """Another router feeds the destination from another source."""

    code = "router_fan_in"

    def __init__(self, dest: str, router: str, source: str) -> None:
        super().__init__(
            f"topic {dest!r} is fed from {source!r} by router {router!r}: a topic has one source"
        )


class RecordsLost(StrandlineError):
    """A reader met records that were lost against its will. Go on after ``gap_to``."""

    code = "records_lost"

    def __init__(self, topic: str, gap_from: int, gap_to: int, reason: str) -> None:
        super().__init__(
            f"records {gap_from} to {gap_to} of topic {topic!r} are gone ({reason}): "
            f"go on with after={gap_to}"
        )
        self.gap_from = gap_from
        self.gap_to = gap_to
        self.reason = reason


class Unavailable(StrandlineError):
    """The disk is failing or busy. What was acknowledged is safe; retry later."""

    code = "unavailable"


class DiskFull(Unavailable):
    """There is no room for another write. Reads and deletes go on; free space to continue."""

    code = "disk_full"


class MemoryPressure(Unavailable):
    """A share of the memory budget is full. Nothing was appended; retry later, or raise the budget
    in the settings."""

    code = "memory_pressure"


class Locked(Unavailable):
    """Another process has the store open for writing. Close it, or open with ``readonly=True``."""

    code = "locked"


class Poisoned(Unavailable):
    """A sync failed, so nobody knows what reached the disk. Close and reopen the store."""

    code = "poisoned"


class Unreachable(Unavailable):
    """The object store did not answer, also not when asked again. A write may have happened: repeat
    it with the same bytes to find out."""

    code = "unreachable"


class Denied(Unavailable):
    """The object store refuses our credentials, or there are none. Set them, or their rights."""

    code = "denied"


class NoBucket(Unavailable):
    """The bucket or container does not exist. Make it, or check its name and region."""

    code = "no_bucket"


class Closed(StrandlineError):
    """This handle is finished. Open a new one."""

    code = "closed"


class Fenced(Closed):
    """A newer writer has taken over. Stop writing; opening again would take over from it."""

    code = "fenced"


class NewerFormat(StrandlineError):
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


def of_another_store(what: str, told: bytes, own: bytes) -> str:
    """The reason of a Corrupt for a file that is whole, and was written by another store."""
    return (
        f"another store's {what} (of store {told.hex()}, and this is store {own.hex()}: put this "
        "store's own back from a backup, or let `strandline repair` go on without it)"
    )
