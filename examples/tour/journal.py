"""The journal of acknowledgements of the process that is killed.

Each ack is one message of 32 bytes on a pipe, written after the append returned and before the next
one starts. A write of this size is atomic, and data in a pipe outlives its writer.

    0   1   number of the topic in ``TOPICS``
    1   7   zero
    8   8   first seq
    16  8   last seq
    24  8   xxh3-64 of the concatenated payloads
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


def write_ack(descriptor: int, ack: Ack) -> None:
    """Write one ack to the pipe."""
    number = TOPICS.index(ack.topic)
    os.write(descriptor, _ACK.pack(number, ack.first_seq, ack.last_seq, ack.digest))


class Journal:
    """The acks that were read so far. Owned by one thread."""

    def __init__(self) -> None:
        self.acks: dict[str, list[Ack]] = {}
        self.records = 0
        self._rest = b""

    def add(self, chunk: bytes) -> None:
        """Add bytes of the pipe; a partial message waits for its rest."""
        chunk = self._rest + chunk
        complete = len(chunk) - len(chunk) % _ACK.size
        self._rest = chunk[complete:]
        for number, first_seq, last_seq, data_digest in _ACK.iter_unpack(chunk[:complete]):
            ack = Ack(TOPICS[number], first_seq, last_seq, data_digest)
            self.acks.setdefault(ack.topic, []).append(ack)
            self.records += ack.records
