"""The object stores that the tests of this folder run against, each started once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline.config.settings import ObjectSettings
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects
from strandline.testing.sim_objects import SimObjects
from tests.integration.azurite import Azurite
from tests.integration.ceph import Ceph
from tests.integration.services import Moto, Service, fresh_name
from tests.spark.conftest import spark  # noqa: F401 - a fixture

QUICK = ObjectSettings(attempts_max=4, delay_s_first=0.01, request_s_max=10, retry_s_max=20)
SERVICES: dict[str, Callable[[Path], Service]] = {"moto": Moto, "azurite": Azurite, "ceph": Ceph}


class Remote:
    """A service with a bucket of its own for one test."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.bucket = fresh_name("bucket")
        service.make_bucket(self.bucket)

    def open(
        self,
        *,
        port: int | None = None,
        bucket: str | None = None,
        settings: ObjectSettings = QUICK,
        **options: str,
    ) -> Objects:
        service = self.service
        return open_objects(
            f"{service.scheme}://{bucket or self.bucket}/some/prefix",
            options={**service.options_at(port or service.port), **options},
            settings=settings,
        )


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Service]]:
    """Gives a running service by its name."""

    running: dict[str, Service] = {}
    broken: dict[str, BaseException] = {}

    def give(name: str) -> Service:
        if name in broken:
            raise broken[name]
        if name not in running:
            service = SERVICES[name](tmp_path_factory.mktemp(name))
            try:
                service.start()
            except BaseException as error:  # that a test is to be skipped is one, too
                service.stop()
                broken[name] = error
                raise
            running[name] = service
        return running[name]

    yield give
    for service in running.values():
        service.stop()


@pytest.fixture(params=[*SERVICES])
def remote(request: pytest.FixtureRequest, services: Callable[[str], Service]) -> Remote:
    """One after another, every service."""
    return Remote(services(request.param))


@pytest.fixture(params=["memory", "folder", "sim", *SERVICES])
def objects(
    request: pytest.FixtureRequest, tmp_path: Path, services: Callable[[str], Service]
) -> Iterator[Objects]:
    """One after another, every kind of object store."""
    made: Objects
    match request.param:
        case "memory":
            made = open_objects("memory://")
        case "folder":
            made = open_objects(str(tmp_path / "lake"))
        case "sim":
            made = SimObjects()
        case name:
            made = Remote(services(name)).open()
    yield made
    made.close()
