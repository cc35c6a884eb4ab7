"""Which moment to restore, and which backups have it. Pure.

    2026-03-28T14:05:00Z    a time: what was committed up to then. UTC unless it says otherwise
    1774706700000000        the same in microseconds since 1970
    0:81920,1:40960         an lsn by shard: what was committed below it
    orders=1200             a seq of a topic: up to and with its commit

A chain of backups (``catalog.py``) has every moment from the exact moment of its first root to the
end of its last backup. The first backup that reaches a moment is the one that is asked: a store
that was restored and went on has lived through some hours twice, and the older life comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from strandline.backup.catalog import Shelf
from strandline.backup.descriptor import Descriptor
from strandline.errors import Invalid

_LSNS = re.compile(r"\d+:\d+(?:,\d+:\d+)*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

At = str | int | datetime


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """A place in the history of a store; one of the three is told."""

    at_us: int | None = None
    lsns: dict[int, int] = {}
    topic: str = ""
    seq: int = 0

    def __str__(self) -> str:
        if self.at_us is not None:
            return shown(self.at_us)
        if self.topic:
            return f"{self.topic}={self.seq}"
        return ",".join(f"{shard}:{lsn}" for shard, lsn in self.lsns.items())

    def is_reached_by(self, backup: Descriptor) -> bool:
        """Whether the log of a backup goes so far."""
        if self.at_us is not None:
            return backup.until_us >= self.at_us
        if self.topic:
            return bool(backup.topics_with(self.topic, self.seq))
        return all(backup.reach(shard).end_lsn >= lsn for shard, lsn in self.lsns.items())

    def is_behind(self, root: Descriptor) -> bool:
        """Whether the root of a backup may lie before it, as far as its descriptor tells."""
        if self.at_us is not None:
            return root.exact_us <= self.at_us
        return all(root.reach(shard).exact_lsn <= lsn for shard, lsn in self.lsns.items())


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Moments that can be restored, all of them."""

    first_backup: int
    last_backup: int
    from_us: int
    until_us: int


def parse(text: At) -> Moment:
    """A moment as people write it."""
    if isinstance(text, int):
        return Moment(at_us=text)
    if isinstance(text, datetime):
        return Moment(at_us=_microseconds(text))
    if text.isdecimal():
        return Moment(at_us=int(text))
    if _LSNS.fullmatch(text):
        pairs = (pair.split(":") for pair in text.split(","))
        return Moment(lsns={int(shard): int(lsn) for shard, lsn in pairs})
    topic, separator, seq = text.rpartition("=")
    if separator and topic and seq.isdecimal() and int(seq) > 0:
        return Moment(topic=topic, seq=int(seq))
    try:
        return Moment(at_us=_microseconds(datetime.fromisoformat(text)))
    except ValueError as error:
        raise Invalid(
            f"{text!r} is no moment: write 2026-03-28T14:05:00Z, microseconds, an lsn as 0:81920, "
            "or a record as orders=1200"
        ) from error


def windows(shelf: Shelf) -> list[Window]:
    """What can be restored, oldest first."""
    found: list[Window] = []
    for backup in shelf.backups:
        chain = shelf.chain(backup.number)
        if len(chain) > 1:
            found.pop()
        found.append(
            Window(
                first_backup=chain[0].number,
                last_backup=backup.number,
                from_us=chain[0].exact_us,
                until_us=backup.until_us,
            )
        )
    return found


def chains(shelf: Shelf, moment: Moment, number: int | None) -> Iterator[list[Descriptor]]:
    """Chains to restore from: the one that ends with the first backup that reaches the moment.

    A name may have had several topics, so for a record there may be more.
    """
    for backup in shelf.backups:
        if number in (None, backup.number) and moment.is_reached_by(backup):
            chain = shelf.chain(backup.number)
            if moment.is_behind(chain[0]):
                yield chain
            if not moment.topic:
                return


def named(shelf: Shelf, number: int | None, place: str) -> Descriptor:
    """The backup of a number, or the newest."""
    wanted = shelf.newest if number is None else number
    found = shelf.get(wanted)
    if found is None:
        known = ", ".join(str(each.number) for each in shelf.backups)
        raise Invalid(f"there is no backup {wanted or ''} in {place}: it has {known or 'none'}")
    return found


def refusal(shelf: Shelf, moment: Moment) -> Invalid:
    """Why a moment cannot be had, and what can instead."""
    wanted = moment.at_us
    known = windows(shelf)
    if wanted is None:
        near = [f"{shown(each.from_us)} to {shown(each.until_us)}" for each in known]
        return Invalid(f"no backup has the moment {moment}: there is {'; '.join(near)}")
    before = max((each.until_us for each in known if each.until_us < wanted), default=None)
    after = min((each.from_us for each in known if each.from_us > wanted), default=None)
    near = [shown(each) for each in (before, after) if each is not None]
    return Invalid(f"no backup has the moment {moment}: the nearest are {' and '.join(near)}")


def shown(at_us: int) -> str:
    """Microseconds as ISO 8601 in UTC."""
    try:
        moment = _EPOCH + timedelta(microseconds=at_us)
    except OverflowError:
        return str(at_us)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _microseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)
