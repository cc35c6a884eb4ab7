"""Clients that append to and read from one store at once and write down what they were told.

A payload says its own number, and its size and bytes follow from the number: a reader can tell a
torn or mixed-up record from the right one without asking anybody.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Callable

import pyarrow as pa

import strandline
from strandline.testing.history import ReadCall, WriteCall

NUMBER_SIZE = 8
PAGE_RECORDS = 500


class Log:
    """Everything that was asked and answered. Lists only grow, so every thread may add."""

    def __init__(self) -> None:
        self.writes: list[WriteCall] = []
        self.reads: list[ReadCall] = []
        self.failures: list[BaseException] = []
        self._numbers = itertools.count(1)

    @property
    def calls(self) -> int:
        return len(self.writes) + len(self.reads)

    def numbers(self, count: int) -> tuple[int, ...]:
        return tuple(itertools.islice(self._numbers, count))

    def wrote(self, topic: strandline.Topic, invoked: int, first_seq: int, *numbers: int) -> None:
        self.writes.append(
            WriteCall(
                topic=topic.name,
                invoked=invoked,
                acked=time.monotonic_ns(),
                first_seq=first_seq,
                payloads=numbers,
            )
        )


def payload(number: int) -> bytes:
    """Mostly small; now and then beyond a sector, beyond a page, beyond what the mapping takes."""
    size = number % 97
    if number % 31 == 0:
        size = number % 3000
    if number % 4999 == 0:
        size = 40_000
    return number.to_bytes(NUMBER_SIZE, "little") + bytes([number % 256]) * size


def number_of(data: bytes) -> int:
    number = int.from_bytes(data[:NUMBER_SIZE], "little")
    assert data == payload(number), f"a payload that was never written: {data[:40]!r}"
    return number


def write_some(log: Log, topics: list[strandline.Topic], calls: int, seed: int) -> None:
    """Append in every form there is, and read a part of it back at once."""
    rng = random.Random(seed)
    for _ in range(calls):
        topic = rng.choice(topics)
        form = rng.random()
        numbers = log.numbers(1 if form < 0.9 else rng.randrange(1, 20))
        data = [payload(number) for number in numbers]
        invoked = time.monotonic_ns()
        if form < 0.8:
            appended = topic.append(data[0])
        elif form < 0.85:
            appended = topic.append(data[0], key=b"k", tag="eu", meta=b"m")
        elif form < 0.9:
            appended = topic.append_nowait(data[0]).wait()
        elif form < 0.95:
            appended = topic.append_many(data, tags=["eu"] * len(data))
        else:
            appended = topic.append_arrow(pa.record_batch({"data": pa.array(data, pa.binary())}))
        log.wrote(topic, invoked, appended.first_seq, *numbers)
        if form < 0.2:
            read_page(log, topic, appended.first_seq - 1, limit=1)


async def write_as_tasks(log: Log, topics: list[strandline.Topic], tasks: int, calls: int) -> None:
    """Append from many coroutines of one loop."""

    async def client(topic: strandline.Topic) -> None:
        for _ in range(calls):
            numbers = log.numbers(1)
            invoked = time.monotonic_ns()
            appended = await topic.append_nowait(payload(numbers[0])).durable()
            log.wrote(topic, invoked, appended.first_seq, *numbers)

    await asyncio.gather(*(client(topics[place % len(topics)]) for place in range(tasks)))


def follow(log: Log, topic: strandline.Topic, writers_done: threading.Event) -> None:
    """Read from the beginning and then live, page by page, until all is written and read."""
    after = 0
    while True:
        done = writers_done.is_set()
        page = read_page(log, topic, after, limit=PAGE_RECORDS)
        assert page.next >= after
        assert page.next > after or page.caught_up, f"{topic.name} is stuck at {after}"
        after = page.next
        if page.caught_up and done:
            return
        if page.caught_up:
            topic.wait_for(after, timeout_s=0.05)


def read_page(log: Log, topic: strandline.Topic, after: int, *, limit: int) -> strandline.Page:
    invoked = time.monotonic_ns()
    page = topic.read(after, limit)
    returned = time.monotonic_ns()
    log.reads.append(
        ReadCall(
            topic=topic.name,
            invoked=invoked,
            returned=returned,
            after=after,
            head=page.head_seq,
            seqs=[record.seq for record in page.records],
            payloads=[number_of(record.data) for record in page.records],
        )
    )
    assert page.tombstone is None
    return page


def start(log: Log, call: Callable[..., object], *args: object) -> threading.Thread:
    """A thread whose failure is not lost."""

    def body() -> None:
        try:
            call(*args)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            log.failures.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    return thread
