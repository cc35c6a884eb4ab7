"""Delivery <-> bytes: staged files to append to one topic, as one numbered batch. Pure.

A store has one writer, and a Spark task is another process. So tasks write their rows to files in
the lake's object store (``staged_files.py``), which are not visible, and then one small object is
created in the folder ``incoming`` of the store: the delivery. This is the commit. The process that
has the store open for writing appends the delivery (``delivery_job.py``), exactly once.

    <store>/incoming/pending/<topic and producer, hash>-<number, 20 digits>.json    delivered
    <store>/incoming/refused/<the same name>                            rejected
    <lake>/incoming/<producer, hash>-<number>-<attempt>-<part>.arrow    staged rows

Of two attempts to deliver one number the first succeeds; the name is created once. After the append
the name is free again, but its number is not: the topic stores it (``log/state/producer_seq.py``).

A large batch is appended as several blocks of the log. A block is a chunk of a staged file, with
the number ``number << CHUNK_BITS | index``, so that a retry after a crash skips the appended ones.
The last chunk has the highest index: a topic that has it has all of them, even if another attempt
of the same number has other chunks.

A delivery may name the head on which it is to be appended (format 2): if the topic has newer
records, it is rejected with Conflict. Its chunks are appended one after the other, so a topic with
a foreign append between them has its first chunks, and never the last.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from xxhash import xxh3_64_hexdigest

from strandline.errors import (
    Corrupt,
    Invalid,
    NotFound,
    StrandlineError,
    TooLarge,
    UnsupportedFormat,
)
from strandline.log.state import producer_seq
from strandline.platform.objectstore.protocol import Objects
from strandline.records import BatchNumber

FORMAT = 2
"""The newest: a delivery that names a head. Others have the first, which every version reads."""
FORMAT_ANYWHERE = 1
CHUNK_BITS = 24
NUMBER_MAX = 2 ** (62 - CHUNK_BITS)
_LAST_INDEX = 2**CHUNK_BITS - 1
PENDING = "pending"
REFUSED = "refused"
STAGED = "incoming"


class StagedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of rows: an Arrow stream in the lake's object store."""

    key: str
    rows: int
    chunks: int
    """Number of record batches, each of which becomes a block of the log."""
    size: int
    checksum: str
    """xxh3-128 of its bytes, in hex."""


class TopicDelivery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a delivery: one line of JSON."""

    format: int = FORMAT_ANYWHERE
    store_id: str
    topic: str
    create: bool = False
    """Whether a missing topic is created."""
    producer: str
    number: int
    attempt: str
    """A random id: no two attempts have the same content."""
    made_us: int
    files: tuple[StagedFile, ...]
    expected_head: int | msgspec.UnsetType = msgspec.UNSET
    """The head of the topic that it must follow; unset: any."""
    checksum: str = ""
    """xxh3-64 of the line in which this is empty."""

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def chunks(self) -> int:
        return sum(file.chunks for file in self.files)

    def name(self) -> str:
        return name_of(self.topic, self.producer, self.number)

    def chunk(self, index: int) -> BatchNumber:
        """The producer number of the block for a chunk."""
        if index == self.chunks - 1:
            index = _LAST_INDEX
        return BatchNumber(self.producer, self.number << CHUNK_BITS | index)

    def head_before(self, rows: int) -> int | None:
        """The expected head for the chunk after so many rows, None for any."""
        head = self.expected_head
        return None if isinstance(head, msgspec.UnsetType) else head + rows

    def is_appended(self, newest: int | None) -> bool:
        """Whether a topic with this newest number of the producer has the whole delivery."""
        return newest is not None and newest >= self.number << CHUNK_BITS | _LAST_INDEX


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a delivery was rejected."""

    delivery: str
    """Name of the delivery."""
    topic: str
    error: str
    """The code of the error."""
    reason: str
    at_us: int


def name_of(topic: str, producer: str, number: int) -> str:
    return f"{_hash(f'{topic} {producer}')}-{number:020d}.json"


def staged_key(producer: str, number: int, attempt: str, part: int) -> str:
    """Key of a task's staged rows. The attempt is random, so the key is unique; the owner of the
    attempt numbers the parts."""
    return f"{STAGED}/{_hash(producer)}-{number:020d}-{attempt}-{part:05d}.arrow"


def last_complete(newest: int) -> int:
    """The highest number of which a topic has every chunk, from its newest producer number."""
    return (newest + 1 >> CHUNK_BITS) - 1


def check(delivery: TopicDelivery) -> None:
    """Raise when no topic could accept the delivery, whatever its rows are."""
    if not 0 <= delivery.number < NUMBER_MAX:
        raise Invalid(f"the number of a delivery is 0 to {NUMBER_MAX - 1}, not {delivery.number}")
    if delivery.chunks > _LAST_INDEX:
        raise TooLarge(f"a delivery of {delivery.chunks} chunks: write it as several")
    producer_seq.encode(delivery.chunk(0))


def encode(delivery: TopicDelivery) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(delivery, checksum=_checksum(delivery)))


def decode(data: bytes, path: str) -> TopicDelivery:
    """Decode a delivery; Corrupt when it is not as it was written."""
    try:
        delivery = msgspec.json.decode(data, type=TopicDelivery)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        if _newer(data):
            raise UnsupportedFormat(
                f"{path} was delivered by a newer Strandline: upgrade"
            ) from error
        raise Corrupt(f"a delivery cannot be read ({error})", path=path) from error
    if delivery.checksum != _checksum(delivery) or msgspec.json.encode(delivery) != data:
        raise Corrupt("a delivery fails its checksum", path=path)
    if delivery.format > FORMAT:
        raise UnsupportedFormat(f"{path} was delivered by a newer Strandline: upgrade")
    return delivery


def check_pending(objects: Objects) -> Iterator[Corrupt]:
    """Errors of the deliveries that wait for the writer."""
    for info in list(objects.list(PENDING)):
        path = f"{objects.name}/{info.key}"
        try:
            decode(objects.get(info.key), path)
        except Corrupt as error:
            yield error
        except (NotFound, UnsupportedFormat):
            continue  # it was appended meanwhile, or waits for a newer version


def encode_rejection(name: str, topic: str, error: StrandlineError, at_us: int) -> bytes:
    content = Rejection(
        delivery=name, topic=topic, error=error.code, reason=str(error), at_us=at_us
    )
    return msgspec.json.encode(content)


def decode_rejection(data: bytes, path: str) -> Rejection:
    try:
        return msgspec.json.decode(data, type=Rejection)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(f"a refusal cannot be read ({error})", path=path) from error


class _Version(msgspec.Struct):
    format: int


def _newer(data: bytes) -> bool:
    try:
        return msgspec.json.decode(data, type=_Version).format > FORMAT
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False


def _hash(producer: str) -> str:
    return xxh3_64_hexdigest(producer.encode())


def _checksum(delivery: TopicDelivery) -> str:
    return xxh3_64_hexdigest(msgspec.json.encode(msgspec.structs.replace(delivery, checksum="")))
