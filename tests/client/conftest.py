"""A server for the tests of a file, and a proxy before it that loses connections."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.client.cutting import CuttingProxy
from tests.server.running import Running, running

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("served")) as made:
        yield made


@pytest.fixture(scope="module")
def proxy(server: Running) -> Iterator[CuttingProxy]:
    made = CuttingProxy(server.port)
    yield made
    made.close()


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"t{next(_numbers)}"
