"""Promise: events are taken whole and once, however their bytes were cut on the way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.client.sse import SseEvent, SseParser, decode_records

STREAM = (
    b"retry: 2000\nid: begin\n\n"
    b'event: record\ndata: {"a":1}\nid: one\n\n'
    b": hb 17\n\n"
    b'event: record\ndata: {"a":\ndata: 2}\nid: two\n\n'
    b'event: error\ndata: {"code":"x"}\n\n'
)
EVENTS = [
    SseEvent("", id="begin"),
    SseEvent("record", b'{"a":1}', "one"),
    SseEvent(":"),
    SseEvent("record", b'{"a":\n2}', "two", is_exact=False),
    SseEvent("error", b'{"code":"x"}'),
]
RECORDS = (
    b'{"topic":"t","records":[{"$seq":4,"$ts":1,"data":"four"},{"$seq":5,"$ts":1,"data":"five"}],'
    b'"from_seq":3,"to_seq":5,"head_seq":9}'
)


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=20).map(sorted))
def test_events_are_the_same_wherever_their_bytes_are_cut(cuts):
    events = SseParser()
    ends = [*cuts, len(STREAM)]

    pieces = [STREAM[first:end] for first, end in zip([0, *cuts], ends, strict=True)]
    found = [event for piece in pieces for event in events.feed(piece)]

    assert found == EVENTS


def test_an_event_without_its_end_is_not_told():
    assert SseParser().feed(b'event: record\ndata: {"a":1}\nid: one\n') == []


def test_records_that_the_reader_has_are_left_out():
    told = decode_records(SseEvent("record", RECORDS))

    assert [record.seq for record in told.records_after(3)] == [4, 5]
    assert [record.seq for record in told.records_after(4)] == [5]
    assert told.records_after(5) == []
