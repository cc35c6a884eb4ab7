"""A headless Chromium, driven by its own protocol: goes to a page, and is asked what is on it."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
]
WAIT_S_MAX = 30.0


class Page:
    """One tab. Owned by one test."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []
        """What was said on the page's console: exceptions, and what its policy has stopped."""
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            told = json.loads(self._socket.recv(timeout=WAIT_S_MAX))
            if told.get("id") == number:
                assert "error" not in told, told
                return told["result"]
            self._note(told)

    def go(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def value(self, script: str) -> Any:
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, script: str) -> Any:
        """The value of a script, once it is true."""
        deadline = time.monotonic() + WAIT_S_MAX
        while not (found := self.value(script)):
            assert time.monotonic() < deadline, (script, self.value("document.body.innerText"))
            time.sleep(0.05)
        return found

    def _note(self, told: dict[str, Any]) -> None:
        if told["method"] == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["params"]["exceptionDetails"]))
        elif told["method"] == "Log.entryAdded":
            self.complaints.append(told["params"]["entry"]["text"])


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        if os.environ.get("CI") == "true" and os.geteuid() == 0:
            pytest.fail("Chromium is not installed, and make test fetches it")
        pytest.skip("Chromium is not installed")
    with subprocess.Popen(
        [program, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HOME": str(folder)},
    ) as process:
        try:
            yield from _page(process)
        finally:
            process.kill()


def _page(process: subprocess.Popen[str]) -> Iterator[Page]:
    assert process.stderr is not None
    for line in process.stderr:
        found = re.search(r"DevTools listening on (ws://\S+)", line)
        if found:
            break
    else:
        pytest.fail("Chromium does not start")
    with connect(found[1], max_size=None) as whole:
        made = _asked(whole, 1, "Target.createTarget", url="about:blank")
        address = found[1].rpartition("/devtools/")[0]
        with connect(f"{address}/devtools/page/{made['targetId']}", max_size=None) as socket:
            yield Page(socket)


def _asked(socket: Any, number: int, method: str, **params: Any) -> Any:
    socket.send(json.dumps({"id": number, "method": method, "params": params}))
    while True:
        told = json.loads(socket.recv(timeout=WAIT_S_MAX))
        if told.get("id") == number:
            return told["result"]
