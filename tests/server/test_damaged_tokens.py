"""Promise: a server that cannot trust its tokens or its audit log does not start."""

from __future__ import annotations

import subprocess
from pathlib import Path

import httpx2
import pytest

import strandline
from strandline.cli.errors import DAMAGED
from strandline.cli.main import run
from strandline.security import audit, token_store
from tests.server.process import PROGRAM
from tests.server.running import DEADLINE_S, running


def _damage_tokens(store: strandline.Store, id: str) -> None:
    store.kv(token_store.TOPIC).put(f"token:{id}", b"{}")


def _forge_an_entry(store: strandline.Store, _id: str) -> None:
    store.topic(audit.TOPIC).append(b'{"forged": true}')


@pytest.mark.parametrize(
    ("damage", "remedy"),
    [
        (_damage_tokens, ["token", "revoke", "--all"]),
        (_forge_an_entry, ["audit", "restart", "--yes"]),
    ],
)
def test_a_server_does_not_start_until_somebody_has_looked(
    tmp_path: Path, monkeypatch, damage, remedy: list[str]
):
    monkeypatch.setenv("STRANDLINE_STORE", str(tmp_path / "data"))
    with running(tmp_path, tokens={"root": "all"}) as server:
        damage(server.store, server.tokens["root"].split("_")[1])

    refused = subprocess.run(
        [*PROGRAM, "--data", str(tmp_path / "data"), "--bind", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    mended = run(remedy)

    assert refused.returncode == DAMAGED
    assert " ".join(remedy[:2]) in refused.stderr
    assert "Traceback" not in refused.stderr
    assert mended == 0
    with running(tmp_path) as server:
        assert httpx2.get(f"{server.url}/v0/topics").status_code == 401


def test_a_server_that_runs_lets_nobody_in_any_more(tmp_path: Path):
    with running(tmp_path, tokens={"root": "all"}) as server:
        headers = {"authorization": f"Bearer {server.tokens['root']}"}
        before = httpx2.get(f"{server.url}/v0/topics", headers=headers)
        _damage_tokens(server.store, server.tokens["root"].split("_")[1])
        after = [
            httpx2.get(f"{server.url}/v0/topics", headers=headers),
            httpx2.get(f"{server.url}/v0/topics"),
            httpx2.post(
                f"{server.url}/v0/topics/orders", json={"records": [{"data": 1}]}, headers=headers
            ),
        ]

    assert before.status_code == 200
    assert [answer.status_code for answer in after] == [503] * 3
