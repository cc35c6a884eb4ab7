"""Stores of every kind, for tests that must not tell them apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

import strandline
from tests.conformance.faces.awaiting import Awaited, Loop
from tests.server.running import running

FACES = ("embedded", "blocking", "asynchronous")
_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=FACES)
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """One store for all tests of a file: each uses names of its own."""
    path = tmp_path_factory.mktemp(request.param)
    if request.param == "embedded":
        with strandline.open(str(path)) as opened:
            yield opened
        return
    with running(path) as server:
        if request.param == "blocking":
            with strandline.connect(server.url) as connected:
                yield connected
            return
        loop = Loop()
        try:
            with Awaited(strandline.connect_async(server.url), loop) as awaited:
                yield awaited
        finally:
            loop.close()


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"t{next(_numbers)}"
