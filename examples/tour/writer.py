"""The process that is killed: several threads append and journal each ack, without end.

    python -m examples.tour.writer STORE DESCRIPTOR

Two threads append single records to an ``fsync`` topic, two to a ``disk`` topic, and one appends
batches to another. It ends by itself only when the reader of the journal closes the pipe.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable

from examples.tour import journal
from examples.tour.journal import Ack
from strandline.log.topic.topic import Topic
from strandline.platform import process
from strandline.records import AppendResult
from strandline.store import Store

BATCH = 250


def main(path: str, descriptor: int) -> None:
    process.tune_for_throughput()
    with Store(path) as store:
        payments, clicks, readings = (
            store.topic(name, durability=journal.DURABILITY[name]) for name in journal.TOPICS
        )
        appends = [_single(payments, 1), _single(payments, 2), _single(clicks, 3)]
        appends += [_single(clicks, 4), _batch(readings, 5)]
        threads = [threading.Thread(target=_write, args=(append, descriptor)) for append in appends]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


_Append = Callable[[int], tuple[str, list[bytes], AppendResult]]


def _single(topic: Topic, thread: int) -> _Append:
    def append(count: int) -> tuple[str, list[bytes], AppendResult]:
        data = _payload(topic.name, thread, count)
        return topic.name, [data], topic.append(data)

    return append


def _batch(topic: Topic, thread: int) -> _Append:
    def append(count: int) -> tuple[str, list[bytes], AppendResult]:
        first = count * BATCH
        batch = [_payload(topic.name, thread, first + index) for index in range(BATCH)]
        return topic.name, batch, topic.append_many(batch)

    return append


def _payload(topic: str, thread: int, count: int) -> bytes:
    return f"{topic} {count} of thread {thread} ".encode().ljust(100, b".")


def _write(append: _Append, descriptor: int) -> None:
    try:
        for count in itertools.count():
            topic, data, appended = append(count)
            ack = Ack(topic, appended.first_seq, appended.last_seq, journal.digest(data))
            journal.write_ack(descriptor, ack)
    except BrokenPipeError:
        return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
