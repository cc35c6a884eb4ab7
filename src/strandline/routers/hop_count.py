"""Hop counts of records in circles of routers. In memory only.

An appended record has made no hop. A copy has made one more than its original; a record with
``HOPS_MAX`` hops is not forwarded. After a crash the counts begin again at zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from strandline.routers.definition import HOPS_MAX


class HopCounts:
    """Hops of copies that are still to be forwarded, by topic. Guarded by the routers' lock."""

    def __init__(self) -> None:
        self.circular: set[str] = set()
        """The topics in a circle: only their counts are stored."""
        self._hops: dict[str, dict[int, int]] = {}

    def with_hops_left(self, topic: str, seqs: Sequence[int], indices: list[int]) -> list[int]:
        """The indices whose records have hops left."""
        counts = self._hops.get(topic)
        if not counts:
            return indices
        return [index for index in indices if counts.get(seqs[index], 0) < HOPS_MAX]

    def count_copies(self, source: str, seqs: Sequence[int], dest: str, first_seq: int) -> None:
        """Count the copies of these records, which are in the destination from ``first_seq`` on."""
        if dest not in self.circular or source not in self.circular:
            return
        of_source = self._hops.get(source, {})
        counts = self._hops.setdefault(dest, {})
        for seq, origin in enumerate(seqs, first_seq):
            counts[seq] = of_source.get(origin, 0) + 1

    def drop_upto(self, topic: str, upto: int) -> None:
        """Drop the counts up to a seq that all routers have passed."""
        counts = self._hops.get(topic)
        if counts:
            self._hops[topic] = {seq: hops for seq, hops in counts.items() if seq > upto}
