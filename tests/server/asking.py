"""Asks a running server, for tests of routes: JSON in, JSON out, and streams of events."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx2
import msgspec

from tests.server.running import DEADLINE_S, Running


class Event(NamedTuple):
    """One event of a stream."""

    event: str
    id: str
    data: Any


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, error: dict[str, Any]) -> None:
        super().__init__(f"{status} {error}")
        self.status = status
        self.code: str = error["code"]
        self.message: str = error["message"]
        self.detail: dict[str, Any] = error.get("detail", {})
        self.kind: str | None = self.detail.get("kind")


class Asking:
    """One client of a server."""

    def __init__(self, server: Running, token: str | None = None) -> None:
        headers = {} if token is None else {"authorization": f"Bearer {server.tokens[token]}"}
        self._client = httpx2.Client(base_url=server.url, headers=headers, timeout=DEADLINE_S)

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def post(self, path: str, body: Any = None, **query: object) -> Any:
        return self.send("POST", path, body, **query)

    def put(self, path: str, body: Any = None, **query: object) -> Any:
        return self.send("PUT", path, body, **query)

    def get(self, path: str, **query: object) -> Any:
        return self.send("GET", path, None, **query)

    def send(self, method: str, path: str, body: Any, **query: object) -> Any:
        content = b"" if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"content-type": "application/json"}
        answer = self.raw(method, path, content, headers, **query)
        return msgspec.json.decode(answer.content)

    def raw(
        self,
        method: str,
        path: str,
        content: bytes = b"",
        headers: dict[str, str] | None = None,
        **query: object,
    ) -> httpx2.Response:
        """The whole answer, when it is none that tells of an error."""
        answer = self._client.request(
            method, path, content=content, headers=headers or {}, params=query
        )
        if answer.status_code >= 400:
            raise Refusal(answer.status_code, msgspec.json.decode(answer.content)["error"])
        return answer

    @contextlib.contextmanager
    def events(self, path: str, **query: object) -> Iterator[Iterator[Event]]:
        """A stream of events, closed with its block."""
        headers = {"accept": "text/event-stream"}
        with self._client.stream("GET", path, headers=headers, params=query) as answer:
            if answer.status_code >= 400:
                answer.read()
                raise Refusal(answer.status_code, msgspec.json.decode(answer.content)["error"])
            yield _events(answer.iter_lines())


def _events(lines: Iterator[str]) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            data = msgspec.json.decode(fields["data"].encode())
            yield Event(fields.get("event", "message"), fields.get("id", ""), data)
            fields = {}
        else:
            fields = {}
