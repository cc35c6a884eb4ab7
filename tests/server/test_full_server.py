"""A server that holds as much as it may takes nothing more in, by whatever way it comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.server.settings import RequestLimits, ServerSettings
from tests.server.asking import Asking, Refusal
from tests.server.running import running

WRITES = [
    ("/v0/queues/jobs/jobs", {"jobs": [{"data": "x" * 2000}]}),
    ("/v0/kv/map/put", {"key": "a", "value": "x" * 2000}),
    ("/v0/kv/map/put_many", {"values": [{"key": "a", "value": "x" * 2000}]}),
    ("/v0/kv/map/batch", {"operations": [{"key": "a", "value": "x" * 2000}]}),
    ("/v0/kv/map/commit", {"writes": [{"key": "a", "value": "x" * 2000}]}),
    ("/v0/kv/map/json_set", {"key": "a", "path": "$", "value": "x" * 2000}),
    ("/v0/series/points/append", {"points": [{"source": 1, "at": 1, "payload": "x" * 2000}]}),
    ("/v0/tables/pay/store", {"context": "ada", "event": {"note": "x" * 2000}}),
    ("/v0/command", {"command": f'STORE pay FOR ada PAYLOAD {{"note": "{"x" * 2000}"}}'}),
    ("/v0/measurements/load/write", {"measurement": "m" * 200, "fields": {"f" * 2000: 1}}),
]


def test_writes_to_views_are_refused_and_reads_go_on(tmp_path: Path) -> None:
    settings = ServerSettings(limits=RequestLimits(total_bytes_max=1500))
    with running(tmp_path, settings=settings) as server, Asking(server) as http:
        store = server.store
        store.queue("jobs")
        store.kv("map").put("a", b"1")
        store.series("points")
        store.metrics("load")
        store.run('DEFINE pay FIELDS {note: "string"}')
        refused = [_refusal(http, path, body) for path, body in WRITES]

        assert refused == [(429, "throttled")] * len(WRITES)
        assert http.post("/v0/kv/map/get", {"key": "a"})["entry"]["value"] == 1
        assert http.post("/v0/kv/map/delete", {"key": "a"})["deleted"] is True


def _refusal(http: Asking, path: str, body: object) -> tuple[int, str]:
    with pytest.raises(Refusal) as refusal:
        http.post(path, body)
    return refusal.value.status, refusal.value.code
