"""How often records were forwarded, where routers form a circle. In memory only.

A record that somebody appended has made no hop. A copy has made one more than its original; one
that has made ``HOPS_MAX`` is not forwarded. What a crash forgets goes round a few times more.
"""

from __future__ import annotations

from collections.abc import Sequence

from strandline.routers.definition import HOPS_MAX


class Hops:
    """The hops of copies that are still to be forwarded, by topic. Owned by the routers' lock."""

    def __init__(self) -> None:
        self.circular: set[str] = set()
        """The topics that lie on a circle: of others nothing is remembered."""
        self._made: dict[str, dict[int, int]] = {}

    def may_go_on(self, topic: str, seqs: Sequence[int], places: list[int]) -> list[int]:
        """Those of the places whose records have hops left."""
        made = self._made.get(topic)
        if not made:
            return places
        return [place for place in places if made.get(seqs[place], 0) < HOPS_MAX]

    def note(self, source: str, seqs: Sequence[int], dest: str, first_seq: int) -> None:
        """Copies of these records of the source are in the destination from a seq on."""
        if dest not in self.circular or source not in self.circular:
            return
        before = self._made.get(source, {})
        made = self._made.setdefault(dest, {})
        for seq, origin in enumerate(seqs, first_seq):
            made[seq] = before.get(origin, 0) + 1

    def forget(self, topic: str, upto: int) -> None:
        """All routers have gone past a seq."""
        made = self._made.get(topic)
        if made:
            self._made[topic] = {seq: hops for seq, hops in made.items() if seq > upto}
