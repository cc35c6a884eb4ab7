"""Follow what happens to a key, or to all keys with a prefix.

A watcher reads the topic's records behind its position, waits for more, and can go on later where
it was: with ``after`` the version of the last change that it has seen.

Two things may be missing from the log when it comes late. Versions beyond the history: newer ones
of the same key are still to come, so in the end it knows the key as it is. And deleted keys that
were forgotten: a watcher that knew such a key would never hear that it is gone. So forgetting is a
record, the fold knows how far it went, and

- who goes on from before that point is told with ``RecordsLost``, and reads all keys again;
- who begins at 0 knows nothing yet, and must only not be shown a key that is forgotten: its records
  may be on the log for a while.

Forgetting comes before the records go, and a watcher looks at it after reading: what was gone when
it read is known when it looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from strandline.errors import RecordsLost
from strandline.records import Record
from strandline.views.kv.fold import KvFold
from strandline.views.kv.values import Change, change_of
from strandline.views.view_runner import Host

_PAGE_RECORDS = 1024


class Watcher:
    """Where one watcher is. Owned by one thread."""

    def __init__(self, host: Host[KvFold], wanted: Callable[[bytes], bool], after: int) -> None:
        with host.reading() as fold:
            self._floor = fold.forgotten
        if 0 < after < self._floor:
            raise _lost(host, after, self._floor)
        self._host = host
        self._wanted = wanted
        self.position = after
        """What happened up to this version is told."""
        self.caught_up = False
        """Whether the last look saw all there was."""

    def look(self) -> list[Change]:
        """Changes that come next, at most a page of the log; it does not wait."""
        host, after, topic = self._host, self.position, self._host.topics[0]
        page = topic.read(after, _PAGE_RECORDS)
        gap = page.tombstone
        if gap is not None and after:  # who begins has nothing to lose
            raise RecordsLost(topic.name, gap.gap_from, gap.gap_to, gap.reason)
        records = [record for record in page.records if record.key and self._wanted(record.key)]
        if strange := host.strangers():
            records = [record for record in records if not (record.meta or b"").startswith(strange)]
        with host.reading() as fold:
            forgotten = fold.forgotten
            records = [record for record in records if _is_known(fold, record, self._floor)]
        if forgotten > max(self._floor, after):
            raise _lost(host, after, forgotten)
        self.position = page.next
        self.caught_up = page.caught_up
        return [change_of(record) for record in records]

    def follow(self, timeout_s: float | None) -> Iterator[Change]:
        """What comes, until nothing came for so long."""
        topic = self._host.topics[0]
        while True:
            yield from self.look()
            if self.caught_up and not topic.wait_for(self.position, timeout_s):
                return


def _is_known(fold: KvFold, record: Record, floor: int) -> bool:
    """Whether a record is not of a key that was forgotten before the watcher began."""
    assert record.key is not None
    return record.seq > floor or fold.find(record.key) is not None


def _lost(host: Host[KvFold], after: int, forgotten: int) -> RecordsLost:
    reason = "keys deleted there are forgotten: scan all keys anew"
    return RecordsLost(host.topics[0].name, after + 1, forgotten, reason)
