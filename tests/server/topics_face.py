"""Topics over HTTP, in as few words as a test wants."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.server.running import Running


class Face:
    """One client of a running server."""

    def __init__(self, server: Running, **headers: str) -> None:
        self.server = server
        self.client = httpx2.Client(base_url=server.url, headers=headers, timeout=30.0)

    def __enter__(self) -> Face:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx2.Response:
        return self.client.request(method, path, json=body, **more)

    def put(self, topic: str, **config: Any) -> dict[str, Any]:
        return self.good("PUT", f"/v0/topics/{topic}", config)

    def append(self, topic: str, *data: Any, **options: Any) -> dict[str, Any]:
        records = [each if _is_record(each) else {"data": each} for each in data]
        return self.good("POST", f"/v0/topics/{topic}", {"records": records, **options})

    def diff(self, topic: str, **options: Any) -> dict[str, Any]:
        return self.good("POST", f"/v0/topics/{topic}/diff", options)

    def state(self, topic: str) -> dict[str, Any]:
        return self.good("GET", f"/v0/topics/{topic}")

    def delete(self, topic: str, **which: Any) -> dict[str, Any]:
        return self.good("POST", f"/v0/topics/{topic}/delete", which)

    def good(self, method: str, path: str, body: Any = None, **more: Any) -> dict[str, Any]:
        """The answer of a request that must not fail."""
        answer = self.ask(method, path, body, **more)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def refused(
        self, method: str, path: str, body: Any = None, **more: Any
    ) -> tuple[int, str, dict[str, Any]]:
        """Status, code and detail of a request that must fail."""
        answer = self.ask(method, path, body, **more)
        told = answer.json()["error"]
        assert told["message"]
        return answer.status_code, told["code"], told.get("detail", {})


def _is_record(value: Any) -> bool:
    return isinstance(value, dict) and ("data" in value or "data_base64" in value)


def seqs(page: dict[str, Any]) -> list[int]:
    return [record["$seq"] for record in page["records"]]


def values(page: dict[str, Any]) -> list[Any]:
    return [record["data"] for record in page["records"]]
