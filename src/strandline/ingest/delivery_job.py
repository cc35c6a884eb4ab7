"""Inbox job of the writer: appends deliveries of other processes, each exactly once.

    1 read a delivery; if the topic has its number already, go to 4
    2 check every staged file: its bytes, and that the topic accepts its rows
    3 append the chunks one by one, numbered, and sync
    4 delete the delivery, then its staged files

A crash anywhere repeats the delivery, and the topic ignores the numbers that it has. A failure in 2
is permanent: the delivery is moved to ``refused`` with the reason, nothing of it is appended, and
its files stay for a while. A temporary failure (a full topic or disk, an object store that does not
respond) leaves the delivery where it is; other producers continue.

Deliveries of one producer are appended in the order of their numbers, and wait for one another. A
producer delivers the next number only after the last: a lower number that arrives later is treated
as appended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pyarrow as pa

from strandline.errors import (
    Conflict,
    Corrupt,
    Invalid,
    NotFound,
    StrandlineError,
    TopicFull,
)
from strandline.ingest import delivery_codec as codec
from strandline.ingest import rejected as rejections
from strandline.ingest import view_handoff_codec as handoffs
from strandline.ingest.delivery_codec import PENDING, REFUSED, STAGED, TopicDelivery
from strandline.ingest.staged_files import read_chunks
from strandline.log.topic.topic import Topic
from strandline.platform.clock import Clock
from strandline.platform.objectstore.protocol import Objects

LEFTOVER_S = 7 * 86_400.0
"""Seconds that staged files without a delivery stay: the longest time of a write."""

_CLEANUP_INTERVAL_S = 3_600.0


class IngestJob:
    """Appends deliveries. Safe from many threads; one run at a time."""

    def __init__(
        self,
        folder: Objects,
        staged: Objects,
        clock: Clock,
        *,
        store_id: str,
        topic: Callable[[str, bool], Topic],
        sync: Callable[[], None],
    ) -> None:
        """``topic`` finds a topic by name, and creates it if its second argument is true."""
        self._folder = folder
        self._staged = staged
        self._clock = clock
        self._store_id = store_id
        self._topic = topic
        self._sync = sync
        self._run_lock = threading.Lock()
        self._cleaned_at = clock.monotonic()
        self._rejected: dict[str, str] | None = None

    def run_once(self) -> int:
        """Append all deliveries; return the number of appended ones."""
        appended, failures = 0, dict[str, Exception]()
        with self._run_lock:
            for key in self._pending():
                producer = key.rpartition("-")[0]
                if producer in failures:
                    continue
                try:
                    appended += self._process(key)
                except (OSError, StrandlineError) as error:
                    failures[producer] = error
            if self._clock.monotonic() - self._cleaned_at > _CLEANUP_INTERVAL_S:
                self._cleaned_at = self._clock.monotonic()
                self._remove_leftovers()
        if failures:
            raise next(iter(failures.values()))
        return appended

    def close(self) -> None:
        """Close the folder."""
        self._folder.close()

    def problems(self) -> list[str]:
        """The rejected deliveries that are still stored."""
        rejected = self._rejected
        if rejected is None:
            try:
                self._rejected = rejected = dict(rejections.deliveries(self._folder))
            except StrandlineError as error:
                return [f"the inbox cannot be read: {error}"]
        return list(rejected.values())

    def _pending(self) -> list[str]:
        try:
            return [info.key for info in self._folder.list(PENDING)]
        except NotFound:
            return []

    def _process(self, key: str) -> int:
        name = key.rpartition("/")[2]
        try:
            data = self._folder.get(key)
        except NotFound:
            return 0
        topic_name = ""
        try:
            delivery = codec.decode(data, f"{self._folder.name}/{key}")
            topic_name = delivery.topic
            self._check_ours(delivery, name)
            topic = self._topic(delivery.topic, delivery.create)
            if not delivery.is_appended(topic.last_number(delivery.producer)):
                self._check_rows(delivery, topic)
                self._append(delivery, topic)
        except TopicFull:
            raise
        except (Corrupt, Invalid, Conflict) as error:
            self._reject(key, name, topic_name, error)
            return 0
        # The delivery is deleted next: no power loss may undo the append, whether it was done now
        # or in an earlier run that ended here.
        self._sync()
        self._folder.delete([key])
        self._staged.delete([file.key for file in delivery.files])
        return 1

    def _check_ours(self, delivery: TopicDelivery, name: str) -> None:
        if delivery.name() != name:
            raise Invalid(f"the delivery {name} contains the name {delivery.name()}")
        codec.check(delivery)
        if delivery.store_id != self._store_id:
            raise Invalid(
                f"a delivery for store {delivery.store_id[:8]}… is in store "
                f"{self._store_id[:8]}…: deliver it there"
            )

    def _check_rows(self, delivery: TopicDelivery, topic: Topic) -> None:
        """Raise before the append if any row would be rejected."""
        for file in delivery.files:
            rows, chunks = 0, 0
            for chunk in read_chunks(self._staged, file):
                topic.check_arrow(chunk)
                rows, chunks = rows + len(chunk), chunks + 1
            if (rows, chunks) != (file.rows, file.chunks):
                raise Corrupt(
                    f"a staged file has {rows} rows in {chunks} chunks, not {file.rows} in "
                    f"{file.chunks}",
                    path=f"{self._staged.name}/{file.key}",
                )

    def _append(self, delivery: TopicDelivery, topic: Topic) -> None:
        rows = 0
        for index, chunk in enumerate(self._chunks(delivery)):
            head = delivery.head_before(rows)
            topic.append_arrow(chunk, idempotency_key=delivery.chunk(index), expected_head=head)
            rows += len(chunk)

    def _chunks(self, delivery: TopicDelivery) -> Iterator[pa.RecordBatch]:
        for file in delivery.files:
            yield from read_chunks(self._staged, file)

    def _reject(self, key: str, name: str, topic: str, error: StrandlineError) -> None:
        refusal = codec.encode_rejection(name, topic, error, self._clock.now_us())
        self._folder.delete([f"{REFUSED}/{name}"])
        self._folder.put(f"{REFUSED}/{name}", refusal)
        self._folder.delete([key])
        self._rejected = None

    def _remove_leftovers(self) -> None:
        """Delete staged files without a delivery, and old rejections, of views too."""
        horizon_us = self._clock.now_us() - round(LEFTOVER_S * 1e6)
        named = set()
        for key in self._pending():
            named |= {file.key for file in codec.decode(self._folder.get(key), key).files}
        for info in self._folder.list(handoffs.WAITING):
            named |= {file.key for file in handoffs.decode(self._folder.get(info.key), "").files}
        old = [info.key for info in self._staged.list(STAGED) if info.modified_us < horizon_us]
        self._staged.delete([key for key in old if key not in named])
        rejections.delete_old(self._folder, REFUSED, horizon_us)
        rejections.delete_old(self._folder, handoffs.REFUSED, horizon_us)
        self._rejected = None
