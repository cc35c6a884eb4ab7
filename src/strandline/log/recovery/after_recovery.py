"""Repairs the end of the last writer's log, before a new writer takes appends.

- The unsynced part of the log is written again and synced. It was read from the page cache, and the
  disk may never have received it: after a failed sync Linux marks lost pages as clean.
- Files after a torn write are set aside: their records were never acknowledged as durable.
- Topics whose acknowledged tail may be lost get a new epoch and a gap up to their ceiling.
- Segment files that no checkpoint lists go to quarantine, unless a checkpoint was damaged: then no
  file on the disk is considered superfluous.
"""

from __future__ import annotations

import errno

from strandline.errors import Corrupt, DiskFull
from strandline.log.checkpoint.checkpoint_store import CheckpointStore
from strandline.log.files import checkpoint_codec as checkpoint_file
from strandline.log.files.layout import Layout
from strandline.log.recovery.recover import StoreState
from strandline.log.recovery.replay import lose_tail
from strandline.log.state.topic_state import TopicState
from strandline.log.wal import control_messages
from strandline.log.wal.codec import FILE_HEADER_SIZE
from strandline.log.wal.recovery import ShardLog
from strandline.log.wal.shard import Shard
from strandline.platform.disk import Disk


def secure_tail(disk: Disk, log: ShardLog) -> None:
    """Write and sync again what recovery read of a shard past its durable lsn."""
    for place, entry in enumerate(log.files.entries):
        end = log.files.end_of(place)
        end = log.end_lsn if end is None else min(end, log.end_lsn)
        if end <= log.durable_upto:
            continue
        first = max(entry.first_lsn, log.durable_upto)
        offset = FILE_HEADER_SIZE + first - entry.first_lsn
        file = disk.open_log(entry.path)
        try:
            file.write(0, [entry.file.pread(FILE_HEADER_SIZE, 0)])
            if end > first:
                file.write(offset, [entry.file.pread(end - first, offset)])
            file.sync()
        finally:
            file.close()
    disk.sync_dir(log.files.directory)


def set_aside_cut_files(disk: Disk, log: ShardLog) -> None:
    """Rename files after a torn write, and remove spare files of the last writer."""
    for path in log.cut:
        disk.rename(path, f"{path}.cut")
    for name in disk.list_dir(log.files.directory):
        if name.startswith("spare-"):
            disk.remove(f"{log.files.directory}/{name}")


def declare_lost_tails(store: StoreState, shards: list[Shard]) -> list[TopicState]:
    """Put on the log which topics may have lost acknowledged records; return the topics."""
    lost = [state for state in store.catalog.states() if may_have_lost(state, store)]
    if not lost:
        return lost
    # Until every loss is on the log, no file header may have the identity of this page cache: after
    # a kill the next opening would conclude from it that nothing can be lost. If the page cache
    # survived since the last writer, that conclusion is right.
    hidden = [] if store.page_cache_kept else shards
    for shard in hidden:
        shard.writer.suppress_page_cache_id()
    for shard in shards:
        _declare(shard, [state for state in lost if state.shard == shard.number])
    try:
        for shard in shards:
            shard.writer.flush_control()
    except DiskFull:
        return lost  # reads work; an append has to find space for this first
    for shard in hidden:
        shard.writer.restore_page_cache_id()
    return lost


def may_have_lost(state: TopicState, store: StoreState) -> bool:
    """Whether seqs above the recovered head may have been given out."""
    if state.ceiling < state.next_seq:
        return False
    durability = state.config.durability
    if durability == "ephemeral":
        return True
    if store.clean or durability == "fsync":
        return False
    return durability == "memory" or not store.page_cache_kept


def forget_ephemeral(state: TopicState, shard: Shard) -> None:
    """At a clean close: log exactly up to where an ephemeral topic's seqs were used."""
    last_seq = state.next_seq - 1
    unused = state.memory is None
    epoch = state.epoch if unused else max(state.epoch + 1, shard.writer.stamp())
    message = control_messages.TailLost(1, last_seq, epoch, "lost")
    shard.writer.place_control(state.id, message)


def quarantine_orphans(
    disk: Disk, layout: Layout, roots: CheckpointStore, store: StoreState
) -> None:
    """Move segment files that no checkpoint lists to quarantine, and doom those of older ones."""
    if store.complaints:
        return
    known = {segment.path for segment in store.library.segments.values()}
    doomed = []
    for number in checkpoint_file.numbers_in(disk, layout.meta):
        path = checkpoint_file.path_of(layout.meta, number)
        try:
            older = checkpoint_file.decode(disk.read(path), path)
            checkpoint_file.check_identity(older, number, store.store_id, path)
        except Corrupt as error:
            store.complaints.append(str(error))
            return
        for info in older.segments:
            path = f"{layout.segments}/{info.name()}"
            if path not in known:
                known.add(path)
                doomed.append((path, number))
    for path, number in doomed:
        roots.remove_later(path, number)
    try:
        _quarantine(disk, layout, known)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        # No space even for a directory entry. They do no harm here: the next opening tries again.


def _quarantine(disk: Disk, layout: Layout, known: set[str]) -> None:
    for folder in disk.list_dir(layout.segments):
        for name in disk.list_dir(f"{layout.segments}/{folder}"):
            path = f"{layout.segments}/{folder}/{name}"
            if path not in known:
                disk.make_dirs(layout.quarantine)
                disk.rename(path, f"{layout.quarantine}/{folder}-{name}")


def _declare(shard: Shard, states: list[TopicState]) -> None:
    writer = shard.writer
    writer.acquire()
    try:
        for state in states:
            epoch = max(state.epoch + 1, writer.stamp())
            message = control_messages.TailLost(state.next_seq, state.ceiling, epoch, "lost")
            writer.enqueue_control(state.id, message)
            lose_tail(state, message)
    finally:
        writer.release()
