"""Promise: a reservoir behaves the same in memory, in a folder and in every real object store.

What was acknowledged is there whatever happens on the way: lost replies, resets, 500 and 503, a
gateway that is killed in the middle of uploads.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator

import pytest

from strandline.config.settings import ObjectSettings, ReservoirSettings
from strandline.errors import Fenced, ObjectStoreUnreachable, StrandlineError
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir.reservoir import Reservoir
from tests.integration.conftest import Remote
from tests.integration.proxy import Proxy
from tests.integration.refusing import RESET, Refusing

SETTINGS = ReservoirSettings(file_bytes=30_000, snapshot_interval=5, retained_versions=2)
PATIENT = ObjectSettings(attempts_max=8, delay_s_first=0.01, request_s_max=10, retry_s_max=30)
HASTY = ObjectSettings(attempts_max=2, delay_s_first=0.01, request_s_max=5, retry_s_max=5)
DEADLINE_S = 60.0
PAGES = range(1, 32)
Model = dict[int, bytes]


def open_on(objects: Objects, *, readonly: bool = False, settings: ReservoirSettings = SETTINGS,
            cache_folder: str | None = None) -> Reservoir:  # fmt: skip
    return Reservoir(
        objects,
        settings=settings,
        readonly=readonly,
        cache_folder=cache_folder,
        start_jobs=False,
    )


def change(reservoir: Reservoir, model: Model, salt: int, *, size: int = 3000) -> None:
    """Twenty pages, one delete: more than one file, when pages are large."""
    rng = random.Random(salt)
    with reservoir.session() as session:
        for page in range(1 + salt % 10, 21 + salt % 10):
            model[page] = rng.randbytes(size)
            session.write(page, model[page])
        session.delete(1 + salt % 7)
        model.pop(1 + salt % 7, None)
        session.commit()


def check(reservoir: Reservoir, model: Model) -> None:
    assert {page: reservoir.read(page) for page in PAGES} == {
        page: model.get(page) for page in PAGES
    }
    assert len(reservoir) == len(model)


@pytest.mark.parametrize("cached", [False, True], ids=["bare", "cached"])
def test_pages_are_written_checkpointed_and_found_again(objects: Objects, tmp_path, cached: bool):
    cache_folder = str(tmp_path / "cache") if cached else None
    model: Model = {}
    with open_on(objects, cache_folder=cache_folder) as reservoir:
        for salt in range(8):
            change(reservoir, model, salt, size=3000 if salt % 2 else 30)
            check(reservoir, model)
            version = reservoir.checkpoint(b"%d" % salt)
        check(reservoir, model)

    with open_on(objects, cache_folder=cache_folder) as again:
        assert (again.recovered.version, again.meta) == (version, b"7")
        assert not again.recovered.passed_over
        assert not again.recovered.missing
        check(again, model)
        change(again, model, 9)
        again.checkpoint()
    with open_on(objects, readonly=True) as reader:
        check(reader, model)


def test_nothing_that_is_old_stays_behind(objects: Objects):
    model: Model = {}
    with open_on(objects) as reservoir:
        for salt in range(30):
            change(reservoir, model, salt % 3, size=3000 if salt % 2 else 30)
            reservoir.checkpoint()
        told = reservoir.statistics()

    stored = [info.key for info in objects.list()]
    assert len([key for key in stored if key.startswith("data/")]) <= (
        told.files + told.garbage_files
    )
    assert len(stored) <= told.files + told.garbage_files + 2 * SETTINGS.snapshot_interval + 2


def test_of_two_writers_the_older_is_fenced(objects: Objects):
    model: Model = {}
    older = open_on(objects)
    change(older, model, 1)
    older.checkpoint()
    newer = open_on(objects)
    check(newer, model)

    with older.session() as session:
        session.write(5, b"too late")
        session.commit()
    with pytest.raises(Fenced):
        older.checkpoint()
    session = older.session()
    with pytest.raises(Fenced):
        session.write(6, b"x")
    change(newer, model, 2)
    newer.checkpoint()

    older.close()
    newer.close()
    with open_on(objects) as found:
        check(found, model)


def test_small_checkpoints_cost_one_put_each_and_recovery_one_list(objects: Objects):
    often = ReservoirSettings(snapshot_interval=20)
    with open_on(objects, settings=often) as reservoir:
        before = reservoir.requests()
        for number in range(20):
            with reservoir.session() as session:
                session.write(number + 1, b"small")
                session.commit()
            reservoir.checkpoint()
        told = reservoir.requests() - before

    with open_on(objects, settings=often, readonly=True) as again:
        found = again.requests()

    assert (told.puts, told.gets, told.lists) == (20, 0, 0)
    assert found.lists == 1
    assert found.gets <= 21
    assert found.puts == 0


@pytest.fixture
def refusing(remote: Remote) -> Iterator[Refusing]:
    made = Refusing(remote.service.port)
    yield made
    made.close()


@pytest.fixture
def proxy(remote: Remote) -> Iterator[Proxy]:
    made = Proxy(remote.service.port)
    yield made
    made.close()


@pytest.mark.parametrize("status", [500, 503, RESET], ids=["500", "503", "reset"])
def test_a_store_that_refuses_every_third_request_costs_nothing(
    remote: Remote, refusing: Refusing, status: int
):
    model: Model = {}
    refusing.refuse(status, every=3)

    with open_on(remote.open(port=refusing.port, settings=PATIENT)) as reservoir:
        for salt in range(6):
            change(reservoir, model, salt, size=3000 if salt % 2 else 30)
            reservoir.checkpoint()
        check(reservoir, model)

    assert refusing.refused > 5
    with open_on(remote.open()) as again:
        check(again, model)


@pytest.mark.parametrize("method", ["PUT", "GET", "POST", "DELETE"])
def test_lost_replies_cost_nothing(remote: Remote, proxy: Proxy, method: str):
    model: Model = {}
    with open_on(remote.open(port=proxy.port, settings=PATIENT)) as reservoir:
        for salt in range(8):
            proxy.lose_replies(method, 1)
            change(reservoir, model, salt, size=3000 if salt % 2 else 30)
            reservoir.checkpoint()
        check(reservoir, model)

    with open_on(remote.open()) as again:
        assert not again.recovered.passed_over
        check(again, model)


def test_a_checkpoint_whose_reply_was_lost_for_good_is_recognised_later(
    remote: Remote, proxy: Proxy
):
    """The version is there, its maker does not know; he repeats, and is not his own enemy."""
    model: Model = {}
    with open_on(remote.open(port=proxy.port, settings=HASTY)) as reservoir:
        change(reservoir, model, 1, size=30)
        proxy.lose_replies("PUT", 100)
        with pytest.raises(ObjectStoreUnreachable):
            reservoir.checkpoint(b"lost")
        proxy.lose_replies("PUT", 0)
        change(reservoir, model, 2, size=30)

        version = reservoir.checkpoint(b"found")

    with open_on(remote.open()) as again:
        assert (again.recovered.version, again.meta) == (version, b"found")
        check(again, model)


@pytest.mark.parametrize("remote", ["ceph"], indirect=True)  # the others forget everything
def test_a_gateway_killed_in_the_middle_of_uploads_loses_nothing(remote: Remote):
    service, rng, model = remote.service, random.Random(5), {}
    reservoir = open_on(remote.open(settings=HASTY))
    acknowledged = 0
    for salt in range(4):
        change(reservoir, model, salt)
        worker = threading.Thread(target=checkpoint_if_it_can, args=(reservoir,))
        worker.start()
        worker.join(rng.random() * 0.1)
        service.kill()
        worker.join(DEADLINE_S)
        assert not worker.is_alive()
        service.restart()
        acknowledged = reservoir.checkpoint()
        check(reservoir, model)

    with open_on(remote.open()) as again:
        assert again.recovered.version == acknowledged
        assert not again.recovered.passed_over
        check(again, model)
    reservoir.close()


@pytest.mark.parametrize("remote", ["ceph"], indirect=True)
def test_a_process_that_dies_with_its_gateway_leaves_what_was_acknowledged(remote: Remote):
    service, model = remote.service, {}
    reservoir = open_on(remote.open(settings=HASTY))
    change(reservoir, model, 1)
    version = reservoir.checkpoint()
    later = dict(model)
    change(reservoir, later, 2)
    worker = threading.Thread(target=checkpoint_if_it_can, args=(reservoir,))
    worker.start()
    service.kill()
    worker.join(DEADLINE_S)
    reservoir.close()
    service.restart()

    with open_on(remote.open()) as again:
        assert again.recovered.version in (version, version + 1)
        check(again, model if again.recovered.version == version else later)


def checkpoint_if_it_can(reservoir: Reservoir) -> None:
    with contextlib.suppress(StrandlineError):
        reservoir.checkpoint()
