"""Restore points: the time or position to restore, and the backups that cover it. Pure.

    2026-03-28T14:05:00Z    a time: what was committed up to then. UTC unless it has an offset
    1774706700000000        the same in microseconds since 1970
    0:81920,1:40960         an lsn by shard: what was committed below it
    orders=1200             a seq of a topic: up to and with its commit

A chain of backups (``catalog.py``) covers every time from ``exact_us`` of its first root to the end
of its last backup. The first backup that reaches a point is used: a store that was restored and
continued has two histories of some hours, and the older one comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from strandline.backup.catalog import BackupCatalog
from strandline.backup.descriptor import BackupDescriptor
from strandline.errors import Invalid

_LSNS = re.compile(r"\d+:\d+(?:,\d+:\d+)*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

RestoreTarget = str | int | datetime


class RestorePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A point in the history of a store: a time, lsns or a record."""

    at_us: int | None = None
    lsns: dict[int, int] = {}
    topic: str = ""
    seq: int = 0

    def __str__(self) -> str:
        if self.at_us is not None:
            return format_time(self.at_us)
        if self.topic:
            return f"{self.topic}={self.seq}"
        return ",".join(f"{shard}:{lsn}" for shard, lsn in self.lsns.items())

    def is_reached_by(self, backup: BackupDescriptor) -> bool:
        """Whether the log of a backup contains this point."""
        if self.at_us is not None:
            return backup.until_us >= self.at_us
        if self.topic:
            return bool(backup.topics_with(self.topic, self.seq))
        return all(backup.reach(shard).end_lsn >= lsn for shard, lsn in self.lsns.items())

    def is_after(self, root: BackupDescriptor) -> bool:
        """Whether this point is after the root of a backup, as far as its descriptor shows."""
        if self.at_us is not None:
            return root.exact_us <= self.at_us
        return all(root.reach(shard).exact_lsn <= lsn for shard, lsn in self.lsns.items())


class RestoreWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A range of times that can all be restored."""

    first_backup: int
    last_backup: int
    from_us: int
    until_us: int


def parse(text: RestoreTarget) -> RestorePoint:
    """Parse a restore point in one of the forms above."""
    if isinstance(text, int):
        return RestorePoint(at_us=text)
    if isinstance(text, datetime):
        return RestorePoint(at_us=_microseconds(text))
    if text.isdecimal():
        return RestorePoint(at_us=int(text))
    if _LSNS.fullmatch(text):
        pairs = (pair.split(":") for pair in text.split(","))
        return RestorePoint(lsns={int(shard): int(lsn) for shard, lsn in pairs})
    topic, separator, seq = text.rpartition("=")
    if separator and topic and seq.isdecimal() and int(seq) > 0:
        return RestorePoint(topic=topic, seq=int(seq))
    try:
        return RestorePoint(at_us=_microseconds(datetime.fromisoformat(text)))
    except ValueError as error:
        raise Invalid(
            f"{text!r} is not a restore point: write 2026-03-28T14:05:00Z, microseconds, an lsn "
            "as 0:81920, or a record as orders=1200"
        ) from error


def windows(catalog: BackupCatalog) -> list[RestoreWindow]:
    """The ranges that can be restored, oldest first."""
    ranges: list[RestoreWindow] = []
    for backup in catalog.backups:
        chain = catalog.chain(backup.number)
        if len(chain) > 1:
            ranges.pop()
        ranges.append(
            RestoreWindow(
                first_backup=chain[0].number,
                last_backup=backup.number,
                from_us=chain[0].exact_us,
                until_us=backup.until_us,
            )
        )
    return ranges


def chains(
    catalog: BackupCatalog, point: RestorePoint, number: int | None
) -> Iterator[list[BackupDescriptor]]:
    """Chains to restore from: the one that ends with the first backup that reaches the point.

    A name may have had several topics, so for a record there may be more.
    """
    for backup in catalog.backups:
        if number in (None, backup.number) and point.is_reached_by(backup):
            chain = catalog.chain(backup.number)
            if point.is_after(chain[0]):
                yield chain
            if not point.topic:
                return


def find_backup(catalog: BackupCatalog, number: int | None, place: str) -> BackupDescriptor:
    """The backup with a number, or the newest."""
    number = catalog.newest if number is None else number
    backup = catalog.get(number)
    if backup is None:
        known = ", ".join(str(each.number) for each in catalog.backups)
        raise Invalid(f"there is no backup {number or ''} in {place}: it has {known or 'none'}")
    return backup


def uncovered_error(catalog: BackupCatalog, point: RestorePoint) -> Invalid:
    """The error for a point that no backup covers; it names the nearest ones."""
    at_us = point.at_us
    known = windows(catalog)
    if at_us is None:
        near = [f"{format_time(each.from_us)} to {format_time(each.until_us)}" for each in known]
        return Invalid(f"no backup covers {point}: there is {'; '.join(near)}")
    before = max((each.until_us for each in known if each.until_us < at_us), default=None)
    after = min((each.from_us for each in known if each.from_us > at_us), default=None)
    near = [format_time(each) for each in (before, after) if each is not None]
    return Invalid(f"no backup covers {point}: the nearest times are {' and '.join(near)}")


def format_time(at_us: int) -> str:
    """Microseconds as ISO 8601 in UTC."""
    try:
        time = _EPOCH + timedelta(microseconds=at_us)
    except OverflowError:
        return str(at_us)
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _microseconds(time: datetime) -> int:
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(microseconds=1)
