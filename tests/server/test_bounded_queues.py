"""Promise: jobs that come as plain appends are admitted as those of a put: by memory, by caps, on
every way into the server; and a queue that is not in use is opened on a thread, not on the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.config.settings import Settings, ViewSettings
from strandline.server.settings import ServerSettings
from tests.server.asking import Asking, Refusal
from tests.server.running import running

_BATCH = {"records": [{"data": 1}] * 1000}
_ONE = {"records": [{"data": 1}]}
_JOBS = {"jobs": [{"data": 1}] * 1000}


@pytest.fixture
def http(tmp_path: Path) -> Iterator[Asking]:
    small = ServerSettings(store=Settings(views=ViewSettings(memory_bytes=2 << 20)))
    with running(tmp_path, settings=small) as server, Asking(server) as http:
        yield http


def _flood(http: Asking, path: str, body: object) -> int:
    """How many requests are taken before one is refused for want of memory."""
    for taken in range(2000):
        try:
            http.post(path, body)
        except Refusal as refused:
            if (refused.status, refused.code) != (429, "throttled"):
                raise
            return taken
    return 2000


def test_plain_appends_stop_where_puts_stop(http: Asking) -> None:
    http.put("/v0/topics/q", {"type": "queue"})

    taken = _flood(http, "/v0/topics/q", _BATCH)

    assert 0 < taken < 2000
    assert _flood(http, "/v0/queues/q/jobs", _JOBS) == 0
    assert _flood(http, "/v0/topics/q", _BATCH) == 0
    assert http.get("/v0/queues/q")["ready"] == taken * 1000
    http.post("/v0/topics/plain", _BATCH)

    assert http.post("/v0/queues/q/purge", {"to_seq": 1})["purged"] == 1
    assert http.post("/v0/queues/q/purge", {"dry_run": True})["purged"] == taken * 1000 - 1
    assert http.post("/v0/queues/q/purge", {})["purged"] == taken * 1000 - 1
    assert http.get("/v0/topics/q")["count"] == 0


def test_a_full_queue_refuses_plain_appends_with_422(http: Asking) -> None:
    http.put("/v0/topics/q", {"type": "queue", "cap_records": 3, "discard": "reject"})
    for _ in range(3):
        http.post("/v0/topics/q", _ONE)

    for path, body in (("/v0/topics/q", _ONE), ("/v0/queues/q/jobs", {"jobs": [{"data": 1}]})):
        with pytest.raises(Refusal) as refused:
            http.post(path, body)
        assert (refused.value.status, refused.value.code) == (422, "topic_full")

    http.post("/v0/topics/q/claim", {"node": "w"})
    assert http.post("/v0/topics/q", _ONE)["last_seq"] == 4


def test_settings_of_a_queue_change_over_http(http: Asking) -> None:
    http.put("/v0/topics/q", {"type": "queue"})
    http.post("/v0/topics/q", {"records": [{"data": each} for each in range(5)]})

    told = http.send("PATCH", "/v0/topics/q", {"cap_records": 2, "ttl_ms": 60_000})

    assert (told["config"]["cap_records"], told["config"]["ttl_ms"]) == (2, 60_000)
    claimed = http.post("/v0/topics/q/claim", {"node": "w", "max": 9})["claimed"]
    assert [job["data"] for job in claimed] == [3, 4]


def test_a_queue_that_is_not_in_use_is_opened_by_a_plain_append(tmp_path: Path) -> None:
    with running(tmp_path) as server, Asking(server) as http:
        http.put("/v0/topics/q", {"type": "queue", "cap_records": 2, "discard": "reject"})
        http.post("/v0/topics/q", _ONE)
    with running(tmp_path) as server, Asking(server) as http:
        assert not server.store.existing_topic("q").is_quick
        http.post("/v0/topics/q", _ONE)
        with pytest.raises(Refusal):
            http.post("/v0/topics/q", _ONE)
        assert http.get("/v0/queues/q")["ready"] == 2
