"""Clients for tests of live delivery: a reader of server-sent events over a plain connection."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from typing import Any, NamedTuple

from tests.server.running import Running

DEADLINE_S = 30.0


class Event(NamedTuple):
    """One server-sent event, or a comment (``name`` is empty then)."""

    name: str
    id: str
    data: Any
    comment: str = ""


class Reader:
    """Reads the stream of one session. Its deadline is that of its socket."""

    def __init__(
        self, server: Running, url: str, last_id: str = "", token: str = "", buffer: int = 0
    ) -> None:
        headers = {"Accept": "text/event-stream"}
        if last_id:
            headers["Last-Event-ID"] = last_id
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._connection = http.client.HTTPConnection(server.host, server.port, DEADLINE_S)
        if buffer:
            self._connection.sock = socket.socket()
            self._connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            self._connection.sock.settimeout(DEADLINE_S)
            self._connection.sock.connect((server.host, server.port))
        self._connection.request("GET", url, headers=headers)
        self.response = self._connection.getresponse()
        self.last_id = last_id

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cut the connection."""
        self.response.close()
        self._connection.close()

    def next(self) -> Event | None:
        """The next event or comment, None when the stream has ended."""
        name, told_id, data, comment = "", "", [], ""
        while line := self.response.readline():
            text = line.decode().rstrip("\n")
            if not text:
                if told_id:
                    self.last_id = told_id
                if name or comment:
                    return Event(name, told_id, json.loads("\n".join(data) or "null"), comment)
                name, told_id, data = "", "", []
                continue
            field, _, value = text.partition(": ")
            if field == "event":
                name = value
            elif field == "id":
                told_id = value
            elif field == "data":
                data.append(value)
            elif field == "":
                comment = value
        return None

    def until(self, name: str, **wanted: Any) -> list[Event]:
        """Events up to the first of a name whose data has these values."""
        found = []
        while event := self.next():
            found.append(event)
            fits = all(event.data.get(key) == value for key, value in wanted.items())
            if event.name == name and fits:
                return found
        raise AssertionError(f"the stream ended after {found[-3:]}")

    def records_to(self, seq: int, topic: str = "") -> list[Event]:
        """Events up to the one that carries a seq, or leaves it out."""
        found = []
        while event := self.next():
            found.append(event)
            if topic and event.data and event.data.get("topic") != topic:
                continue
            if event.name == "record" and event.data["to_seq"] >= seq:
                return found
            if event.name == "tombstone" and event.data["gap_to"] >= seq:
                return found
        raise AssertionError(f"the stream ended after {found[-3:]}")


def post(
    server: Running, path: str, body: Any, token: str = "", method: str = "POST"
) -> tuple[int, Any]:
    """Status and body of a request."""
    connection = http.client.HTTPConnection(server.host, server.port, DEADLINE_S)
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    connection.request(method, path, json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text else None


def watch(server: Running, topics: dict[str, Any], token: str = "", **options: Any) -> Any:
    """A new session."""
    status, answer = post(server, "/v0/watch", {"topics": topics, **options}, token)
    assert status == 200, answer
    return answer


def seqs(events: list[Event], topic: str = "") -> list[int]:
    """The seqs of the records in events."""
    return [
        record["$seq"]
        for event in events
        if event.name == "record" and (not topic or event.data["topic"] == topic)
        for record in event.data["records"]
    ]


def gaps(events: list[Event]) -> list[tuple[int, int]]:
    """What was told to be lost."""
    return [
        (event.data["gap_from"], event.data["gap_to"])
        for event in events
        if event.name == "tombstone"
    ]


def wait_until_gone(server: Running) -> None:
    """Until the server has seen that nobody watches any more."""
    deadline = threading.Event()
    for _ in range(3000):
        if not server.parts.hub.streams:
            return
        deadline.wait(0.01)
    raise AssertionError("a stream never ended")
