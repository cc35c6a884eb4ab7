"""Appends what others have delivered, each delivery exactly once: the inbox job of the writer.

    1 read a delivery; when the topic has taken its number before, go to 4
    2 check every staged file: its bytes, and that the topic would take its rows
    3 append the chunks one by one, numbered, and sync
    4 forget the delivery, then its staged files

A crash anywhere repeats the delivery, and the topic refuses the numbers that it has. What fails in
2 cannot be helped by waiting: the delivery is moved to ``refused`` with the reason, nothing of it
is appended, and its files are kept for a while. What may pass (a full topic or disk, an object
store that does not answer) leaves the delivery where it is; the others are not held up.

Deliveries of one producer are taken in the order of their numbers, and wait for one another. A
producer delivers the next only when the last is there: a number that comes late is taken for one
that has been taken.
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
from strandline.ingest import delivery_codec as letters
from strandline.ingest import rejected as refused_ones
from strandline.ingest import view_handoff_codec as handovers
from strandline.ingest.delivery_codec import PENDING, REFUSED, STAGED, Delivery
from strandline.ingest.staged_files import read_chunks
from strandline.log.topic.topic import Topic
from strandline.platform.clock import Clock
from strandline.platform.objectstore.protocol import Objects

LEFTOVER_S = 7 * 86_400.0
"""Staged files that no delivery names stay so long: the longest that a write may take."""

_LOOK_S = 3_600.0  # between two looks for leftovers


class Inbox:
    """The taking side of deliveries. Safe from many threads; one turn at a time."""

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
        """``topic`` finds a topic by name, and makes it when told to."""
        self._folder = folder
        self._staged = staged
        self._clock = clock
        self._store_id = store_id
        self._topic = topic
        self._sync = sync
        self._turn = threading.Lock()
        self._looked = clock.monotonic()
        self._refused: dict[str, str] | None = None

    def run_once(self) -> int:
        """Append everything that is delivered; how many deliveries were taken."""
        taken, failures = 0, dict[str, Exception]()
        with self._turn:
            for key in self._pending():
                series = key.rpartition("-")[0]
                if series in failures:
                    continue
                try:
                    taken += self._take(key)
                except (OSError, StrandlineError) as error:
                    failures[series] = error
            if self._clock.monotonic() - self._looked > _LOOK_S:
                self._looked = self._clock.monotonic()
                self._remove_leftovers()
        if failures:
            raise next(iter(failures.values()))
        return taken

    def close(self) -> None:
        """Let go of the folder."""
        self._folder.close()

    def complaints(self) -> list[str]:
        """What was refused and is still lying there."""
        refused = self._refused
        if refused is None:
            try:
                self._refused = refused = dict(refused_ones.deliveries(self._folder))
            except StrandlineError as error:
                return [f"the inbox cannot be read: {error}"]
        return list(refused.values())

    def _pending(self) -> list[str]:
        try:
            return [info.key for info in self._folder.list(PENDING)]
        except NotFound:
            return []

    def _take(self, key: str) -> int:
        name = key.rpartition("/")[2]
        try:
            data = self._folder.get(key)
        except NotFound:
            return 0
        topic_name = ""
        try:
            delivery = letters.decode(data, f"{self._folder.name}/{key}")
            topic_name = delivery.topic
            self._check_ours(delivery, name)
            topic = self._topic(delivery.topic, delivery.create)
            if not delivery.is_taken(topic.taken(delivery.producer)):
                self._check_rows(delivery, topic)
                self._append(delivery, topic)
        except TopicFull:
            raise
        except (Corrupt, Invalid, Conflict) as error:
            self._refuse(key, name, topic_name, error)
            return 0
        # The delivery is forgotten next: no power loss may take back what was appended, be it now
        # or in an earlier turn that ended here.
        self._sync()
        self._folder.delete([key])
        self._staged.delete([file.key for file in delivery.files])
        return 1

    def _check_ours(self, delivery: Delivery, name: str) -> None:
        if delivery.name() != name:
            raise Invalid(f"the delivery {name} calls itself {delivery.name()}")
        letters.check(delivery)
        if delivery.store_id != self._store_id:
            raise Invalid(
                f"a delivery for store {delivery.store_id[:8]}… lies in store "
                f"{self._store_id[:8]}…: deliver it there"
            )

    def _check_rows(self, delivery: Delivery, topic: Topic) -> None:
        """Raise before anything is appended if anything could not be."""
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

    def _append(self, delivery: Delivery, topic: Topic) -> None:
        rows = 0
        for place, chunk in enumerate(self._chunks(delivery)):
            head = delivery.head_before(rows)
            topic.append_arrow(chunk, idempotency_key=delivery.chunk(place), expected_head=head)
            rows += len(chunk)

    def _chunks(self, delivery: Delivery) -> Iterator[pa.RecordBatch]:
        for file in delivery.files:
            yield from read_chunks(self._staged, file)

    def _refuse(self, key: str, name: str, topic: str, error: StrandlineError) -> None:
        refusal = letters.refusal(name, topic, error, self._clock.now_us())
        self._folder.delete([f"{REFUSED}/{name}"])
        self._folder.put(f"{REFUSED}/{name}", refusal)
        self._folder.delete([key])
        self._refused = None

    def _remove_leftovers(self) -> None:
        """Remove staged files that nobody names, and old refusals, of views too."""
        due_us = self._clock.now_us() - round(LEFTOVER_S * 1e6)
        named = set()
        for key in self._pending():
            named |= {file.key for file in letters.decode(self._folder.get(key), key).files}
        for info in self._folder.list(handovers.WAITING):
            named |= {file.key for file in handovers.decode(self._folder.get(info.key), "").files}
        old = [info.key for info in self._staged.list(STAGED) if info.modified_us < due_us]
        self._staged.delete([key for key in old if key not in named])
        refused_ones.sweep(self._folder, REFUSED, due_us)
        refused_ones.sweep(self._folder, handovers.REFUSED, due_us)
        self._refused = None
