"""The idempotency keys of a topic, oldest first. Bounded in number, bytes and time.

A key is stored until its window ends, or until ``limits.idempotency_keys_max`` or
``limits.idempotency_bytes_max`` is exceeded: then the oldest keys of the topic are evicted. A retry
with a key that was evicted is appended again.

Windows are measured with elapsed time (``log/wal/elapsed_clock.py``), which does not change when
the wall clock is set forward or back. Checkpoints have the ends of windows in commit time, the log
has the commit times of the appends. When the store opens, ``open`` removes those that have ended:
no window ends later than one whole window from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from strandline.config.settings import LimitSettings

ENTRY_BYTES = 400
"""Memory of one key besides its bytes, approximately."""

Entry = tuple[int, int, int]
"""First seq, last seq, and the end of the window in elapsed time."""


class IdempotencyIndex:
    """Keys and the seqs of their batches. Owned by the writer's lock of the topic."""

    __slots__ = ("_known", "size")

    def __init__(self, stored: Iterable[tuple[bytes, int, int, int]] = ()) -> None:
        """Load what a checkpoint has (``dump``)."""
        self._known: dict[bytes, Entry] = {each[0]: each[1:] for each in stored}
        self.size = sum(ENTRY_BYTES + len(key) for key in self._known)
        """Bytes of memory that the keys take, approximately."""

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._known)

    def find(self, key: bytes, now_us: int) -> tuple[int, int] | None:
        """The seqs of the batch that had this key; None when it is not stored."""
        entry = self._known.get(key)
        return None if entry is None or entry[2] < now_us else entry[:2]

    def remember(self, key: bytes, entry: Entry, limits: LimitSettings) -> int:
        """Add a key as the newest; returns how many others were evicted for it."""
        self._remove(key)
        self._known[key] = entry
        self.size += ENTRY_BYTES + len(key)
        return self._evict(limits)

    def forget_expired(self, now_us: int) -> None:
        """Remove the oldest keys whose windows have ended."""
        while self._known:
            oldest = next(iter(self._known))
            if self._known[oldest][2] >= now_us:
                return
            self._remove(oldest)

    def open(self, now_us: int, window_us: int, limits: LimitSettings) -> None:
        """Begin with the keys of a checkpoint and the log, at a moment of elapsed time."""
        until_max = now_us + window_us
        entries = {
            key: (first_seq, last_seq, min(until, until_max))
            for key, (first_seq, last_seq, until) in self._known.items()
            if until >= now_us
        }
        self._known, self.size = entries, sum(ENTRY_BYTES + len(key) for key in entries)
        self._evict(limits)

    def dump(self, behind_us: int) -> list[tuple[bytes, int, int, int]]:
        """The entries for a checkpoint. ``behind_us``: how far elapsed time lags commit time."""
        return [
            (key, first_seq, last_seq, max(0, until + behind_us))
            for key, (first_seq, last_seq, until) in self._known.items()
        ]

    def _evict(self, limits: LimitSettings) -> int:
        evicted = 0
        while len(self._known) > 1 and (
            len(self._known) > limits.idempotency_keys_max
            or self.size > limits.idempotency_bytes_max
        ):
            self._remove(next(iter(self._known)))
            evicted += 1
        return evicted

    def _remove(self, key: bytes) -> None:
        if self._known.pop(key, None) is not None:
            self.size -= ENTRY_BYTES + len(key)
