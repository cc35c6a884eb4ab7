"""Promise: no token, ticket or key is found again in logs, in the audit log or on disk."""

from __future__ import annotations

import base64
import contextlib
import signal
from pathlib import Path

import httpx2
import pytest
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

import strandline
from strandline.security.audit import TOPIC, decode, verify
from tests.server.process import Process, served
from tests.unit.store.world import read_all

KEY = "Correct-Horse-Battery-Staple"


def test_secrets_that_were_sent_anywhere_are_kept_nowhere(tmp_path: Path):
    with served(tmp_path, "--log-format", "json") as server:
        secrets = _use_secrets_everywhere(server)
        server.signal(signal.SIGTERM)
        _, said = server.ended()
    written = server.said + said
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    everything = {"the log": written} | {str(path): path.read_bytes() for path in files}

    found = [
        (name, place)
        for name, secret in secrets.items()
        for place, content in everything.items()
        if secret.encode() in content
    ]

    assert len(secrets) >= 5
    assert len(files) > 3
    assert found == []


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_nobody_writes_lines_of_his_own_into_logs(tmp_path: Path, log_format: str):
    evil = 'x%0d%0a{"event":"forged"}%1b[31m'
    with served(tmp_path, "--log-format", log_format) as server:
        base = f"http://127.0.0.1:{server.port}"
        for path in (f"/v0/topics/{evil}", f"/{evil}", f"/v0/tokens/{evil}"):
            httpx2.get(base + path, headers={"user-agent": "a\tb"})
        httpx2.post(f"{base}/v0/tokens", json={"scopes": "all", "principal": "root"})
        for name in ("ada\r\nforged", "\x1b[31mforged", "\u202eforged"):
            credentials = base64.b64encode(f"{name}:wrong".encode()).decode()
            httpx2.get(f"{base}/v0/topics", headers={"authorization": f"Basic {credentials}"})
        server.signal(signal.SIGTERM)
        _, said = server.ended()
    with strandline.open(str(tmp_path / "data"), readonly=True) as store:
        topic = store.existing_topic(TOPIC)
        entries = [decode(record) for record in read_all(topic)]
        holds = verify(topic).is_intact

    lines = (server.said + said).decode().splitlines()
    assert not any(line.startswith(("forged", '{"event":"forged"')) for line in lines)
    assert all(line.isprintable() for line in lines)
    named = [entry.what["named"] for entry in entries if entry.kind == "denied"]
    assert len(named) == 3
    assert all(word.isprintable() and "forged" in word for word in named)
    assert holds


def _use_secrets_everywhere(server: Process) -> dict[str, str]:
    """Send tokens of all kinds in all places; the parts that nobody may find again."""
    base = f"http://127.0.0.1:{server.port}"
    root = httpx2.post(f"{base}/v0/tokens", json={"scopes": "all"}).json()["token"]
    headers = {"authorization": f"Bearer {root}"}
    other = httpx2.post(f"{base}/v0/tokens", json={"scopes": "read"}, headers=headers).json()
    id = other["info"]["id"]
    rotated = httpx2.post(f"{base}/v0/tokens/{id}/rotate", json={}, headers=headers).json()
    ticket = httpx2.post(f"{base}/v0/tickets", headers=headers).json()["ticket"]
    command = {"command": f'CREATE USER ada WITH KEY "{KEY}"'}
    httpx2.post(f"{base}/v0/command", json=command, headers=headers)
    texts = {
        "root": root,
        "other": other["token"],
        "rotated": rotated["token"],
        "wrong": root[:-12] + "A" * 5 + root[-7:],
    }
    httpx2.delete(f"{base}/v0/tokens/{id}", headers=headers)
    for text in (*texts.values(), ticket):
        _send(base, text)
    login = base64.b64encode(f"ada:{KEY}".encode()).decode()
    httpx2.get(f"{base}/v0/topics", headers={"authorization": f"Basic {login}"})
    parts = {name: text.split("_", 2)[2][:43] for name, text in texts.items()}
    return parts | {"ticket": ticket.removeprefix("ticket1_"), "key": KEY, "login": login}


def _send(base: str, text: str) -> None:
    for headers in (
        {"authorization": f"Bearer {text}"},
        {"authorization": f"Basic {text}"},
        {"authorization": text},
        {"x-token": text, "user-agent": text, "referer": text},
    ):
        httpx2.get(f"{base}/v0/topics", headers=headers)
    for path in (f"/v0/topics?token={text}", f"/v0/watch/x?token={text}", f"/{text}"):
        httpx2.get(base + path, headers={"accept": "text/event-stream"})
    httpx2.post(f"{base}/v0/tokens", json={"scopes": text})
    address = f"{base.replace('http', 'ws', 1)}/v0/ws?token={text}"
    with contextlib.suppress(WebSocketException, OSError), connect(address) as ws:
        ws.send(f'{{"op": "auth", "token": "{text}!"}}')
        ws.recv(5)
