"""Whatever is done to a topic, reading it over HTTP equals reading it in the open store.

Random appends, deletes, caps, times and cursors; then the same page is asked for both ways.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strandline.api.records import as_json, from_base64, to_base64
from strandline.log.read.page import Page
from tests.server.running import running
from tests.server.topics_face import Face

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
TAGS = st.sampled_from([None, "a", "ab", "b", "é"])
NODES = st.sampled_from([None, "n", "m"])
DATA = st.one_of(
    st.fixed_dictionaries({"data": JSON_VALUES}),
    st.fixed_dictionaries({"data_base64": st.binary(max_size=8).map(to_base64)}),
)
RECORDS = st.builds(
    lambda data, **fields: (
        data | {name: value for name, value in fields.items() if value is not None}
    ),
    DATA,
    tag=TAGS,
    node=NODES,
    key=st.sampled_from([None, "k"]),
    meta=st.sampled_from([None, {}, {"a": [1]}]),
)
STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(RECORDS, min_size=1, max_size=6)),
    st.tuples(st.just("before"), st.integers(1, 30)),
    st.tuples(st.just("match"), st.sampled_from([["tag", "Eq", "a"], ["tag", "Glob", "a*"], "b"])),
    st.tuples(st.just("cap"), st.integers(0, 12)),
    st.tuples(st.just("checkpoint"), st.none()),
)
READS = st.fixed_dictionaries(
    {
        "from_seq": st.integers(0, 40),
        "limit": st.integers(1, 12),
        "max_batch_bytes": st.sampled_from([1, 20, 1 << 20]),
        "node": st.sampled_from([None, "n"]),
    }
)


@pytest.fixture(scope="module")
def face() -> Iterator[Face]:
    with (
        tempfile.TemporaryDirectory() as path,
        running(path) as server,
        Face(server) as made,
    ):
        yield made


@given(steps=st.lists(STEPS, max_size=8), reads=st.lists(READS, min_size=1, max_size=4))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_a_diff_over_http_equals_a_read_of_the_store(face, steps, reads):
    face.good("DELETE", "/v0/topics/t")
    face.put("t")
    for kind, what in steps:
        _step(face, kind, what)

    for read in reads:
        told = face.diff("t", include_tags=True, include_micros=True, **read)
        topic = face.server.store.topic("t")
        page = topic.read(
            read["from_seq"], read["limit"], node=read["node"], size_max=read["max_batch_bytes"]
        )
        _compare(told, page, topic.statistics().earliest_seq)


@given(steps=st.lists(STEPS, max_size=8), limit=st.integers(1, 7))
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_following_the_cursor_over_http_meets_every_live_record_once(face, steps, limit):
    face.good("DELETE", "/v0/topics/t")
    face.put("t")
    for kind, what in steps:
        _step(face, kind, what)

    met, cursor = [], 0
    while True:
        page = face.diff("t", from_seq=cursor, limit=limit)
        met += [record["$seq"] for record in page["records"]]
        assert page["next_from_seq"] >= cursor
        cursor = page["next_from_seq"]
        if page["caught_up"]:
            break

    assert met == [record.seq for record in face.server.store.topic("t").read(0, 1000).records]
    assert len(met) == face.state("t")["count"]


def _step(face: Face, kind: str, what: Any) -> None:
    if kind == "append":
        face.append("t", *what)
    elif kind == "before":
        face.delete("t", before_seq=what)
    elif kind == "match":
        face.delete("t", match=what)
    elif kind == "cap":
        face.put("t", cap_records=what)
    else:
        face.server.store.checkpoint()


def _compare(told: dict[str, Any], page: Page, earliest_seq: int) -> None:
    assert (told["next_from_seq"], told["head_seq"]) == (page.next, page.head_seq)
    assert (told["caught_up"], told["earliest_seq"]) == (page.caught_up, earliest_seq)
    assert told["lag"] == page.head_seq - page.next
    gap = page.tombstone
    assert (told["tombstone"] is None) == (gap is None)
    if gap is not None:
        found = told["tombstone"]
        assert (found["gap_from"], found["gap_to"], found["reason"]) == (
            gap.gap_from,
            gap.gap_to,
            gap.reason,
        )
    assert len(told["records"]) == len(page.records)
    for seen, record in zip(told["records"], page.records, strict=True):
        assert (seen["$seq"], seen["$us"]) == (record.seq, record.ts)
        assert (seen.get("$tag"), seen.get("$node")) == (record.tag, record.node)
        assert seen.get("$key", "").encode() == (record.key or b"")
        assert ("meta" in seen) == (record.meta is not None)
        if "data" in seen:
            assert as_json(record.data) is not None
            assert msgspec.json.decode(record.data) == seen["data"]
        else:
            assert from_base64(seen["data_base64"], "data") == record.data
