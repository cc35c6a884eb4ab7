"""One cluster for all tests here; whoever kills a worker starts another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.errors import NotInstalled
from strandline.spark.sessions import check_java
from tests.cluster.standalone import Cluster, running

WORKERS = 2


@pytest.fixture(scope="session", autouse=True)
def java() -> None:
    try:
        check_java()
    except NotInstalled as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


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
