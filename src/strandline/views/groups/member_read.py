"""Finds records for a member: takes what waits, looks further in the topic, fetches.

Taking is done under the desk's lock, for moments. Looking and fetching ask the topic, which may
take long when records lie in the lake; who looks further is one at a time, and nobody who acks
waits for it.
"""

from __future__ import annotations

import threading

from strandline.log.topic.topic import Topic
from strandline.records import Record
from strandline.views.groups import lag
from strandline.views.groups.group_state import Desk
from strandline.views.groups.inflight import Lease

PAGE_RECORDS = 256
"""Read at least so many in mode ``key_shared``, where most may be for other members."""
PAGE_RECORDS_MAX = 1024


class Reading:
    """Reads the topic for a group. Safe from many threads."""

    def __init__(self, topic: Topic, desk: Desk) -> None:
        self._topic = topic
        self._desk = desk
        self._looking = threading.Lock()

    def look(self, wanted: int, fresh: dict[int, Record]) -> bool:
        """Look further, for about so many; False when there is nothing more for now."""
        desk = self._desk
        with self._looking:
            with desk.lock:
                room = desk.room
                after = desk.look_from()
            if not room or after >= self._topic.head_seq:
                return False
            least = PAGE_RECORDS if desk.options.mode == "key_shared" else 1
            page = self._topic.read(after, min(room, max(wanted, least), PAGE_RECORDS_MAX))
            with desk.lock:
                desk.absorb(after, page)
        fresh.update((record.seq, record) for record in page.records)
        return page.next > after

    def fetch(self, leases: list[Lease], fresh: dict[int, Record]) -> dict[int, Record]:
        """The records of these leases by seq. Those that are gone are skipped, and counted."""
        seqs = [lease.taken.seq for lease in leases]
        records = {seq: fresh[seq] for seq in seqs if seq in fresh}
        others = [seq for seq in seqs if seq not in records]
        if others:
            records.update((record.seq, record) for record in self._topic.pick(others).records)
        gone = [lease for lease in leases if lease.taken.seq not in records]
        if gone:
            gaps = lag.gaps_at(self._topic, [lease.taken.seq for lease in gone])
            with self._desk.lock:
                for lease in gone:
                    self._desk.skip(lease, gaps.get(lease.taken.seq))
        return records
