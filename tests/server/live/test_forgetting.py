"""Promise: a watch session is forgotten at once when its owner says so, and by nobody else."""

from __future__ import annotations

from pathlib import Path

from tests.server.live.watching import Reader, post, seqs, watch
from tests.server.running import running


def test_a_session_that_is_deleted_is_gone_and_its_stream_ends(tmp_path: Path):
    with running(tmp_path) as server:
        server.store.topic("forgotten")
        url = watch(server, {"forgotten": {}})["stream_url"]
        with Reader(server, url) as reader:
            reader.until("caught-up")
            first = post(server, url, None, method="DELETE")
            rest = reader.next()
        second = post(server, url, None, method="DELETE")
        with Reader(server, url) as reader:
            again = reader.response.status

    assert (first[0], first[1]["forgotten"], rest) == (200, True, None)
    assert (second[0], second[1]["error"]["code"], again) == (404, "not_found", 404)


def test_nobody_else_forgets_a_session(tmp_path: Path):
    with running(tmp_path, tokens={"ada": "read:*", "bob": "all"}) as server:
        server.store.topic("orders").append(b"1")
        ada = server.tokens["ada"]
        url = watch(server, {"orders": {}}, token=ada)["stream_url"]
        others = [
            post(server, url, None, token, method="DELETE")[0]
            for token in (server.tokens["bob"], "")
        ]
        with Reader(server, url, token=ada) as reader:
            events = reader.until("caught-up")

    assert others == [404, 401]
    assert seqs(events) == [1]
