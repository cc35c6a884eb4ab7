"""Appends over HTTP: all records or none, in every form of body, with every limit and condition."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator

import msgspec
import pytest

from strandline.server.live.load_shedding import WINDOW_S_RANGE
from strandline.server.settings import RequestLimits, ServerSettings
from strandline.testing.sim_clock import SimClock
from tests.server.running import running
from tests.server.topics_face import Face, seqs, values


@pytest.fixture(scope="module")
def face(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Face]:
    with running(tmp_path_factory.mktemp("appends")) as server, Face(server) as made:
        yield made


def test_an_append_that_waits_for_its_sync_says_how_long(face):
    safe = face.append("clocked", 1, config={"durable": True})["performance"]
    again = face.append("clocked", *range(5))["performance"]
    plain = face.append("unclocked", 1)["performance"]

    for took in (safe, again):
        assert set(took) == {"server_total_ms", "wal_append_ms", "fsync_ms", "throttle_wait_ms"}
        assert took["throttle_wait_ms"] == 0
        assert took["fsync_ms"] > 0
        assert took["wal_append_ms"] + took["fsync_ms"] == pytest.approx(
            took["server_total_ms"], abs=0.5
        )
    assert set(plain) == {"server_total_ms"}


def test_an_append_to_a_busy_server_says_how_long_it_was_throttled(tmp_path):
    with running(tmp_path) as server, Face(server) as face:
        face.put("busy", durable=True)
        governor = server.parts.hub.load_shedder

        def press() -> None:
            governor.pressure = 0.7

        for _ in range(100):  # the pressure falls by itself
            server.on_loop(press)
            took = face.append("busy", 1)["performance"]
            if took["throttle_wait_ms"]:
                break

    assert 0 < took["throttle_wait_ms"] <= took["fsync_ms"]
    assert took["throttle_wait_ms"] <= WINDOW_S_RANGE[1] * 1000


def test_the_first_append_makes_the_topic_and_seqs_begin_at_one(face):
    answer = face.ask("POST", "/v0/topics/first", {"records": [{"data": "a"}, {"data": "b"}]})

    told = answer.json()
    assert answer.status_code == 201
    assert told.pop("performance")["server_total_ms"] > 0
    assert told == {
        "topic": "first",
        "first_seq": 1,
        "last_seq": 2,
        "head_seq": 2,
        "count": 2,
        "created": True,
        "deduped": False,
    }


def test_later_appends_go_on_without_a_gap(face):
    face.append("dense", 1)
    face.append("dense", 2, 3)

    told = face.append("dense", 4)

    assert (told["first_seq"], told["last_seq"], told["created"]) == (4, 4, False)
    assert seqs(face.diff("dense")) == [1, 2, 3, 4]


def test_seqs_are_told_when_asked_for(face):
    body = {"records": [{"data": 1}, {"data": 2}, {"data": 3}]}

    told = face.good("POST", "/v0/topics/told-seqs?return_seqs=true", body)

    assert told["seqs"] == [1, 2, 3]


def test_data_is_given_back_as_the_bytes_that_were_sent(face):
    sent = b'{"b" : 1.50, "a":[ 1e3,null, "\\u00e9\xc3\xa9" ]}'
    face.client.post(
        "/v0/topics/verbatim",
        content=b'{"records":[{"data": ' + sent + b" }]}",
        headers={"content-type": "application/json"},
    )

    answer = face.client.post("/v0/topics/verbatim/diff", json={})

    assert sent in answer.content
    assert face.server.store.topic("verbatim").read(0).data == [sent]


@pytest.mark.parametrize("value", [None, True, 0, -1.5, "", [], {}, "nested", [[1, {"a": None}]]])
def test_data_may_be_any_json_value(face, value):
    name = f"any-{abs(hash(msgspec.json.encode(value)))}"

    face.append(name, {"data": value})

    assert values(face.diff(name)) == [value]


def test_bytes_that_are_no_json_travel_as_base64(face):
    sent = bytes(range(256))
    record = {"data_base64": base64.b64encode(sent).decode(), "key_base64": "/w=="}

    face.append("binary", record)
    (told,) = face.diff("binary")["records"]

    assert "data" not in told
    assert base64.b64decode(told["data_base64"]) == sent
    assert base64.b64decode(told["$key_base64"]) == b"\xff"


def test_fields_of_records_are_kept_and_absent_ones_are_left_out(face):
    face.append(
        "fields",
        {"data": 1, "tag": "t", "node": "n", "key": "k", "meta": {"a": [1]}},
        {"data": 2},
    )

    full, bare = face.diff("fields", include_tags=True)["records"]

    assert (full["$tag"], full["$node"], full["$key"], full["meta"]) == ("t", "n", "k", {"a": [1]})
    assert set(bare) == {"$seq", "$ts", "data"}


def test_the_node_of_the_append_is_that_of_records_without_one(face):
    face.append("noded", {"data": 1}, {"data": 2, "node": "own"}, node="shared")

    told = face.diff("noded")["records"]

    assert [record["$node"] for record in told] == ["shared", "own"]


def test_times_are_milliseconds_and_microseconds_when_asked_for(face):
    face.append("timed", 1)

    (told,) = face.diff("timed", include_micros=True)["records"]

    assert told["$ts"] == told["$us"] // 1000


@pytest.mark.parametrize(
    ("records", "code"),
    [
        ([], "invalid_request"),
        ([{}], "invalid_request"),
        ([{"data": 1, "data_base64": "AA=="}], "invalid_request"),
        ([{"data_base64": "A"}], "invalid_request"),
        ([{"data": 1, "key": "a", "key_base64": "AA=="}], "invalid_request"),
        ([{"data": 1, "tag": "t" * 257}], "invalid_request"),
        ([{"data": 1, "node": "n" * 129}], "invalid_request"),
        ([{"data": 1, "tag": "é" * 200}], "record_too_large"),
        ([{"data": 1, "meta": [1]}], "invalid_request"),
        ([{"data": 1, "meta": {"a": "x" * 16384}}], "record_too_large"),
        ([{"data": 1, "meta": {str(n): n for n in range(65)}}], "record_too_large"),
        ([{"data": "x" * (1 << 20)}], "record_too_large"),
        ([{"data": "x" * ((1 << 20) - 100), "meta": {"a": "x" * 200}}], "record_too_large"),
        ([{"data": 1, "seq": 5}], "invalid_request"),
        ([{"data": 1}] * 10_001, "batch_too_large"),
    ],
)
def test_a_bad_record_refuses_the_whole_append(face, records, code):
    face.put("strict")
    body = {"records": [{"data": "good"}, *records] if records else []}

    refused = face.refused("POST", "/v0/topics/strict", body)

    assert refused[:2] == (400, code)
    assert face.state("strict")["head_seq"] == 0


def test_ten_thousand_records_are_one_append(face):
    told = face.append("most", *range(10_000))

    assert (told["first_seq"], told["last_seq"], told["count"]) == (1, 10_000, 10_000)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nope",
        b"[]",
        b'{"records": [{"data": 1}], "recrods": 1}',
        b'{"records": [{"data": 01}]}',
        b'{"records": [{"data": "\xff"}]}',
        b'{"records": [{"data": "\xed\xa0\x80"}]}',
        b'{"records": [{"data": ' + b"[" * 65 + b"]" * 65 + b"}]}",
        b'{"records": [{"data": ' + b"[" * 5000 + b"]" * 5000 + b"}]}",
        b'{"records": [{"data": ' + b"9" * 1001 + b"}]}",
        b'{"records": [{"data": 1, "meta": {"a": ' + b"[" * 64 + b"]" * 64 + b"}}]}",
    ],
    ids=lambda body: repr(body[:24]),
)
def test_what_is_no_proper_json_is_refused(face, body):
    answer = face.client.post(
        "/v0/topics/proper", content=body, headers={"content-type": "application/json"}
    )

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 64 + b"]" * 64,
        b"[" + b"[]," * 500 + b"[]]",
        b'"' + b"[{" * 400 + b'"',
        b'"\\"' + b"[{" * 400 + b'"',
        b"9" * 1000,
        b'"' + b"9" * 5000 + b'"',
        b'["\\\\", "' + b"9" * 5000 + b'"]',
    ],
    ids=lambda data: repr(data[:12]),
)
def test_what_only_looks_deep_or_long_is_taken(face, data):
    answer = face.client.post(
        "/v0/topics/deep",
        content=b'{"records":[{"data":' + data + b"}]}",
        headers={"content-type": "application/json"},
    )

    assert answer.status_code in (200, 201)


def test_an_append_may_refuse_to_make_the_topic(face):
    body = {"records": [{"data": 1}], "create": False}

    assert face.refused("POST", "/v0/topics/unmade", body)[:2] == (404, "topic_not_found")
    assert "unmade" not in face.server.store.topics()


def test_a_configuration_counts_only_for_the_append_that_makes_the_topic(face):
    face.append("configured", 1, config={"cap_records": 2, "durable": True})
    face.append("configured", 2, config={"cap_records": 99})

    config = face.state("configured")["config"]

    assert (config["cap_records"], config["durability"]) == (2, "fsync")


def test_an_idempotency_key_appends_once(face):
    first = face.append("once", 1, 2, idempotency_key="k")
    face.append("once", 3)

    again = face.append("once", 1, 2, idempotency_key="k")

    assert (first["deduped"], again["deduped"]) == (False, True)
    assert (again["first_seq"], again["last_seq"], again["count"]) == (1, 2, 2)
    assert values(face.diff("once")) == [1, 2, 3]


def test_the_key_of_the_body_wins_over_the_header(face):
    body = {"records": [{"data": 1}]}
    header = {"idempotency-key": "from-header"}
    face.good("POST", "/v0/topics/keyed", body, headers=header)

    by_header = face.good("POST", "/v0/topics/keyed", body, headers=header)
    by_body = face.good(
        "POST", "/v0/topics/keyed", {**body, "idempotency_key": "another"}, headers=header
    )

    assert (by_header["deduped"], by_body["deduped"]) == (True, False)


def test_idempotency_keys_survive_a_restart(tmp_path):
    with running(tmp_path) as server, Face(server) as face:
        face.append("once", 1, idempotency_key="k")
        face.append("plain", 1, idempotency_key="é" * 128)

    with running(tmp_path) as server, Face(server) as face:
        again = face.append("once", 1, idempotency_key="k")
        longest = face.append("plain", 1, idempotency_key="é" * 128)

    assert again["deduped"]
    assert longest["deduped"]


@pytest.mark.parametrize("key", ["", "k" * 257, "é" * 129])
def test_an_idempotency_key_has_one_to_256_bytes(face, key):
    body = {"records": [{"data": 1}], "idempotency_key": key}

    assert face.refused("POST", "/v0/topics/key-size", body)[0] == 400


def test_a_producers_number_is_taken_once_and_can_be_asked_for(face):
    numbered = {"producer": "p", "number": 7}
    face.append("numbered", 1, numbered=numbered)

    again = face.append("numbered", 1, numbered=numbered)

    assert again["deduped"]
    assert face.good("GET", "/v0/topics/numbered/producers")["producers"] == ["p"]
    assert face.good("GET", "/v0/topics/numbered/producers/p")["number"] == 7
    assert face.good("GET", "/v0/topics/numbered/producers/q")["number"] is None


def test_an_append_at_another_head_conflicts_and_leaves_nothing(face):
    face.append("headed", 1)
    body = {"records": [{"data": 2}], "expected_head_seq": 0}

    refused = face.refused("POST", "/v0/topics/headed", body)
    told = face.append("headed", 2, expected_head_seq=1)

    assert refused[:2] == (409, "conflict")
    assert told["first_seq"] == 2


def test_a_full_topic_says_what_it_holds_and_takes_no_part_of_the_append(face):
    face.put("full", cap_records=3, discard="reject")
    face.append("full", 1, 2)
    body = {"records": [{"data": 3}, {"data": 4}]}

    status, code, detail = face.refused("POST", "/v0/topics/full", body)

    assert (status, code) == (422, "topic_full")
    assert (detail["cap_records"], detail["head_seq"], detail["earliest_seq"]) == (3, 2, 1)
    assert face.state("full")["count"] == 2


def test_an_append_larger_than_the_cap_can_never_be_taken(face):
    face.put("small", cap_records=2, discard="reject")

    refused = face.refused("POST", "/v0/topics/small", {"records": [{"data": 1}] * 3})

    assert refused[:2] == (400, "record_too_large")


def test_the_right_to_pass_by_backpressure_is_one_of_its_own(tmp_path):
    tokens = {"writer": "write,create", "boss": "write,create,bypass"}
    body = {"records": [{"data": 1}], "disable_backpressure": True}

    with running(tmp_path, tokens=tokens) as server:
        with Face(server, authorization=f"Bearer {server.tokens['writer']}") as writer:
            refused = writer.refused("POST", "/v0/topics/pressed", body)
        with Face(server, authorization=f"Bearer {server.tokens['boss']}") as boss:
            told = boss.good("POST", "/v0/topics/pressed", body)

    assert refused[:2] == (403, "forbidden")
    assert told["count"] == 1


def test_large_appends_have_the_same_rules(tmp_path):
    records = [{"data": "x" * 1000}] * 400
    capped = {"cap_records": 500, "discard": "reject"}
    body = {"records": records, "disable_backpressure": True}

    with (
        running(tmp_path, tokens={"writer": "write,create"}) as server,
        Face(server, authorization=f"Bearer {server.tokens['writer']}") as writer,
    ):
        made = writer.append("big", *records, config=capped)
        full = writer.refused("POST", "/v0/topics/big", {"records": records})
        bypass = writer.refused("POST", "/v0/topics/big", body)

    assert (made["created"], made["count"]) == (True, 400)
    assert (full[:2], full[2]["head_seq"]) == ((422, "topic_full"), 400)
    assert bypass[:2] == (403, "forbidden")


def test_a_server_at_its_limit_refuses_appends_but_for_those_who_may_pass(tmp_path):
    with running(tmp_path) as server, Face(server) as face:
        face.put("busy")
        server.parts.hub.load_shedder.is_rejecting = True
        refused = face.ask("POST", "/v0/topics/busy", {"records": [{"data": 1}]})
        passed = face.append("busy", 2, disable_backpressure=True)
        read = face.diff("busy")

    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "throttled")
    assert int(refused.headers["retry-after"]) >= 1
    assert passed["count"] == 1
    assert values(read) == [2]


def test_concurrent_appends_of_a_durable_topic_lose_and_mix_nothing(face):
    face.put("crowded", durable=True)

    def work(worker: int) -> None:
        with Face(face.server) as own:
            for number in range(20):
                own.append("crowded", *[{"w": worker, "n": number, "i": i} for i in range(3)])

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    page = face.diff("crowded", limit=1000)

    assert seqs(page) == list(range(1, 241))
    found = values(page)
    for first in range(0, 240, 3):
        batch = found[first : first + 3]
        assert {(each["w"], each["n"]) for each in batch} == {(batch[0]["w"], batch[0]["n"])}
        assert [each["i"] for each in batch] == [0, 1, 2]


def test_records_of_an_append_may_be_fewer_by_setting(tmp_path):
    settings = ServerSettings(limits=RequestLimits(batch_records_max=2))

    with running(tmp_path, settings=settings) as server, Face(server) as face:
        status, code, detail = face.refused(
            "POST", "/v0/topics/few", {"records": [{"data": 1}] * 3}
        )

    assert (status, code) == (400, "batch_too_large")
    assert detail == {"limit": "batch_records_max", "max": 2}


def test_a_store_with_all_its_bytes_takes_no_more_until_some_are_deleted(tmp_path):
    clock = SimClock()
    settings = ServerSettings(limits=RequestLimits(total_bytes_max=5000))
    with running(tmp_path, settings=settings, clock=clock) as server, Face(server) as face:
        face.append("large", "x" * 3000)
        refused = face.refused("POST", "/v0/topics/large", {"records": [{"data": "x" * 3000}]})
        many = face.refused("POST", "/v0/topics/large", {"records": [{"data": "x" * 900}] * 4})
        face.delete("large", before_seq=2)
        taken = _until_taken(face, clock, "x" * 3000)

    assert refused == (429, "throttled", {"limit": "total_bytes_max", "max": 5000})
    assert many[:2] == (429, "throttled")
    assert taken


def _until_taken(face: Face, clock: SimClock, data: str) -> bool:
    for _ in range(100):
        clock.advance(1)
        answer = face.ask("POST", "/v0/topics/large", {"records": [{"data": data}]})
        if answer.status_code == 200:
            return True
    return False
