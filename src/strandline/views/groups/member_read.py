"""Reads the topic of a group: adds new records to the backlog, and fetches leased ones.

Both call the topic, which may take long when records are in the lake, without the lock of the group
state. One thread at a time reads new records, and acks do not wait for it.
"""

from __future__ import annotations

import threading

from strandline.log.topic.topic import Topic
from strandline.records import Record
from strandline.views.groups import lag
from strandline.views.groups.group_state import DeliveryState
from strandline.views.groups.inflight import Lease

PAGE_RECORDS = 256
"""The smallest page in mode ``key_shared``, where most records may be for other members."""
PAGE_RECORDS_MAX = 1024


class MemberReader:
    """Reads the topic for a group. Safe to use from many threads."""

    def __init__(self, topic: Topic, state: DeliveryState) -> None:
        self._topic = topic
        self._state = state
        self._read_lock = threading.Lock()

    def read_new(self, count: int, fresh: dict[int, Record]) -> bool:
        """Read about ``count`` new records; False if there are none for now."""
        state = self._state
        with self._read_lock:
            with state.lock:
                capacity = state.capacity
                after = state.read_cursor()
            if not capacity or after >= self._topic.head_seq:
                return False
            least = PAGE_RECORDS if state.options.mode == "key_shared" else 1
            page = self._topic.read(after, min(capacity, max(count, least), PAGE_RECORDS_MAX))
            with state.lock:
                state.add_page(after, page)
        fresh.update((record.seq, record) for record in page.records)
        return page.next > after

    def fetch(self, leases: list[Lease], fresh: dict[int, Record]) -> dict[int, Record]:
        """The records of leases by seq. Leases on records that are gone are ended and counted."""
        seqs = [lease.record.seq for lease in leases]
        records = {seq: fresh[seq] for seq in seqs if seq in fresh}
        missing = [seq for seq in seqs if seq not in records]
        if missing:
            records.update((record.seq, record) for record in self._topic.get_many(missing).records)
        gone = [lease for lease in leases if lease.record.seq not in records]
        if gone:
            gaps = lag.gaps_at(self._topic, [lease.record.seq for lease in gone])
            with self._state.lock:
                for lease in gone:
                    self._state.skip(lease, gaps.get(lease.record.seq))
        return records
