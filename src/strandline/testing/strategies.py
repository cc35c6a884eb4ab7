"""Hypothesis strategies for the input of a topic, and for the content of a damaged disk.

Few distinct tags, nodes and keys, so that deletes, filters and repeated keys interact. Payloads are
often zeros, because the log has to distinguish a sector of zeros from a torn write.
"""

from __future__ import annotations

from hypothesis import strategies as st

from strandline.config.settings import TopicConfig
from strandline.records import BatchNumber
from strandline.testing.model import RecordValues

TAGS = ("", "eu", "eu-1", "eu-2", "us", "ü", "*")
NODES = ("", "n1", "n2")
MATCHES = ("eu", "eu*", "eu-1", "u*", "ü", "*", "nothing")


def payloads(size_max: int = 64) -> st.SearchStrategy[bytes]:
    """The data of a record: often empty, often zeros, sometimes a few sectors long."""
    zeros = st.integers(0, 4 * size_max).map(bytes)
    return st.one_of(st.binary(max_size=size_max), zeros)


def values(size_max: int = 64) -> st.SearchStrategy[RecordValues]:
    """One record with any of its fields absent, empty or filled."""
    small = st.binary(max_size=size_max)
    return st.builds(
        RecordValues,
        data=payloads(size_max),
        key=st.none() | small,
        tag=st.none() | st.sampled_from(TAGS),
        node=st.none() | st.sampled_from(NODES),
        meta=st.none() | small,
    )


def batches(
    size_max: int = 64, *, count_max: int = 20, count_min: int = 1
) -> st.SearchStrategy[list[RecordValues]]:
    """Records for one append."""
    return st.lists(values(size_max), min_size=count_min, max_size=count_max)


def idempotency_keys() -> st.SearchStrategy[bytes]:
    """Few keys, so that they repeat."""
    return st.sampled_from((b"k1", b"k2", b"\0" * 256))


def numbers() -> st.SearchStrategy[BatchNumber]:
    """Few producers with low numbers, so that they repeat and come out of order."""
    return st.builds(BatchNumber, st.sampled_from(("p", "q")), st.integers(0, 6))


def limits() -> st.SearchStrategy[dict[str, object]]:
    """Topic options that remove or reject records; 0 means no limit."""
    return st.fixed_dictionaries(
        {},
        optional={
            "cap_records": st.sampled_from((0, 1, 3, 10, 30)),
            "cap_bytes": st.sampled_from((0, 1, 100, 1000, 4000)),
            "ttl_ms": st.sampled_from((0, 1, 1000, 60_000)),
            "discard": st.sampled_from(("old", "reject")),
            "idempotency_window_ms": st.sampled_from((0, 1000, 120_000)),
            "dedupe_node": st.booleans(),
        },
    )


def configs() -> st.SearchStrategy[TopicConfig]:
    """Any configuration of a topic."""
    any_size = st.integers(0, 2**40)
    return st.builds(
        TopicConfig,
        durability=st.sampled_from(("ephemeral", "memory", "disk", "fsync")),
        ttl_ms=any_size,
        cap_records=any_size,
        cap_bytes=any_size,
        discard=st.sampled_from(("old", "reject")),
        idempotency_window_ms=any_size,
        dedupe_node=st.booleans(),
        schema=st.dictionaries(st.sampled_from(("price", "note")), st.just("string | null")),
        schema_version=any_size,
    )


@st.composite
def garbled(draw: st.DrawFn, whole: bytes) -> bytes:
    """Damaged bytes: truncated, with flipped bits, or with bytes appended."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(0, 3))):
        bit = draw(st.integers(0, max(0, len(data) * 8 - 1)))
        if data:
            data[bit // 8] ^= 1 << bit % 8
    size = draw(st.integers(0, len(data)) | st.just(len(data)))
    return bytes(data[:size]) + draw(st.binary(max_size=16))
