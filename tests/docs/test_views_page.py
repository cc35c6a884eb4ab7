"""Promise: what docs/format/views.md says of marks, kinds and blocks is what views write."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import pytest

from strandline.views.groups.offset_store import PREFIX
from strandline.views.groups.offsets import Offsets, OffsetsEntry, encode
from strandline.views.kv.meta_codec import MARK, DeletedMeta, ExpiryMeta, ForgottenMeta
from strandline.views.queue import codec
from strandline.views.queue.codec import (
    LeaseRecord,
    StoredJobOptions,
    encode_job,
    encode_lease_record,
)
from strandline.views.queue.job import lease_epoch_of
from strandline.views.series import meta
from strandline.views.series.block import ALL, SeriesPoints, pack, squeeze, unpack
from strandline.views.view import MARKS
from tests.docs.format_page import worked_example
from tests.house.tree import read_document
from tests.unit.store.world import World

PAGE = "docs/format/views.md"
POINTS = SeriesPoints([1000, 1010, 1025], [7, 9, 8], [0, 0, 1], [b"ab", None, b"c"])


def test_the_example_is_what_a_series_writes_and_reads():
    example = worked_example(PAGE)

    assert squeeze(pack(*POINTS)) == example
    assert unpack(example, ALL) == POINTS


@pytest.mark.parametrize("view", ["kv", "queue", "series", "metrics"])
def test_the_marks_are_those_of_the_views(view):
    (told,) = re.findall(rf"^\| {view} \| `([0-9a-f ]+)` \|", read_document(PAGE), re.MULTILINE)

    assert bytes.fromhex(told) == MARKS[view]


def test_the_words_about_leases_have_the_kinds_that_are_told():
    rows = re.findall(
        r"^\| ([1-7])(?:, ([1-7]))? \| ([a-z]+)(?:, ([a-z]+))? \|", read_document(PAGE), re.M
    )
    told = {
        name: int(kind) for row in rows for kind, name in zip(row[:2], row[2:], strict=True) if kind
    }

    assert told == {
        name: getattr(codec, name.upper())
        for name in ("claim", "extend", "nack", "end", "bury", "pause", "survey")
    }
    assert encode_lease_record(LeaseRecord(codec.NACK, np.array([7]), 5)) == b"\0ls\x03" + _numbers(
        5, 7
    )


def test_the_meta_of_a_job_is_as_told():
    job = StoredJobOptions(
        priority=3, not_before=5, expires=6, unique=True, group=b"g", returned=(8, 9)
    )

    assert encode_job(job) == b"\0job" + bytes((15, 3)) + _numbers(5, 6, 8, 9) + b"g"


def test_the_meta_of_a_point_is_as_told():
    assert meta.encode(1, 2, -3) == MARKS["series"] + b"\1" + b"\2\0" + (-3).to_bytes(
        8, "little", signed=True
    )


def test_the_metas_of_a_map_are_as_told():
    told = [
        msgspec.msgpack.decode(msgspec.msgpack.encode(each))
        for each in (ExpiryMeta(5), DeletedMeta(True), ForgottenMeta(7))
    ]

    assert told == [["p", 5], ["d", True], ["f", 7]]
    assert MARKS["kv"] == MARK


def test_the_keys_of_groups_begin_as_told():
    assert f"`{PREFIX}`" in read_document(PAGE)


def test_the_offsets_of_a_group_are_an_array_as_told():
    stored = encode(OffsetsEntry(3, 4, Offsets(5, lost=6, deleted=7)))

    assert msgspec.msgpack.decode(stored) == [1, 3, 4, 5, b"", {}, 6, 7, 0]


def test_what_is_added_to_a_lease_is_as_told():
    topic = World().store.topic("leases")
    topic_id, began_us = topic.identity

    assert lease_epoch_of(topic) == (began_us << 32 | topic_id) << 64


def _numbers(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in values)
