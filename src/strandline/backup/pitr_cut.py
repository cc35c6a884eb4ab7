"""Plans a point-in-time restore: finds the lsn at which the log of each shard is cut.

The logs of a chain of backups are one log per shard. A cut keeps whole frames from its beginning:
those stamped up to a time, or those below an lsn. Stamps never go back within a shard, so a time is
one lsn in it. A record is an lsn in one shard; the others are cut by the time of its commit.

A root contains some effects of frames after the lsn from which it is replayed: floors, deletes and
options as of the time when it was written. So it only serves for cuts at or after that time
(``exact_lsn``), and the newest such root is chosen: it leaves the least to replay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from strandline.backup import log_frames
from strandline.backup.descriptor import BackupDescriptor, LogPiece
from strandline.backup.log_frames import FrameSpan
from strandline.backup.restore_point import RestorePoint
from strandline.backup.store_reader import frame_seqs
from strandline.errors import Corrupt

Fetch = Callable[[LogPiece], bytes]


class RestorePlan(NamedTuple):
    """A root, and the part of the log after it to replay."""

    root: BackupDescriptor
    backup: int
    """The last backup that is used."""
    ends: dict[int, int]
    log: dict[int, list[LogPiece]]


def plan_latest(chain: Sequence[BackupDescriptor]) -> RestorePlan:
    """Plan to restore the last backup of a chain completely."""
    backup = chain[-1]
    ends = {reach.shard: reach.end_lsn for reach in backup.shards}
    return RestorePlan(backup, backup.number, ends, _log_after(backup, [backup], ends))


def plan_point(
    chain: Sequence[BackupDescriptor], point: RestorePoint, fetch: Fetch
) -> RestorePlan | None:
    """Plan to restore a point that the chain reaches; None when no root is old enough."""
    targets = _points_of(chain, point, fetch) if point.topic else [point]
    for target in targets:
        for index in reversed(range(len(chain))):
            if target.is_after(chain[index]):
                return _cut(chain[index:], target, fetch)
    return plan_latest(chain) if _ends_with(chain[-1], point) else None


def _ends_with(backup: BackupDescriptor, point: RestorePoint) -> bool:
    """Whether a record is the newest of its topic at the end of a backup."""
    topics = backup.topics_with(point.topic, point.seq)
    return any(topic.head_seq == point.seq and not topic.dropped for topic in topics)


def _cut(chain: Sequence[BackupDescriptor], point: RestorePoint, fetch: Fetch) -> RestorePlan:
    """Plan a cut from the root of the first backup of a chain, which is before the point."""
    root, backup = chain[0], chain[-1]
    limits = {reach.shard: reach.end_lsn for reach in backup.shards}
    log = _log_after(root, chain, limits)
    ends: dict[int, int] = {}
    until_us = point.at_us
    if until_us is None:
        until_us = 0
        for shard, lsn in point.lsns.items():
            ends[shard], last_ts = _end(log.get(shard, []), fetch, _below(lsn))
            ends[shard] = max(ends[shard], root.reach(shard).exact_lsn)
            until_us = max(until_us, last_ts, root.exact_us)
    for shard, limit in limits.items():
        if shard not in ends:
            end_lsn, _ = _end(log.get(shard, []), fetch, _until(until_us))
            start = root.reach(shard).replay_lsn
            ends[shard] = min(limit, max(end_lsn, start))
        assert ends[shard] >= root.reach(shard).exact_lsn, "a root is after its own time"
    return RestorePlan(root, backup.number, ends, _log_after(root, chain, ends))


def _below(lsn: int) -> Callable[[FrameSpan], bool]:
    return lambda mark: mark.end_lsn <= lsn


def _until(until_us: int) -> Callable[[FrameSpan], bool]:
    return lambda mark: mark.ts <= until_us


def _end(
    log: Sequence[LogPiece], fetch: Fetch, keep: Callable[[FrameSpan], bool]
) -> tuple[int, int]:
    """The end of the last of the leading frames that ``keep`` accepts, and its time."""
    end_lsn = last_ts = 0
    for piece in log:
        if keep(FrameSpan(piece.first_lsn, piece.end_lsn, piece.ts_last, 0)):
            end_lsn, last_ts = piece.end_lsn, piece.ts_last
            continue
        for mark in log_frames.frame_spans(fetch(piece), piece.first_lsn):
            if not keep(mark):
                break
            end_lsn, last_ts = mark.end_lsn, mark.ts
        break
    return end_lsn, last_ts


def _log_after(
    root: BackupDescriptor, chain: Sequence[BackupDescriptor], ends: dict[int, int]
) -> dict[int, list[LogPiece]]:
    """The pieces of each shard from where replay of the root begins to an lsn, without a hole."""
    known = {piece.object.key: piece for backup in chain for piece in backup.log}
    ordered = sorted(known.values(), key=lambda piece: (piece.shard, piece.first_lsn))
    log: dict[int, list[LogPiece]] = {}
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


def _points_of(
    chain: Sequence[BackupDescriptor], point: RestorePoint, fetch: Fetch
) -> list[RestorePoint]:
    """The points after the commit of a seq, one for each topic of the name that has it."""
    backup = chain[-1]
    missing = {topic.id for topic in backup.topics_with(point.topic, point.seq)}
    older = chain[-2] if len(chain) > 1 else None
    points = []
    for piece in backup.log:
        if older is not None and piece.end_lsn <= older.reach(piece.shard).end_lsn:
            continue
        content = fetch(piece)
        for mark in log_frames.frame_spans(content, piece.first_lsn):
            parts = frame_seqs(log_frames.decode_frame(content, mark, piece.first_lsn))
            matches = {each for each, first, last, _ in parts if first <= point.seq <= last}
            if matches & missing:
                points.append(RestorePoint(lsns={piece.shard: mark.end_lsn}))
                missing -= matches
    return points
