"""The journal of acknowledgements: what the writing process was promised, told before it dies.

Each ack is one message of 32 bytes on a pipe, written after the append returned and before the next
one begins. A write so small is whole or not at all, and what is in a pipe outlives its writer.

    0   1   number of the topic in ``TOPICS``
    1   7   zero
    8   8   first seq
    16  8   last seq
    24  8   xxh3-64 of the payloads, one behind the other
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence

import msgspec
from xxhash import xxh3_64_intdigest

TOPICS = ("payments", "clicks", "readings")
DURABILITY = {"payments": "fsync", "clicks": "disk", "readings": "disk"}
_ACK = struct.Struct("<B7xQQQ")


class Ack(msgspec.Struct, frozen=True):
    """Records of one append that were acknowledged."""

    topic: str
    first_seq: int
    last_seq: int
    digest: int

    @property
    def records(self) -> int:
        return self.last_seq - self.first_seq + 1


def digest(payloads: Sequence[bytes]) -> int:
    return xxh3_64_intdigest(b"".join(payloads))


def tell(descriptor: int, ack: Ack) -> None:
    """Write one ack to the pipe."""
    number = TOPICS.index(ack.topic)
    os.write(descriptor, _ACK.pack(number, ack.first_seq, ack.last_seq, ack.digest))


class Journal:
    """What has been told so far. Owned by one thread."""

    def __init__(self) -> None:
        self.acks: dict[str, list[Ack]] = {}
        self.records = 0
        self._rest = b""

    def add(self, chunk: bytes) -> None:
        """Take in what came from the pipe; a piece of a message waits for the rest of it."""
        chunk = self._rest + chunk
        whole = len(chunk) - len(chunk) % _ACK.size
        self._rest = chunk[whole:]
        for number, first_seq, last_seq, told in _ACK.iter_unpack(chunk[:whole]):
            ack = Ack(TOPICS[number], first_seq, last_seq, told)
            self.acks.setdefault(ack.topic, []).append(ack)
            self.records += ack.records
