"""Counts the dead letters of one queue in a topic that several queues share.

The node of a letter names its queue. Each letter is read once, in order, and the seqs of the
queue's own letters are stored; which of those still exist follows from the snapshot of the topic.
"""

from __future__ import annotations

import threading

from pyroaring import BitMap64

from strandline.log.topic.topic import Topic

_LETTERS_AT_ONCE = 1000
_BYTES_AT_ONCE = 16 << 20


class DeadLetterCount:
    """Counts letters of one node. Safe to use from many threads."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._lock = threading.Lock()
        self._identity: tuple[int, int] | None = None
        self._seqs = BitMap64()
        self._after = 0

    def count(self, topic: Topic) -> int:
        """The current number of letters."""
        with self._lock:
            if topic.identity != self._identity:
                self._identity, self._seqs, self._after = topic.identity, BitMap64(), 0
            self._read_new(topic)
            now = topic.snapshot()
            live = BitMap64(range(now.floor, now.head_seq + 1)) - now.hidden()
            for first_seq, last_seq, _ in now.gaps:
                live -= BitMap64(range(first_seq, last_seq + 1))
            self._seqs &= live  # a record that is gone does not come back
            return len(self._seqs)

    def _read_new(self, topic: Topic) -> None:
        while self._after < topic.head_seq:
            page = topic.read(self._after, _LETTERS_AT_ONCE, size_max=_BYTES_AT_ONCE)
            own = [record.seq for record in page.records if record.node == self._node]
            self._seqs.update(own)
            self._after = page.next
