"""Follows the changes of a key, or of all keys with a prefix.

A watcher reads the records of the topic after its position and waits for more. It can resume later,
with ``after`` set to the version of the last change that it returned.

A late watcher may find two kinds of records missing from the log. Versions beyond the history are
harmless: newer ones of the same key follow, so the watcher ends with the current state. Deleted
keys that were forgotten are not: a watcher that knew such a key would never receive its deletion.
So forgetting is a record, the fold stores up to which seq it went, and

- a watcher that resumes from before that seq gets ``RecordsLost``, and must read all keys again;
- a watcher that starts at 0 knows no keys yet. It only must not return a forgotten key, whose
  records may stay in the log for a while.

Forgetting happens before the records are deleted, and a watcher checks it after reading: if a
record was missing during the read, the check finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from strandline.errors import RecordsLost
from strandline.records import Record
from strandline.views.kv.fold import KvFold
from strandline.views.kv.values import Change, change_of
from strandline.views.view_runner import ViewRunner

_PAGE_RECORDS = 1024


class Watcher:
    """The position of one watcher. Owned by one thread."""

    def __init__(
        self, host: ViewRunner[KvFold], matches: Callable[[bytes], bool], after: int
    ) -> None:
        with host.reading() as fold:
            self._floor = fold.forgotten
        if 0 < after < self._floor:
            raise _lost(host, after, self._floor)
        self._host = host
        self._matches = matches
        self.position = after
        """Changes up to this version were returned."""
        self.caught_up = False
        """Whether the last page reached the end of the log."""

    def read_changes(self) -> list[Change]:
        """The next changes, from at most one page of the log. Does not wait."""
        host, after, topic = self._host, self.position, self._host.topics[0]
        page = topic.read(after, _PAGE_RECORDS)
        gap = page.tombstone
        if gap is not None and after:  # a watcher that starts at 0 has missed nothing
            raise RecordsLost(topic.name, gap.gap_from, gap.gap_to, gap.reason)
        records = [record for record in page.records if record.key and self._matches(record.key)]
        if marks := host.foreign_marks():
            records = [record for record in records if not (record.meta or b"").startswith(marks)]
        with host.reading() as fold:
            forgotten = fold.forgotten
            records = [record for record in records if _is_known(fold, record, self._floor)]
        if forgotten > max(self._floor, after):
            raise _lost(host, after, forgotten)
        self.position = page.next
        self.caught_up = page.caught_up
        return [change_of(record) for record in records]

    def follow(self, timeout_s: float | None) -> Iterator[Change]:
        """Changes, until there is none for ``timeout_s``."""
        topic = self._host.topics[0]
        while True:
            yield from self.read_changes()
            if self.caught_up and not topic.wait_for(self.position, timeout_s):
                return


def _is_known(fold: KvFold, record: Record, floor: int) -> bool:
    """Whether the key of a record was not forgotten before the watcher started."""
    assert record.key is not None
    return record.seq > floor or fold.find(record.key) is not None


def _lost(host: ViewRunner[KvFold], after: int, forgotten: int) -> RecordsLost:
    reason = "keys deleted there are forgotten: scan all keys again"
    return RecordsLost(host.topics[0].name, after + 1, forgotten, reason)
