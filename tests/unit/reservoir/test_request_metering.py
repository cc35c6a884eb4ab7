"""Promise: what is asked of an object store is counted as it is billed, and changed in nothing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from strandline.config.settings import ReservoirSettings
from strandline.errors import Invalid, NotFound, ObjectExists, ObjectStoreUnreachable
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.local import FolderObjects
from strandline.platform.objectstore.protocol import CHUNK_SIZE
from strandline.reservoir.request_metering import CountedObjects, Prices, Requests
from strandline.reservoir.reservoir import Reservoir
from strandline.testing.sim_objects import SimObjects


@pytest.fixture
def store() -> SimObjects:
    return SimObjects()


@pytest.fixture
def counted(store: SimObjects) -> CountedObjects:
    return CountedObjects(store)


def test_every_kind_of_request_is_counted(counted: CountedObjects):
    counted.create("a", b"12345")
    counted.put("b", b"123")
    counted.get("a")
    counted.get_range("a", 1, 2)
    counted.get_ranges("a", [(0, 1), (3, 2)])
    counted.head("a")
    listed = [info.key for info in counted.list()]
    counted.delete(["a", "b"])

    assert listed == ["a", "b"]
    assert counted.requests() == Requests(
        puts=2, gets=4, lists=1, deletes=1, bytes_in=8, bytes_out=5 + 2 + 5
    )
    assert counted.requests().total == 8


def test_answers_and_failures_pass_through(store: SimObjects, counted: CountedObjects):
    store.put("a", b"12345")

    assert counted.name == store.name
    assert counted.get_ranges("a", [(3, 2), (0, 1)]) == [b"45", b"1"]
    assert counted.head("a") == store.head("a")
    for failure, request in (
        (NotFound, lambda: counted.get("none")),
        (NotFound, lambda: counted.head("none")),
        (Invalid, lambda: counted.get_range("a", 4, 2)),
        (ObjectExists, lambda: counted.create("a", b"54321")),
    ):
        with pytest.raises(failure):
            request()


def test_a_request_that_fails_is_billed_and_its_bytes_are_not(
    store: SimObjects, counted: CountedObjects
):
    store.fail("put")
    with pytest.raises(ObjectStoreUnreachable):
        counted.put("a", b"12345")
    with pytest.raises(NotFound):
        counted.get("a")

    assert counted.requests() == Requests(puts=1, gets=1)


def test_an_object_that_is_recognised_was_read_back(store: SimObjects, counted: CountedObjects):
    store.create("a", b"ours")

    created = counted.create("a", b"ours")

    assert created.recognised
    assert counted.requests() == Requests(puts=1, gets=2, bytes_out=4)


def test_a_large_object_goes_in_parts(counted: CountedObjects):
    counted.put("whole", bytes(CHUNK_SIZE))
    whole = counted.requests()
    counted.put("parts", bytes(CHUNK_SIZE + 1))
    parts = counted.requests() - whole
    counted.put_stream("stream", [b"12", b"3"])
    stream = counted.requests() - whole - parts

    assert (whole.puts, parts.puts, stream.puts) == (1, 2 + 2, 1 + 2)
    assert (parts.bytes_in, stream.bytes_in) == (CHUNK_SIZE + 1, 3)


def test_near_ranges_share_a_request_and_bring_what_is_between(
    store: SimObjects, counted: CountedObjects
):
    store.put("a", bytes(4 << 20))

    counted.get_ranges("a", [(3 << 20, 10), (0, 10), (100, 10), (5, 10)])
    apart = counted.requests()
    counted.get_ranges("a", [(7, 0)])

    assert apart == Requests(gets=2, bytes_out=110 + 10)
    assert (counted.requests() - apart).gets == 1


def test_a_listing_is_billed_by_the_page_as_it_is_read(store: SimObjects, counted: CountedObjects):
    for number in range(2001):
        store.put(f"{number:04d}", b"")

    listing = counted.list()
    before = counted.requests().lists
    some = [next(listing) for _ in range(1000)]
    one_page = counted.requests().lists
    rest = list(listing)

    assert len(some) + len(rest) == 2001
    assert (before, one_page, counted.requests().lists) == (0, 1, 3)
    assert store.calls["list"] == 3


def test_a_thousand_names_are_one_delete(counted: CountedObjects):
    counted.delete([])
    counted.delete(f"{number:04d}" for number in range(1000))
    one = counted.requests().deletes
    counted.delete(f"{number:04d}" for number in range(1001))

    assert (one, counted.requests().deletes) == (1, 3)


def test_threads_lose_no_count(counted: CountedObjects):
    def ask() -> None:
        for _ in range(500):
            counted.put("a", b"1234")

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert counted.requests() == Requests(puts=2000, bytes_in=8000)


def test_the_cost_follows_the_prices():
    asked = Requests(
        puts=1_000_000, gets=2_000_000, lists=1_000, deletes=5, bytes_in=10**9, bytes_out=3 * 10**9
    )

    usual = asked.cost()
    own = asked.cost(
        Prices(puts=1, gets=10, lists=1_000, deletes=1_000_000, gb_in=100, gb_out=1_000)
    )

    assert usual == pytest.approx(5.00 + 2 * 0.40 + 0.005)
    assert own == pytest.approx(1 + 20 + 1 + 5 + 100 + 3_000)


def test_twenty_small_checkpoints_are_billed_as_twenty_puts():
    with Reservoir(SimObjects()) as reservoir, reservoir.session() as session:
        before = reservoir.requests()
        for number in range(1, 21):
            session.write(number, b"page")
            session.commit()
            reservoir.checkpoint()

        asked = reservoir.requests() - before

    assert (asked.puts, asked.gets, asked.lists, asked.deletes) == (20, 0, 0, 0)
    assert asked.cost() == pytest.approx(20 * 5 / 1e6)


def test_what_a_reservoir_tells_is_what_its_store_was_asked(store: SimObjects):
    settings = ReservoirSettings(file_bytes=2_000, snapshot_interval=3)
    with Reservoir(store, settings=settings) as reservoir, reservoir.session() as session:
        for step in range(12):
            for page_id in range(1, 20):
                session.write(page_id + step, bytes(500))
            session.commit()
            reservoir.checkpoint()
        assert reservoir.read(12) == bytes(500)
        told = reservoir.requests()

    asked = store.calls
    assert told.puts == asked["put"] + asked["create"]
    assert told.gets == asked["get"] + asked["get_ranges"] + asked["head"]
    assert (told.lists, told.deletes) == (asked["list"], asked["delete"])
    assert told.deletes
    assert told.bytes_in == store.bytes_in.total()
    assert told.bytes_out == store.bytes_out.total()


def test_pages_of_a_local_folder_are_read_without_a_request(tmp_path: Path):
    folder = FolderObjects(str(tmp_path), OsDisk())
    with Reservoir(folder) as reservoir:
        with reservoir.session() as session:
            session.write(1, b"page")
            session.commit()
        reservoir.checkpoint()
        before = reservoir.requests()

        page = reservoir.read(1)

        assert page == b"page"
        assert reservoir.requests() == before
    assert CountedObjects(folder).real_folder == str(tmp_path)
    assert CountedObjects(SimObjects()).real_folder is None
