"""Promise: a watch session tells every record of its topics once and in order, as server-sent
events whose ids say where the reader is; sessions belong to whoever made them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.server.settings import ServerSettings
from tests.server.certificates import certificate, trusting
from tests.server.live.watching import Reader, gaps, post, seqs, wait_until_gone, watch
from tests.server.running import Running, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("sse")) as found:
        yield found


def marks(event_id: str) -> dict[str, int]:
    return json.loads(base64.urlsafe_b64decode(event_id + "=" * (-len(event_id) % 4)))


def test_history_comes_first_then_caught_up_then_what_is_new(server):
    topic = server.store.topic("history")
    topic.append_many([b"1", b"2", b"3"])
    session = watch(server, {"history": {}})

    with Reader(server, session["stream_url"]) as reader:
        history = reader.until("caught-up")
        topic.append(b'{"live":true}')
        news = reader.records_to(4)

    assert seqs(history) == [1, 2, 3]
    assert [event.name for event in history] == ["record", "caught-up"]
    assert history[-1].data == {"topic": "history", "head_seq": 3}
    assert news[0].data["records"][0]["data"] == {"live": True}
    assert (news[0].data["from_seq"], news[0].data["to_seq"]) == (3, 4)
    assert marks(news[0].id) == {"history": 4}


def test_the_answer_has_the_headers_of_a_stream(server):
    server.store.topic("headers")
    session = watch(server, {"headers": {}})

    with Reader(server, session["stream_url"]) as reader:
        headers = reader.response.headers
        first = reader.response.readline() + reader.response.readline()

    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-store"
    assert headers["x-accel-buffering"] == "no"
    assert first == b"retry: 2000\nid: %b\n" % session["last_event_id"].encode()


def test_a_session_says_where_it_begins(server):
    topic = server.store.topic("begins")
    topic.append_many([b"1", b"2", b"3", b"4"])

    session = watch(server, {"begins": {"tail": True}})

    assert session["topics"] == {"begins": {"from_seq": 4, "head_seq": 4, "earliest_seq": 1}}
    assert session["session_ttl_ms"] == 300_000


def test_from_seq_is_where_a_reader_is_already(server):
    topic = server.store.topic("from")
    topic.append_many([b"1", b"2", b"3"])
    session = watch(server, {"from": {"from_seq": 2}})

    with Reader(server, session["stream_url"]) as reader:
        events = reader.until("caught-up")

    assert seqs(events) == [3]


def test_tail_tells_only_what_comes(server):
    topic = server.store.topic("tail")
    topic.append_many([b"1", b"2"])
    session = watch(server, {"tail": {"tail": True}})

    with Reader(server, session["stream_url"]) as reader:
        events = reader.until("caught-up")
        topic.append(b"3")
        events += reader.records_to(3)

    assert seqs(events) == [3]


def test_several_topics_share_a_stream_and_each_id_names_all_of_them(server):
    one, two = server.store.topic("share.one"), server.store.topic("share.two")
    one.append_many([b"1", b"2"])
    session = watch(server, {"share.one": {}, "share.two": {}})

    with Reader(server, session["stream_url"]) as reader:
        reader.until("caught-up", topic="share.one")
        two.append(b"x")
        events = reader.records_to(1, "share.two")

    assert marks(events[-1].id) == {"share.one": 2, "share.two": 1}


def test_a_stream_goes_on_where_the_last_one_was(server):
    topic = server.store.topic("goes-on")
    topic.append_many([b"1", b"2"])
    session = watch(server, {"goes-on": {}})
    with Reader(server, session["stream_url"]) as reader:
        reader.until("caught-up")
        seen = reader.last_id
    topic.append(b"3")

    with Reader(server, session["stream_url"], last_id=seen) as reader:
        events = reader.until("caught-up")

    assert seqs(events) == [3]


def test_without_a_last_id_a_stream_goes_on_behind_what_was_sent(server):
    topic = server.store.topic("sent")
    topic.append_many([b"1", b"2"])
    session = watch(server, {"sent": {}})
    with Reader(server, session["stream_url"]) as reader:
        reader.until("caught-up")

    with Reader(server, session["stream_url"]) as reader:
        events = reader.until("caught-up")

    assert seqs(events) == []


def test_last_event_id_sets_back_but_never_forward(server):
    topic = server.store.topic("rewind")
    topic.append_many([b"%d" % number for number in range(10)])
    session = watch(server, {"rewind": {}})
    with Reader(server, session["stream_url"]) as reader:
        reader.until("caught-up")
    wait_until_gone(server)
    topic.append(b"11")
    back = base64.urlsafe_b64encode(b'{"rewind":4}').decode().rstrip("=")
    forward = base64.urlsafe_b64encode(b'{"rewind":99}').decode().rstrip("=")

    with Reader(server, session["stream_url"], last_id=forward) as reader:
        after_forward = reader.until("caught-up")
    with Reader(server, session["stream_url"], last_id=back) as reader:
        after_back = reader.until("caught-up")

    assert seqs(after_forward) == [11]
    assert seqs(after_back) == list(range(5, 12))


def test_an_id_that_is_none_is_refused(server):
    server.store.topic("bad-id")
    session = watch(server, {"bad-id": {}})

    with Reader(server, session["stream_url"], last_id="!!") as reader:
        assert reader.response.status == 400


def test_an_unknown_session_is_not_found(server):
    with Reader(server, "/v0/watch/feedface") as reader:
        assert reader.response.status == 404


def test_who_does_not_accept_events_is_told(server):
    server.store.topic("accept")
    session = watch(server, {"accept": {}})

    status, answer = post(server, session["stream_url"], None, method="GET")

    assert status == 406
    assert answer["error"]["code"] == "not_acceptable"


def test_an_unknown_topic_is_refused_unless_the_request_is_lenient(server):
    server.store.topic("known")
    body = {"topics": {"known": {}, "unknown": {}}}

    strict = post(server, "/v0/watch", body)
    lenient = post(server, "/v0/watch?lenient=true", body)

    assert strict[0] == 404
    assert strict[1]["error"]["code"] == "topic_not_found"
    assert list(lenient[1]["topics"]) == ["known"]


@pytest.mark.parametrize(
    "body",
    [
        {"topics": {}},
        {"topics": {f"t{number}": {} for number in range(257)}},
        {"topics": {"a": {"from_seq": -1}}},
        {"topics": {"a*b": {}}},
        {"topics": {"a": {}}, "nonsense": 1},
        {"topics": {"a": {}}, "consistency": "weak"},
    ],
)
def test_a_bad_request_makes_no_session(server, body):
    before = len(server.parts.hub.sessions)

    status, _ = post(server, "/v0/watch", body)

    assert status in (400, 404)
    assert len(server.parts.hub.sessions) == before


def test_what_is_shown_of_records_is_as_asked(server):
    topic = server.store.topic("shown")
    topic.append(b'"x"', key="k", tag="t", node="n", meta=b'{"m":1}')
    plain = watch(server, {"shown": {}})
    bare = watch(
        server, {"shown": {}}, include_data=False, include_meta=False, include_tags=True,
        include_micros=True,
    )  # fmt: skip

    with Reader(server, plain["stream_url"]) as reader:
        usual = reader.records_to(1)[0].data["records"][0]
    with Reader(server, bare["stream_url"]) as reader:
        asked = reader.records_to(1)[0].data["records"][0]

    assert set(usual) == {"$seq", "$ts", "$key", "$node", "data", "meta"}
    assert set(asked) == {"$seq", "$ts", "$us", "$key", "$node", "$tag"}


def test_json_with_line_ends_inside_arrives_as_the_same_value(server):
    topic = server.store.topic("lines")
    topic.append(b'{\r\n "a":\n [1,\r2]}')
    session = watch(server, {"lines": {}})

    with Reader(server, session["stream_url"]) as reader:
        event = reader.records_to(1)[0]

    assert event.data["records"][0]["data"] == {"a": [1, 2]}


def test_a_reader_that_names_its_node_is_spared_its_own_records(server):
    topic = server.store.topic("nodes")
    topic.append(b"1", node="me")
    topic.append(b"2", node="you")
    session = watch(server, {"nodes": {}}, node="me")

    with Reader(server, session["stream_url"]) as reader:
        events = reader.until("caught-up")
        topic.append(b"3", node="me")
        topic.append(b"4", node="you")
        events += reader.records_to(4)

    assert seqs(events) == [2, 4]


def test_one_event_holds_at_most_limit_records(server):
    topic = server.store.topic("limit")
    topic.append_many([b"1"] * 10)
    session = watch(server, {"limit": {}}, limit=4)

    with Reader(server, session["stream_url"]) as reader:
        events = reader.until("caught-up")

    assert [len(event.data["records"]) for event in events[:-1]] == [4, 4, 2]


def test_records_that_were_evicted_are_told_as_a_tombstone(server):
    topic = server.store.topic("evicted", cap_records=3)
    topic.append_many([b"1"] * 10)
    session = watch(server, {"evicted": {}})

    with Reader(server, session["stream_url"]) as reader:
        events = reader.until("caught-up")

    assert gaps(events) == [(1, 7)]
    assert events[0].data["reason"] == "from_seq_too_old"
    assert events[0].data["earliest_seq"] == 8
    assert seqs(events) == [8, 9, 10]


def test_a_deleted_topic_is_told_and_one_made_anew_comes_from_its_beginning(server):
    topic = server.store.topic("phoenix")
    topic.append_many([b"1", b"2"])
    session = watch(server, {"phoenix": {}})

    with Reader(server, session["stream_url"]) as reader:
        reader.until("caught-up")
        server.store.delete_topic("phoenix")
        deleted = reader.until("topic-deleted")
        server.store.topic("phoenix").append_many([b"new", b"newer", b"newest"])
        events = reader.records_to(3)

    assert deleted[-1].data == {"topic": "phoenix", "head_seq": 2, "reason": "deleted"}
    assert seqs(events) == [1, 2, 3]


def test_who_was_away_while_a_topic_was_made_anew_is_told_and_gets_all_of_it(server):
    topic = server.store.topic("reborn")
    topic.append_many([b"1", b"2"])
    session = watch(server, {"reborn": {}})
    with Reader(server, session["stream_url"]) as reader:
        reader.until("caught-up")
        seen = reader.last_id
    server.store.delete_topic("reborn")
    server.store.topic("reborn").append_many([b"1", b"2", b"3", b"4"])

    with Reader(server, session["stream_url"], last_id=seen) as reader:
        events = reader.until("caught-up")

    assert [event.data["reason"] for event in events if event.name == "tombstone"] == ["recreated"]
    assert seqs(events) == [1, 2, 3, 4]


def test_a_cursor_of_an_earlier_life_is_told_when_its_epoch_is_said(server):
    topic = server.store.topic("known")
    topic.append_many([b"1", b"2"])
    epoch = topic.read().epoch
    same = watch(server, {"known": {"from_seq": 1, "epoch": epoch}})
    with Reader(server, same["stream_url"]) as reader:
        before = reader.until("caught-up")
    server.store.delete_topic("known")
    server.store.topic("known").append_many([b"1", b"2", b"3", b"4"])

    session = watch(server, {"known": {"from_seq": 1, "epoch": epoch}})
    with Reader(server, session["stream_url"], last_id=session["last_event_id"]) as reader:
        events = reader.until("caught-up")

    assert [event.name for event in before if event.name] == ["record", "caught-up"]
    assert seqs(before) == [2]
    assert [event.data["reason"] for event in events if event.name == "tombstone"] == ["recreated"]
    assert seqs(events) == [1, 2, 3, 4]


def test_an_id_of_an_earlier_life_skips_nothing_of_the_new_one(server):
    topic = server.store.topic("lives")
    topic.append_many([b"1", b"2"])
    session = watch(server, {"lives": {}})
    with Reader(server, session["stream_url"]) as reader:
        reader.until("caught-up")
        before_deletion = reader.last_id
        server.store.delete_topic("lives")
        reader.until("topic-deleted")
        server.store.topic("lives").append_many([b"1", b"2", b"3", b"4"])
        reader.records_to(4)
        after = reader.last_id

    with Reader(server, session["stream_url"], last_id=before_deletion) as reader:
        again = reader.until("caught-up")
    with Reader(server, session["stream_url"], last_id=after) as reader:
        rest = reader.until("caught-up")

    assert seqs(again) == [1, 2, 3, 4]
    assert "recreated" in [event.data.get("reason") for event in again]
    assert seqs(rest) == []


def test_a_second_stream_takes_the_session_over(server):
    topic = server.store.topic("takeover")
    topic.append(b"1")
    session = watch(server, {"takeover": {}})
    with Reader(server, session["stream_url"]) as older:
        older.until("caught-up")

        with Reader(server, session["stream_url"]) as newer:
            newer.until("caught-up")
            last = older.until("error")[-1]
            end = older.next()

    assert last.data["code"] == "replaced"
    assert end is None


def test_a_strong_watcher_is_told_of_a_record_once_it_is_synced(server):
    topic = server.store.topic("strong")
    topic.append(b"1")
    session = watch(server, {"strong": {}}, consistency="strong")
    (committer,) = server.store.committers

    with Reader(server, session["stream_url"]) as reader:
        history = reader.until("caught-up")
        synced = []
        for seq in range(2, 12):
            topic.append(b"x")
            placed = committer.writer.end_lsn
            reader.records_to(seq)
            synced.append(committer.synced >= placed)

    assert seqs(history) == [1]
    assert all(synced)


def test_quiet_streams_send_a_comment(tmp_path: Path):
    with running(tmp_path) as server:
        server.store.topic("quiet")
        session = watch(server, {"quiet": {}}, heartbeat_ms=1)  # the least is a second

        with Reader(server, session["stream_url"]) as reader:
            reader.until("caught-up")
            event = reader.next()

        assert event is not None
        assert event.comment.startswith("hb ")
        assert event.id == ""


def test_sessions_and_streams_belong_to_whoever_made_them(tmp_path: Path):
    scopes = {"ada": "read:orders.*", "bob": "read:orders.*"}
    with running(tmp_path, tokens=scopes) as server:
        server.store.topic("orders.eu").append(b"1")
        server.store.topic("secret").append(b"1")
        ada, bob = server.tokens["ada"], server.tokens["bob"]

        session = watch(server, {"orders.eu": {}}, token=ada)
        forbidden, _ = post(server, "/v0/watch", {"topics": {"secret": {}}}, ada)
        unnamed, _ = post(server, "/v0/watch", {"topics": {"orders.eu": {}}})
        with Reader(server, session["stream_url"], token=bob) as reader:
            as_bob = reader.response.status
        with Reader(server, session["stream_url"]) as reader:
            as_nobody = reader.response.status
        with Reader(server, session["stream_url"], token=ada) as reader:
            events = reader.until("caught-up")

        assert (forbidden, unnamed, as_bob, as_nobody) == (403, 401, 404, 401)
        assert seqs(events) == [1]


def test_a_stream_ends_when_its_token_is_revoked(tmp_path: Path):
    with running(tmp_path, tokens={"ada": "read:*", "root": "all:*"}) as server:
        server.store.topic("orders").append(b"1")
        ada, root = server.tokens["ada"], server.tokens["root"]
        session = watch(server, {"orders": {}}, token=ada)
        _, whoami = post(server, "/v0/whoami", None, ada, method="GET")

        with Reader(server, session["stream_url"], token=ada) as reader:
            reader.until("caught-up")
            status, _ = post(server, f"/v0/tokens/{whoami['id']}", None, root, method="DELETE")
            last = reader.until("error")[-1]
            end = reader.next()

        assert status in (200, 204)
        assert last.data["code"] == "unauthorized"
        assert end is None


def test_streams_are_told_that_the_server_goes_down(tmp_path: Path):
    with running(tmp_path) as server:
        server.store.topic("down").append(b"1")
        session = watch(server, {"down": {}})

        with Reader(server, session["stream_url"]) as reader:
            reader.until("caught-up")
            server.stop()
            last = reader.until("error")[-1]
            end = reader.next()

        assert last.data["code"] == "shutting_down"
        assert end is None


def test_streams_are_told_over_tls_as_well(tmp_path: Path):
    tls = certificate(tmp_path, "live")
    with running(tmp_path, settings=ServerSettings(tls=tls)) as server:
        topic = server.store.topic("tls")
        topic.append(b"1")
        context = trusting(tls)
        with server.raw(context=context) as raw:
            raw.send(request("POST", "/v0/watch", b'{"topics":{"tls":{}}}'))
            session = json.loads(raw.answer().body)
        with server.raw(context=context) as raw:
            raw.send(request("GET", session["stream_url"]))
            text = b""
            while b"caught-up" not in text:
                text += raw.socket.recv(65536)
            topic.append(b'"live"')
            while b'"data":"live"' not in text:
                text += raw.socket.recv(65536)

    assert text.startswith(b"HTTP/1.1 200")


def request(method: str, path: str, body: bytes = b"") -> bytes:
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*, text/event-stream\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
