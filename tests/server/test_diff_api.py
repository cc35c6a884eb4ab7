"""Reads over HTTP: what ``diff`` says about cursors, gaps, deletes, nodes and waiting."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pytest

from strandline.testing.sim_clock import SimClock
from tests.server.running import running
from tests.server.topics_face import Face, seqs, values

ARROW = "application/vnd.apache.arrow.stream"
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def face(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Face]:
    with running(tmp_path_factory.mktemp("diffs")) as server, Face(server) as made:
        yield made


def test_a_cursor_is_the_seq_before_the_first_record(face):
    face.append("cursor", "a", "b", "c")

    page = face.diff("cursor", from_seq=1)

    assert (seqs(page), page["next_from_seq"]) == ([2, 3], 3)
    assert (page["head_seq"], page["earliest_seq"], page["lag"]) == (3, 1, 0)
    assert (page["caught_up"], page["tombstone"]) == (True, None)
    assert page["topic"] == "cursor"
    assert page["performance"]["records_scanned"] == 2


def test_an_empty_topic_is_caught_up_at_once(face):
    face.put("empty")

    page = face.diff("empty")

    assert (page["records"], page["next_from_seq"], page["head_seq"]) == ([], 0, 0)
    assert (page["earliest_seq"], page["caught_up"], page["lag"]) == (1, True, 0)


def test_a_limit_leaves_the_rest_for_the_next_read(face):
    face.append("limited", *range(10))

    page = face.diff("limited", limit=4)

    assert (seqs(page), page["next_from_seq"]) == ([1, 2, 3, 4], 4)
    assert (page["caught_up"], page["lag"]) == (False, 6)


@pytest.mark.parametrize(("limit", "count"), [(None, 256), (0, 256), (1000, 1000), (5000, 1000)])
def test_limits_have_a_default_and_a_most(face, limit, count):
    face.server.store.topic("long").append([b"1"] * 1500)

    page = face.diff("long", **({} if limit is None else {"limit": limit}))

    assert len(page["records"]) == count


def test_a_page_ends_when_it_has_its_bytes(face):
    face.append("heavy", *["x" * 1000] * 10)

    page = face.diff("heavy", max_batch_bytes=2500)

    assert 2 <= len(page["records"]) <= 3
    assert not page["caught_up"]


def test_one_record_is_given_however_few_bytes_were_asked_for(face):
    face.append("one-heavy", "x" * 1000)

    assert len(face.diff("one-heavy", max_batch_bytes=1)["records"]) == 1


def test_the_bytes_of_a_page_have_a_default_and_a_most(face):
    face.server.store.topic("huge").append([b'"' + b"x" * 998 + b'"'] * 12_000)

    by_default = face.diff("huge", limit=1000, max_batch_bytes=0)

    assert len(by_default["records"]) == 1000
    assert not by_default["caught_up"]


def test_tags_are_told_only_when_asked_for_and_meta_unless_not(face):
    face.append("shown", {"data": 1, "tag": "t", "meta": {"m": 1}})

    (plain,) = face.diff("shown")["records"]
    (other,) = face.diff("shown", include_tags=True, include_meta=False)["records"]

    assert ("$tag" in plain, "meta" in plain) == (False, True)
    assert (other["$tag"], "meta" in other) == ("t", False)


def test_a_reader_is_spared_the_records_of_its_own_node(face):
    face.append("nodes", {"data": 1, "node": "a"}, {"data": 2, "node": "b"}, {"data": 3})

    assert values(face.diff("nodes", node="a")) == [2, 3]
    assert values(face.diff("nodes", node=["a", "b"])) == [3]
    assert values(face.diff("nodes", node=[])) == [1, 2, 3]


def test_records_that_are_left_out_still_move_the_cursor(face):
    face.append("moved", *[{"data": n, "node": "me"} for n in range(5)])

    page = face.diff("moved", node="me")

    assert (page["records"], page["next_from_seq"], page["caught_up"]) == ([], 5, True)


def test_a_topic_may_switch_the_filter_of_nodes_off(face):
    face.put("unfiltered", dedupe_node=False)
    face.append("unfiltered", {"data": 1, "node": "a"}, {"data": 2, "node": "b"})

    assert values(face.diff("unfiltered", node="a")) == [1, 2]
    assert values(face.diff("unfiltered", node=["a", "b"])) == [1, 2]


def test_many_pages_of_the_readers_own_nodes_are_passed_in_one_answer(face):
    own = [{"data": n, "node": "a" if n % 2 else "b"} for n in range(40)]
    face.append("passed", *own, {"data": "other"})

    page = face.diff("passed", node=["a", "b"], limit=10)

    assert values(page) == ["other"]


def test_a_cap_leaves_a_tombstone_that_tells_the_gap(face):
    face.put("capped", cap_records=3)
    face.append("capped", *range(10))

    page = face.diff("capped")

    assert page["tombstone"] == {
        "reason": "cap",
        "gap_from": 1,
        "gap_to": 7,
        "missed_estimate": 7,
        "earliest_seq": 8,
        "head_seq": 10,
    }
    assert seqs(page) == [8, 9, 10]


def test_a_cursor_at_the_gap_has_missed_nothing(face):
    face.put("capped-2", cap_records=3)
    face.append("capped-2", *range(10))

    assert face.diff("capped-2", from_seq=7)["tombstone"] is None
    assert face.diff("capped-2", from_seq=6)["tombstone"]["gap_from"] == 7


def test_a_ttl_leaves_a_tombstone_once_records_are_strictly_older(tmp_path):
    clock = SimClock()
    with running(tmp_path, clock=clock) as server, Face(server) as face:
        face.put("short", ttl_ms=HOUR_MS)
        face.append("short", "old")
        clock.advance(HOUR_MS / 1000)
        at_the_edge = face.diff("short")
        clock.advance(1)
        over = face.diff("short")
        state = face.state("short")

    assert values(at_the_edge) == ["old"]
    assert (over["records"], over["tombstone"]["reason"]) == ([], "ttl")
    assert (over["tombstone"]["gap_from"], over["tombstone"]["gap_to"]) == (1, 1)
    assert (over["next_from_seq"], over["caught_up"]) == (1, True)
    assert (state["count"], state["earliest_seq"]) == (0, 2)


def test_a_deleted_range_is_passed_in_silence(face):
    face.append("deleted", *range(5))
    face.delete("deleted", before_seq=4)

    page = face.diff("deleted")

    assert (seqs(page), page["tombstone"], page["earliest_seq"]) == ([4, 5], None, 4)


def test_a_cursor_above_the_head_is_of_an_earlier_life(face):
    face.append("young", "a", "b")

    page = face.diff("young", from_seq=50)

    assert page["tombstone"]["reason"] == "recreated"
    assert (page["tombstone"]["gap_from"], page["tombstone"]["gap_to"]) == (1, 2)
    assert seqs(page) == [1, 2]


def test_an_epoch_tells_that_the_topic_was_made_anew(face):
    face.append("epoch", 1)
    before = face.diff("epoch")
    face.good("DELETE", "/v0/topics/epoch")
    face.append("epoch", 2, 3)

    page = face.diff("epoch", from_seq=before["next_from_seq"], epoch=before["epoch"])

    assert page["tombstone"]["reason"] == "recreated"
    assert values(page) == [2, 3]


def test_a_long_poll_ends_with_the_next_record(face):
    face.put("polled")
    pages = []

    def wait() -> None:
        with Face(face.server) as own:
            pages.append(own.diff("polled", wait_ms=20_000))

    waiting = threading.Thread(target=wait)
    waiting.start()
    _wait_for_reader(face, "polled")
    face.append("polled", "news")
    waiting.join()

    assert values(pages[0]) == ["news"]


def test_a_long_poll_ends_empty_when_nothing_comes(face):
    face.put("silent")

    page = face.diff("silent", wait_ms=30)

    assert (page["records"], page["caught_up"]) == ([], True)


def test_a_long_poll_goes_on_past_the_readers_own_records(face):
    face.put("own-news")
    pages = []

    def wait() -> None:
        with Face(face.server) as own:
            pages.append(own.diff("own-news", wait_ms=20_000, node="me"))

    waiting = threading.Thread(target=wait)
    waiting.start()
    _wait_for_reader(face, "own-news")
    face.append("own-news", {"data": "mine", "node": "me"})
    face.append("own-news", {"data": "theirs", "node": "you"})
    waiting.join()

    assert values(pages[0]) == ["theirs"]


def test_a_long_poll_does_not_wait_when_there_is_something_to_tell(face):
    face.put("gone-news", cap_records=1)
    face.append("gone-news", 1, 2)
    face.delete("gone-news", before_seq=3)

    page = face.diff("gone-news", wait_ms=30_000)

    assert page["tombstone"]["gap_to"] >= 1


def test_a_topic_that_is_not_there_is_404(face):
    assert face.refused("POST", "/v0/topics/absent/diff", {})[:2] == (404, "topic_not_found")


@pytest.mark.parametrize(
    "body",
    [{"from_seq": -1}, {"from_seq": 2**63}, {"limit": -1}, {"limit": 1.5}, {"node": 7}, {"x": 1}],
)
def test_a_wrong_read_is_refused(face, body):
    face.put("wrong-read")

    assert face.refused("POST", "/v0/topics/wrong-read/diff", body)[:2] == (400, "invalid_request")


def test_records_come_as_arrow_when_accepted(face):
    face.append("columns", {"data": 1, "tag": "t", "key": "k"}, {"data": "b", "node": "n"})

    answer = face.client.post("/v0/topics/columns/diff", json={}, headers={"accept": ARROW})
    table = pa.ipc.open_stream(answer.content).read_all()
    page = msgspec.json.decode(table.schema.metadata[b"strandline.page"])

    assert answer.headers["content-type"] == ARROW
    assert table.column_names == ["seq", "ts", "key", "tag", "node", "meta", "data"]
    assert table.column("data").to_pylist() == [b"1", b'"b"']
    assert (page["next_from_seq"], page["caught_up"], page["tombstone"]) == (2, True, None)


def test_arrow_leaves_out_several_nodes_too(face):
    face.append("columns-2", {"data": 1, "node": "a"}, {"data": 2}, {"data": 3, "node": "b"})

    answer = face.client.post(
        "/v0/topics/columns-2/diff", json={"node": ["a", "b"]}, headers={"accept": ARROW}
    )
    table = pa.ipc.open_stream(answer.content).read_all()

    assert table.column("seq").to_pylist() == [2]


def test_deletes_by_tag_hit_whole_tags_or_beginnings(face):
    tags = ["eu", "eu-1", "us", None]
    face.append("tagged", *[{"data": tag, **({"tag": tag} if tag else {})} for tag in tags])

    exact = face.delete("tagged", match=["tag", "Eq", "eu"])
    beginning = face.delete("tagged", match=["tag", "Glob", "eu*"])
    short = face.delete("tagged", match="us")

    assert (exact["deleted"], beginning["deleted"], short["deleted"]) == (1, 1, 1)
    assert values(face.diff("tagged")) == [None]


def test_a_delete_by_both_hits_only_what_both_name(face):
    face.append("both", *[{"data": n, "tag": "t" if n % 2 else "u"} for n in range(6)])

    told = face.delete("both", before_seq=4, match=["tag", "Eq", "t"])

    assert told["deleted"] == 1
    assert seqs(face.diff("both")) == [1, 3, 4, 5, 6]
    assert (told["count"], told["head_seq"], told["topic"]) == (5, 6, "both")


def test_a_delete_by_tag_ends_at_the_head_of_its_moment(face):
    face.append("moment", {"data": 1, "tag": "t"})
    face.delete("moment", match="t")

    face.append("moment", {"data": 2, "tag": "t"})

    assert values(face.diff("moment")) == [2]


def test_deleted_records_make_room_under_a_cap(face):
    face.put("room", cap_records=2, discard="reject")
    face.append("room", 1, 2)

    face.delete("room", before_seq=2)

    assert face.append("room", 3)["count"] == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"before_seq": 0},
        {"match": ["tag", "Like", "x"]},
        {"match": ["node", "Eq", "x"]},
        {"match": ["tag", "Glob", "x"]},
        {"match": ["tag", "Eq"]},
        {"match": ["tag", "Eq", "x", "y"]},
        {"match": ["tag", "Glob", "x*y*"]},
        {"match": ""},
        {"match": 5},
    ],
)
def test_a_delete_that_says_nothing_proper_deletes_nothing(face, body):
    face.append("undeleted", {"data": 1, "tag": "x"})
    count = face.state("undeleted")["count"]

    refused = face.refused("POST", "/v0/topics/undeleted/delete", body)

    assert refused[:2] == (400, "invalid_request")
    assert face.state("undeleted")["count"] == count


def test_the_cursor_of_a_time_gives_the_records_from_then_on(tmp_path):
    clock = SimClock()
    with running(tmp_path, clock=clock) as server, Face(server) as face:
        face.append("sought", "early")
        clock.advance(10)
        moment_ms = clock.now_us() // 1000
        face.append("sought", "late")
        by_ms = face.good("GET", f"/v0/topics/sought/seek?ts={moment_ms}")
        by_us = face.good("GET", f"/v0/topics/sought/seek?ts_us={clock.now_us() + 60_000_000}")

    assert (by_ms["from_seq"], by_ms["head_seq"]) == (1, 2)
    assert by_us["from_seq"] == 2


@pytest.mark.parametrize("query", ["", "?ts=1&ts_us=1", "?ts=x", f"?ts={2**70}"])
def test_a_seek_takes_one_time(face, query):
    face.put("sought-wrong")

    refused = face.refused("GET", f"/v0/topics/sought-wrong/seek{query}")

    assert refused[:2] == (400, "invalid_request")


def test_single_records_can_be_picked(face):
    face.append("picked", *"abcd")
    face.delete("picked", before_seq=2)

    page = face.good("POST", "/v0/topics/picked/pick", {"seqs": [4, 1, 2, 99]})

    assert values(page) == ["b", "d"]


def _wait_for_reader(face: Face, topic: str) -> None:
    """Until somebody has begun to read a topic."""
    for _ in range(10_000):
        if face.state(topic)["last_read_ts"] is not None:
            return
    raise AssertionError("nobody reads")
