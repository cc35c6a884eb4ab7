"""Queues over HTTP: jobs go out under leases, to one worker at a time, whatever happens to it."""

from __future__ import annotations

import base64
import contextlib
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from strandline.server.settings import RequestLimits, ServerSettings
from tests.server.asking import Asking, Refusal
from tests.server.running import DEADLINE_S, Running, running

WAIT_MS = 30_000
WOKEN_S = 15.0
"""Who is woken only by the end of his wait is too late."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as server:
        server.store.queue("mails", lease_ms=30_000, deliveries_max=2)
        yield server


@pytest.fixture
def http(server: Running) -> Iterator[Asking]:
    with Asking(server) as http:
        yield http


def _put(http: Asking, *jobs: object, **rest: object) -> list[int]:
    body = {"jobs": [job if isinstance(job, dict) else {"data": job} for job in jobs], **rest}
    return [job["seq"] for job in http.post("/v0/queues/mails/jobs", body)["jobs"]]


def _claim(http: Asking, **rest: object) -> list[dict[str, object]]:
    return http.post("/v0/topics/mails/claim", {"node": "w1", **rest})["claimed"]


def test_a_claimed_job_has_what_was_put_and_an_ack_ends_it(http: Asking) -> None:
    (seq,) = _put(http, {"data": {"to": "ada"}, "key": "mail-1"}, tag="eu")

    claimed = http.post("/v0/topics/mails/claim", {"node": "w1", "max": 5, "include_micros": True})
    acked = http.post("/v0/topics/mails/ack", {"node": "w1", "seqs": [seq]})

    (job,) = claimed["claimed"]
    assert claimed["count"] == 1
    assert claimed["ready"] == 0
    assert (job["$seq"], job["data"], job["$key"], job["$tag"]) == (
        seq,
        {"to": "ada"},
        "mail-1",
        "eu",
    )
    assert job["deliveries"] == 1
    assert job["$ts"] == job["$us"] // 1000
    assert job["deadline"] == job["deadline_us"] // 1000
    assert acked["acked"] == 1
    assert (acked["skipped"], acked["ready"], acked["in_flight"]) == ([], 0, 0)


def test_bytes_that_are_no_json_travel_in_base64(http: Asking) -> None:
    told = base64.b64encode(b"\xff\x00").decode()
    _put(http, {"data_base64": told, "key_base64": told})

    (job,) = _claim(http)

    assert (job["data_base64"], job["$key_base64"]) == (told, told)
    assert "data" not in job


def test_another_worker_settles_nothing_and_is_told(http: Asking) -> None:
    (seq,) = _put(http, 1)
    _claim(http)

    theirs = {"node": "w2", "seqs": [seq, 99]}
    answers = [
        http.post(f"/v0/topics/mails/{verb}", {**theirs, **rest})
        for verb, rest in (("ack", {}), ("nack", {}), ("extend", {"lease_ms": 1000}))
    ]

    assert [answer["skipped"] for answer in answers] == [[seq, 99]] * 3
    assert http.get("/v0/queues/mails")["in_flight"] == 1


def test_a_lease_id_of_an_earlier_delivery_fits_no_more(http: Asking) -> None:
    (seq,) = _put(http, 1)
    (first,) = _claim(http)
    http.post("/v0/topics/mails/nack", {"node": "w1", "seqs": [seq]})
    (second,) = _claim(http)

    late = {"node": "w1", "seqs": [seq], "lease_ids": [first["lease_id"]]}
    now = {"node": "w1", "seqs": [seq], "lease_ids": [second["lease_id"]]}

    assert http.post("/v0/topics/mails/ack", late)["skipped"] == [seq]
    assert http.post("/v0/topics/mails/ack", now)["acked"] == 1


def test_a_delayed_nack_is_neither_ready_nor_in_flight(http: Asking) -> None:
    (seq,) = _put(http, 1)
    _claim(http)

    done = http.post("/v0/topics/mails/nack", {"node": "w1", "seqs": [seq], "delay_ms": 60_000})

    assert (done["nacked"], done["ready"], done["in_flight"]) == (1, 0, 0)
    assert http.get("/v0/queues/mails")["delayed"] == 1
    assert _claim(http) == []


def test_extending_tells_the_new_deadline(http: Asking) -> None:
    (seq,) = _put(http, 1)
    (job,) = _claim(http)

    done = http.post("/v0/topics/mails/extend", {"node": "w1", "seqs": [seq], "lease_ms": 600_000})

    assert done["extended"] == 1
    assert done["deadlines"][str(seq)] > job["deadline"]


def test_jobs_go_by_priority_group_unique_key_and_time(http: Asking) -> None:
    seqs = _put(
        http,
        {"data": "late", "priority": 200},
        {"data": "g1", "group": "g"},
        {"data": "g2", "group": "g"},
        {"data": "first", "priority": 1},
        {"data": "u", "key": "once"},
    )
    again = http.post("/v0/queues/mails/jobs", {"jobs": [{"data": "u2", "key": "once"}]})["jobs"]
    _put(http, "tomorrow", delay_ms=86_400_000)

    order = [job["data"] for job in _claim(http, max=10)]

    assert again == [{"seq": seqs[4], "existed": True}]
    assert order == ["first", "g1", "u", "late"]
    assert http.get("/v0/queues/mails")["blocked"] == 1
    assert http.get("/v0/queues/mails")["delayed"] == 1


def test_peeking_leaves_jobs_where_they_are(http: Asking) -> None:
    seqs = _put(http, 1, 2)

    peeked = http.get("/v0/queues/mails/peek", max=10)["jobs"]

    assert [job["$seq"] for job in peeked] == seqs
    assert http.get("/v0/queues/mails")["ready"] == 2


def test_a_paused_queue_gives_out_nothing_until_it_is_resumed(http: Asking) -> None:
    _put(http, 1)

    assert http.post("/v0/queues/mails/pause")["paused"] is True
    assert _claim(http) == []
    assert http.post("/v0/queues/mails/resume")["paused"] is False
    assert len(_claim(http)) == 1


def test_what_a_worker_holds_can_be_given_back_as_a_whole(http: Asking) -> None:
    _put(http, 1, 2)
    _claim(http, max=2)

    assert http.post("/v0/queues/mails/release", {"node": "w1"})["released"] == 2
    assert http.post("/v0/queues/mails/compact")["topic"] == "mails"
    assert len(_claim(http, max=2)) == 2


def _wear_out(http: Asking, count: int) -> None:
    for _ in range(2):
        seqs = [job["$seq"] for job in _claim(http, max=count)]
        http.post("/v0/topics/mails/nack", {"node": "w1", "seqs": seqs})
    assert _claim(http, max=count) == []


def test_dead_letters_are_listed_redriven_by_a_filter_and_purged(http: Asking) -> None:
    seqs = _put(http, {"data": "a", "key": "k"}, {"data": "b"}, {"data": "c"}, tag="eu-1")
    _wear_out(http, 3)
    path = "/v0/queues/mails/dead"

    letters = http.get(path, limit=2)
    rest = http.get(path, after=letters["next_after"])
    tried = http.post(f"{path}/redrive", {"where": {"tag": "eu*"}, "dry_run": True})
    none = http.post(f"{path}/redrive", {"where": {"tag": "us*"}})
    one = http.post(f"{path}/redrive", {"where": {"key": "k"}})
    purged = http.post(f"{path}/purge", {"where": {"contains": '"b"'}})

    assert [each["job_seq"] for each in letters["letters"] + rest["letters"]] == seqs
    assert letters["letters"][0]["deliveries"] == 2
    assert letters["letters"][0]["$dead_letter_from"] == "mails"
    assert (tried["matched"], tried["redriven"], tried["dry_run"]) == (3, 3, True)
    assert none["matched"] == 0
    assert (one["redriven"], purged["purged"]) == (1, 1)
    assert http.get("/v0/queues/mails")["dead"] == 1
    assert [job["data"] for job in _claim(http, max=9)] == ["a"]


def test_a_claim_that_waits_gets_the_job_that_comes(server: Running, http: Asking) -> None:
    got: list[object] = []

    def wait() -> None:
        with Asking(server) as other:
            got.extend(_claim(other, wait_ms=WAIT_MS))

    waiting = threading.Thread(target=wait)
    waiting.start()
    _until(lambda: _is_waited_for(server))
    _put(http, "at last")
    waiting.join(WOKEN_S)

    assert [job["data"] for job in got] == ["at last"]


def test_a_plain_append_is_a_job_and_wakes_who_waits(server: Running) -> None:
    got: list[object] = []

    def wait() -> None:
        with Asking(server) as other:
            got.extend(_claim(other, wait_ms=WAIT_MS))

    waiting = threading.Thread(target=wait)
    waiting.start()
    _until(lambda: _is_waited_for(server))
    server.store.topic("mails").append(b'"plain"', meta=b'{"from":"x"}')
    waiting.join(WOKEN_S)

    assert [(job["data"], job["meta"]) for job in got] == [("plain", {"from": "x"})]


def test_a_job_that_is_given_back_wakes_who_waits(server: Running, http: Asking) -> None:
    (seq,) = _put(http, "a")
    _claim(http, lease_ms=86_400_000)
    got: list[object] = []

    def wait() -> None:
        with Asking(server) as other:
            got.extend(_claim(other, wait_ms=WAIT_MS))

    waiting = threading.Thread(target=wait)
    waiting.start()
    _until(lambda: _is_waited_for(server))
    http.post("/v0/topics/mails/nack", {"node": "w1", "seqs": [seq]})
    waiting.join(WOKEN_S)

    assert [job["$seq"] for job in got] == [seq]


def test_who_has_hung_up_while_he_waited_gets_nothing_and_holds_nobody_up(
    server: Running, http: Asking
) -> None:
    body = b'{"node": "gone", "wait_ms": 30000}'
    head = (
        b"POST /v0/topics/mails/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
    )
    with server.raw() as raw:
        raw.send(head + b"\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        _until(lambda: _is_waited_for(server))
    _until(lambda: not server.store.queue("mails")._notifier._callbacks)
    _put(http, "a")

    assert [job["data"] for job in _claim(http, wait_ms=WAIT_MS)] == ["a"]
    assert http_state(http)["in_flight"] == 1


def test_those_who_wait_get_one_job_each_and_none_is_left_out(
    server: Running, http: Asking
) -> None:
    got: list[object] = []

    def wait() -> None:
        with Asking(server) as other:
            got.extend(_claim(other, wait_ms=WAIT_MS))

    threads = [threading.Thread(target=wait) for _ in range(6)]
    for thread in threads:
        thread.start()
    _until(lambda: _is_waited_for(server))
    for number in range(6):
        _put(http, number)
    for thread in threads:
        thread.join(DEADLINE_S)

    assert sorted(job["data"] for job in got) == list(range(6))


def test_a_wait_without_a_job_ends_in_time(http: Asking) -> None:
    assert _claim(http, wait_ms=50) == []


def test_workers_are_pushed_as_many_jobs_as_they_may_hold(server: Running, http: Asking) -> None:
    seqs = _put(http, "a", "b", "c")

    with http.events("/v0/topics/mails/work", node="w1", max=2) as events, Asking(server) as other:
        first, second = next(events), next(events)
        held = http_state(other)["in_flight"]
        other.post("/v0/topics/mails/ack", {"node": "w1", "seqs": [first.data["$seq"]]})
        third = next(events)

    assert [each.event for each in (first, second, third)] == ["job"] * 3
    assert [int(each.id) for each in (first, second, third)] == seqs
    assert held == 2


def http_state(http: Asking) -> dict[str, int]:
    return http.get("/v0/queues/mails")


def test_a_stream_that_is_closed_gives_back_its_jobs_and_no_others(
    server: Running, http: Asking
) -> None:
    _put(http, "a", "b")
    (own,) = _claim(http)

    with http.events("/v0/topics/mails/work", node="w1") as events:
        pushed = next(events)

    with Asking(server) as other:
        _until(lambda: http_state(other)["ready"] == 1)
        (again,) = _claim(other)
    assert pushed.data["data"] == again["data"] == "b"
    ack = {"node": "w1", "seqs": [own["$seq"]], "lease_ids": [own["lease_id"]]}
    with Asking(server) as other:
        assert other.post("/v0/topics/mails/ack", ack)["acked"] == 1


def test_a_job_whose_lease_is_over_comes_again_on_the_same_stream(http: Asking) -> None:
    _put(http, "a")

    with http.events("/v0/topics/mails/work", node="w1", lease_ms=100) as events:
        first, second = next(events), next(events)

    assert first.data["$seq"] == second.data["$seq"]
    assert first.data["lease_id"] != second.data["lease_id"]
    assert second.data["deliveries"] == 2


def test_leases_hold_over_a_restart_and_their_ids_are_never_given_again(tmp_path: Path) -> None:
    with running(tmp_path) as server, Asking(server) as http:
        server.store.queue("mails")
        held, done = _put(http, "held", "done")
        before = _claim(http, max=2)
        http.post("/v0/topics/mails/ack", {"node": "w1", "seqs": [done]})
    with running(tmp_path) as server, Asking(server) as http:
        nothing = _claim(http)
        ack = {"node": "w1", "seqs": [held], "lease_ids": [before[0]["lease_id"]]}
        http.post("/v0/topics/mails/nack", ack)
        (again,) = _claim(http)

    assert nothing == []
    assert again["$seq"] == held
    assert again["lease_id"] not in {job["lease_id"] for job in before}


def test_two_workers_that_die_at_random_never_hold_a_job_both(
    server: Running, http: Asking
) -> None:
    """Connections are cut in the middle of work; a job is done by one, under the lease it has."""
    chance = random.Random(17)
    server.store.views.alter("queue", "mails", deliveries_max=0)
    wanted = _put(http, *range(40))
    acked: list[int] = []
    leases: list[str] = []

    def work_once(name: str) -> None:
        with (
            Asking(server) as own,
            Asking(server) as other,
            own.events("/v0/topics/mails/work", node=name, max=2) as events,
        ):
            for event in itertools.islice(events, chance.randint(1, 4)):
                job = event.data
                leases.append(job["lease_id"])
                if chance.random() < 0.3:
                    return
                ack = {"node": name, "seqs": [job["$seq"]], "lease_ids": [job["lease_id"]]}
                acked.extend([job["$seq"]] * other.post("/v0/topics/mails/ack", ack)["acked"])

    def work(name: str) -> None:
        with contextlib.suppress(httpx2.HTTPError, Refusal):  # the server goes down in the end
            while len(acked) < len(wanted):
                work_once(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("w1", "w2")]
    for thread in threads:
        thread.start()
    _until(lambda: len(acked) >= len(wanted))
    server.stop()
    for thread in threads:
        thread.join(DEADLINE_S)

    assert sorted(acked) == wanted
    assert len(set(leases)) == len(leases) > len(wanted)


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/v0/topics/nothing/claim", {"node": "w"}, 404, "topic_not_found"),
        ("/v0/topics/plain/claim", {"node": "w"}, 409, "not_a_queue"),
        ("/v0/topics/mails/claim", {}, 400, "invalid_request"),
        ("/v0/topics/mails/ack", {"node": "w", "seqs": []}, 400, "invalid_request"),
        ("/v0/topics/mails/ack", {"node": "w", "seqs": [1] * 1001}, 400, "batch_too_large"),
        (
            "/v0/topics/mails/ack",
            {"node": "w", "seqs": [1], "lease_ids": []},
            400,
            "invalid_request",
        ),
        (
            "/v0/topics/mails/ack",
            {"node": "w", "seqs": [1], "lease_ids": ["x"]},
            400,
            "invalid_request",
        ),
        (
            "/v0/topics/mails/nack",
            {"node": "w", "seqs": [1], "delay_ms": -1},
            400,
            "invalid_request",
        ),
        ("/v0/queues/mails/jobs", {"jobs": []}, 400, "invalid_request"),
        ("/v0/queues/mails/jobs", {"jobs": [{}]}, 400, "invalid_request"),
        (
            "/v0/queues/mails/jobs",
            {"jobs": [{"data": 1, "key": "a", "key_base64": "YQ=="}]},
            400,
            "invalid_request",
        ),
        ("/v0/queues/mails/jobs", {"jobs": [{"data": 1, "priority": 999}]}, 400, "invalid_request"),
        ("/v0/queues/mails/release", {"node": ""}, 400, "invalid_request"),
    ],
)
def test_what_is_wrong_is_told_with_its_code(
    server: Running, http: Asking, path: str, body: object, status: int, code: str
) -> None:
    server.store.topic("plain")

    with pytest.raises(Refusal) as refusal:
        http.post(path, body)

    assert (refusal.value.status, refusal.value.code) == (status, code)


def test_a_huge_seq_is_skipped_and_no_error(http: Asking) -> None:
    done = http.post("/v0/topics/mails/ack", {"node": "w1", "seqs": [2**63, 0]})

    assert done["skipped"] == [2**63, 0]


def test_a_claim_gets_no_more_than_the_limit(tmp_path: Path) -> None:
    settings = ServerSettings(limits=RequestLimits(claim_max=3))
    with running(tmp_path, settings=settings) as server, Asking(server) as http:
        server.store.queue("mails")
        _put(http, *range(5))

        assert len(_claim(http, max=1000)) == 3
        assert len(http.get("/v0/queues/mails/peek", max=1000)["jobs"]) == 2


def test_a_worker_may_claim_and_ack_without_the_right_to_put(tmp_path: Path) -> None:
    tokens = {"worker": "consume:mails", "putter": "write:mails", "other": "consume,write:else"}
    with running(tmp_path, tokens=tokens) as server:
        server.store.queue("mails")
        with Asking(server, "putter") as putter, Asking(server, "worker") as worker:
            (seq,) = _put(putter, 1)
            _claim(worker)
            acked = worker.post("/v0/topics/mails/ack", {"node": "w1", "seqs": [seq]})
            with pytest.raises(Refusal) as no_put:
                _put(worker, 1)
            with pytest.raises(Refusal) as no_claim:
                _claim(putter)
        with (
            Asking(server, "other") as other,
            pytest.raises(Refusal) as no_events,
            other.events("/v0/topics/mails/work", node="w"),
        ):
            pass

    assert acked["acked"] == 1
    refusals = (no_put, no_claim, no_events)
    assert [each.value.status for each in refusals] == [403, 403, 403]


def _is_waited_for(server: Running) -> bool:
    """Whether somebody has looked, found nothing, and waits for a record."""
    return bool(server.store.topic("mails")._state.waiters)


def _until(true: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + deadline_s
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)
