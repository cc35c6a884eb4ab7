"""Numbered batches: a producer numbers its batches, and a topic accepts each number once. Pure.

An idempotency key is removed after a while. A producer that may repeat a batch much later, such as
a Spark query with its checkpoint, numbers its batches instead: a topic stores the highest number of
each producer, in its log and its checkpoints, and accepts only higher ones. A batch with another
number was accepted before.

In the log the number is in the place of an idempotency key:

    0   10  "\\0numbered\\0"
    10  8   number, big-endian
    18  ..  name of the producer, UTF-8

A producer without a batch for ``PRODUCER_EXPIRY_US`` is removed once there are many producers.
"""

from __future__ import annotations

from strandline.errors import Invalid, TooLarge
from strandline.records import BatchNumber

PRODUCER_EXPIRY_US = 30 * 86_400_000_000
PRODUCERS_MIN = 1_000
NUMBER_MAX = 2**63 - 1
PRODUCER_SIZE_MAX = 200
_MARK = b"\0numbered\0"
_NAME_AT = len(_MARK) + 8

ProducerEntry = tuple[int, int, int, int]
"""Number, first seq, last seq and time of the newest batch of a producer."""


def encode(numbered: BatchNumber) -> bytes:
    """The number as it is in the log."""
    producer, number = numbered.producer, numbered.number
    if not isinstance(producer, str) or not isinstance(number, int) or isinstance(number, bool):
        raise Invalid("a producer is text, and its number a whole number")
    if not 0 <= number <= NUMBER_MAX:
        raise Invalid(f"a producer's number is 0 to {NUMBER_MAX}, not {number}")
    try:
        name = producer.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"the producer is not valid Unicode: {error}") from error
    if not 0 < len(name) <= PRODUCER_SIZE_MAX:
        raise TooLarge(f"the name of a producer has 1 to {PRODUCER_SIZE_MAX} bytes")
    return _MARK + number.to_bytes(8, "big") + name


def decode(key: bytes) -> tuple[bytes, int] | None:
    """Producer and number; None when the key is an ordinary one."""
    if not is_mark(key):
        return None
    return key[_NAME_AT:], int.from_bytes(key[len(_MARK) : _NAME_AT], "big")


def is_mark(key: bytes) -> bool:
    return key.startswith(_MARK)


def remember(known: dict[bytes, ProducerEntry], producer: bytes, newest: ProducerEntry) -> None:
    """Store the newest batch of a producer, and remove a producer without recent batches."""
    known.pop(producer, None)
    known[producer] = newest
    if len(known) > PRODUCERS_MIN:
        oldest = next(iter(known))
        if known[oldest][3] < newest[3] - PRODUCER_EXPIRY_US:
            del known[oldest]
