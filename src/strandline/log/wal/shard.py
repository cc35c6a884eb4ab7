"""One shard that is open for writing: its writer, its committer, its locks."""

from __future__ import annotations

import threading
from collections.abc import Callable

from strandline.log.wal.committer import Committer
from strandline.log.wal.stats import LogStatistics
from strandline.log.wal.writer import Writer


class Shard:
    """A WAL that is open for writing."""

    def __init__(self, writer: Writer) -> None:
        self.number = writer.files.shard
        self.writer = writer
        self.committer = Committer(writer)
        self.maintenance = threading.Lock()
        """Held during deletes, evictions and alterations in this shard's topics. Taken before the
        writer's lock, never after it."""
        self.keys_evicted = 0
        """Idempotency keys that were evicted before the end of their windows."""
        self.copied_bytes = 0
        """Payload of copies that are in memory and refer to their originals (``Copied``)."""
        self.unflushed: dict[int, Callable[[], None]] = {}
        """By topic id: the function that moves records from memory into the log. Writer's lock
        held."""

    def forked(self) -> None:
        """In a forked child: reject everything, and release locks of the parent's threads."""
        self.writer.close()
        self.writer.release()
        self.maintenance = threading.Lock()

    def flush(self) -> None:
        """Move everything that waits in memory into the log."""
        writer = self.writer
        writer.acquire_first()
        try:
            self.flush_nowait()
        finally:
            writer.release()

    def flush_nowait(self) -> None:
        """As ``flush``, with the writer's lock held."""
        while self.unflushed:
            topic_id, flush = next(iter(self.unflushed.items()))
            flush()  # a rejected one stays in the list, for the next flush
            del self.unflushed[topic_id]

    def statistics(self) -> LogStatistics:
        """Statistics of what was written so far. Read without a lock."""
        writer, times = self.writer, self.committer.times
        return LogStatistics(
            shard=self.number,
            bytes_written=writer.end_lsn - writer.first_lsn,
            frames=writer.frames,
            syncs=self.committer.rounds,
            sync_counts=tuple(times.counts),
            sync_total_us=times.total_us,
            slow_syncs=times.slow_total,
            is_slow=self.committer.slow_syncs is not None,
            rotations=writer.rotations,
            waiting=self.committer.waiting,
            waiting_most=self.committer.waiting_most,
            failed=writer.failure is not None,
            keys_evicted=self.keys_evicted,
        )

    def run_once(self) -> None:
        """One run of the sync job: flush, then sync what is not yet durable."""
        if self.unflushed:
            self.flush()
        self.committer.run_once()
