"""One cluster for all tests here; whoever kills a worker starts another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.standalone import Cluster, running

WORKERS = 2


@pytest.fixture(scope="session", autouse=True)
def _java(java: None) -> None:
    """Every test of this folder starts Spark."""


@pytest.fixture(scope="package")
def standing(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("cluster"), workers=WORKERS) as made:
        yield made


@pytest.fixture
def cluster(standing: Cluster) -> Cluster:
    """A master and two workers, whatever the last test did to them."""
    standing.wait_alive(WORKERS)
    return standing


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    folder = tmp_path / "gate"
    folder.mkdir()
    return folder
