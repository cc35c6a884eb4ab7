"""Finds where to cut the log of each shard, so that the store is as of a moment.

The logs of a chain of backups are one log per shard. A cut keeps whole frames from its beginning:
those stamped up to a time, or those below an lsn. Stamps never go back within a shard, so a time is
one place in it. A record is a place in one shard; the others are cut by the time of its commit.

A root knows a little of what came after the lsn from which it is replayed: floors, deletes and
options as of the moment when it was written. So it serves only for cuts at or behind that moment
(``exact_lsn``), and the newest root that does is chosen: it leaves the least to replay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from strandline.backup import log_frames
from strandline.backup.descriptor import Descriptor, Piece
from strandline.backup.log_frames import Mark
from strandline.backup.restore_point import Moment
from strandline.backup.store_reader import told_by
from strandline.errors import Corrupt

Fetch = Callable[[Piece], bytes]


class Plan(NamedTuple):
    """A root, and how much of the log behind it."""

    root: Descriptor
    backup: int
    """The last backup that is used."""
    ends: dict[int, int]
    log: dict[int, list[Piece]]


def whole(chain: Sequence[Descriptor]) -> Plan:
    """The last backup of a chain as it is."""
    backup = chain[-1]
    ends = {reach.shard: reach.end_lsn for reach in backup.shards}
    return Plan(backup, backup.number, ends, _log_behind(backup, [backup], ends))


def plan(chain: Sequence[Descriptor], moment: Moment, fetch: Fetch) -> Plan | None:
    """What to restore for a moment that the chain reaches; None when no root is old enough."""
    targets = _places_of(chain, moment, fetch) if moment.topic else [moment]
    for target in targets:
        for place in reversed(range(len(chain))):
            if target.is_behind(chain[place]):
                return _cut(chain[place:], target, fetch)
    return whole(chain) if _ends_with(chain[-1], moment) else None


def _ends_with(backup: Descriptor, moment: Moment) -> bool:
    """Whether a record is the newest of its topic at the end of a backup."""
    topics = backup.topics_with(moment.topic, moment.seq)
    return any(topic.head_seq == moment.seq and not topic.dropped for topic in topics)


def _cut(chain: Sequence[Descriptor], moment: Moment, fetch: Fetch) -> Plan:
    """From the root of the first backup of a chain, which lies before the moment."""
    root, backup = chain[0], chain[-1]
    limits = {reach.shard: reach.end_lsn for reach in backup.shards}
    log = _log_behind(root, chain, limits)
    ends: dict[int, int] = {}
    until_us = moment.at_us
    if until_us is None:
        until_us = 0
        for shard, lsn in moment.lsns.items():
            ends[shard], last_ts = _end(log.get(shard, []), fetch, _below(lsn))
            ends[shard] = max(ends[shard], root.reach(shard).exact_lsn)
            until_us = max(until_us, last_ts, root.exact_us)
    for shard, limit in limits.items():
        if shard not in ends:
            end_lsn, _ = _end(log.get(shard, []), fetch, _upto(until_us))
            start = root.reach(shard).replay_lsn
            ends[shard] = min(limit, max(end_lsn, start))
        assert ends[shard] >= root.reach(shard).exact_lsn, "a root is behind its own time"
    return Plan(root, backup.number, ends, _log_behind(root, chain, ends))


def _below(lsn: int) -> Callable[[Mark], bool]:
    return lambda mark: mark.end_lsn <= lsn


def _upto(until_us: int) -> Callable[[Mark], bool]:
    return lambda mark: mark.ts <= until_us


def _end(log: Sequence[Piece], fetch: Fetch, keep: Callable[[Mark], bool]) -> tuple[int, int]:
    """The lsn behind the last frame that is kept, and its time."""
    end_lsn = last_ts = 0
    for piece in log:
        if keep(Mark(piece.first_lsn, piece.end_lsn, piece.ts_last, 0)):
            end_lsn, last_ts = piece.end_lsn, piece.ts_last
            continue
        for mark in log_frames.marks(fetch(piece), piece.first_lsn):
            if not keep(mark):
                break
            end_lsn, last_ts = mark.end_lsn, mark.ts
        break
    return end_lsn, last_ts


def _log_behind(
    root: Descriptor, chain: Sequence[Descriptor], ends: dict[int, int]
) -> dict[int, list[Piece]]:
    """The pieces of each shard from where replay of the root begins to an lsn, without a hole."""
    known = {piece.object.key: piece for backup in chain for piece in backup.log}
    ordered = sorted(known.values(), key=lambda piece: (piece.shard, piece.first_lsn))
    log: dict[int, list[Piece]] = {}
    for shard, end_lsn in ends.items():
        lsn = root.reach(shard).replay_lsn
        for piece in ordered:
            if piece.shard != shard or piece.end_lsn <= lsn or piece.first_lsn >= end_lsn:
                continue
            if log.get(shard) and piece.first_lsn != log[shard][-1].end_lsn:
                break
            log.setdefault(shard, []).append(piece)
        pieces = log.get(shard, [])
        begins = pieces[0].first_lsn if pieces else end_lsn
        reached = pieces[-1].end_lsn if pieces else lsn
        if begins > lsn or reached < end_lsn:
            raise Corrupt(
                f"backup {chain[-1].number} lacks log of shard {shard} between {lsn} and {end_lsn}",
                path="wal",
            )
    return log


def _places_of(chain: Sequence[Descriptor], moment: Moment, fetch: Fetch) -> list[Moment]:
    """Of each topic of a name: the lsn behind the commit of a seq, where the chain has it."""
    backup = chain[-1]
    wanted = {topic.id for topic in backup.topics_with(moment.topic, moment.seq)}
    older = chain[-2] if len(chain) > 1 else None
    found = []
    for piece in backup.log:
        if older is not None and piece.end_lsn <= older.reach(piece.shard).end_lsn:
            continue
        content = fetch(piece)
        for mark in log_frames.marks(content, piece.first_lsn):
            parts = told_by(log_frames.parts_of(content, mark, piece.first_lsn))
            told = {each for each, first, last, _ in parts if first <= moment.seq <= last}
            if told & wanted:
                found.append(Moment(lsns={piece.shard: mark.end_lsn}))
                wanted -= told
    return found
