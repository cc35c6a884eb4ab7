"""Promise: a view that a pipeline folds in pieces is the view that the store folds by itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence

import pytest

import strandline
from strandline.errors import Conflict, Invalid, NotFound, Unavailable
from strandline.ingest.delivery_codec import decode_rejection
from strandline.pipelines import Embedded, rebuild
from strandline.platform.objectstore.cloud import open_objects
from strandline.views.kv.key_state import Slot, encode
from strandline.views.view import FoldColumns
from tests.unit.ingest.deliveries import names_in
from tests.unit.pipelines.lives import KINDS, host, live, open_lively
from tests.unit.pipelines.owners import owner

SMALL = 60
"""Rows of a range: so that there are many."""


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


def make(path: str, kind: str, seed: int = 1) -> str:
    """A store with a life behind it; the digest of its view."""
    with open_lively(path) as store:
        live(store, kind, seed)
        store.relocate()
        return store.views.digest(kind, kind)


def digest(path: str, kind: str) -> str:
    """As a store that has only the log folds it."""
    copy = f"{path}-copy"
    shutil.copytree(path, copy)
    shutil.rmtree(f"{copy}/views")
    try:
        with strandline.open(copy) as store:
            return store.views.digest(kind, kind)
    finally:
        shutil.rmtree(copy)


def left_in_the_lake(path: str) -> list[str]:
    return names_in(open_objects(f"{path}/lake"), "incoming")


def test_a_view_is_the_same_as_what_its_log_is_folded_into_in_pieces(data_dir, kind):
    make(data_dir, kind)

    found = rebuild(data_dir, kind, kind, rows_max=SMALL)

    assert found.same
    assert found.parts > 10
    assert kind not in ("kv", "series") or found.ranges > 3
    assert found.engine == "embedded"
    assert left_in_the_lake(data_dir) == []


@pytest.mark.parametrize("rows_max", [SMALL, 10**6])
def test_a_view_that_was_rebuilt_is_loaded_and_goes_on_as_one_that_was_not(
    data_dir, kind, rows_max
):
    expected = make(data_dir, kind)
    other = f"{data_dir}-other"
    shutil.copytree(data_dir, other)
    shutil.rmtree(f"{data_dir}/views")

    done = rebuild(data_dir, kind, kind, replace=True, rows_max=rows_max)

    assert done.replaced
    assert left_in_the_lake(data_dir) == []
    with open_lively(data_dir) as store:
        found = host(store, kind)
        assert found.saved.applied == done.position, "it was loaded, not folded"
        assert store.views.digest(kind, kind) == expected == digest(data_dir, kind)
        assert store.views.registry.problems == []
    digests = []
    for path in (data_dir, other):
        with open_lively(path) as store:
            live(store, kind, seed=2)
            digests.append(_without_stamps(store, kind))
    assert digests[0] == digests[1]
    with open_lively(data_dir) as store:
        assert store.views.digest(kind, kind) == digest_beside(store, kind)


def digest_beside(store: strandline.Store, kind: str) -> str:
    """Folded from the log by the store itself."""
    before = store.views.digest(kind, kind)
    store.rebuild(kind, kind)
    assert store.views.digest(kind, kind) == before
    return before


def _without_stamps(store: strandline.Store, kind: str) -> object:
    """What two stores have in common that did the same at different times."""
    fold = host(store, kind).fold
    names = [seen.name for seen in fold.visible_items()]
    if kind != "kv":
        return names
    return [(name, fold.find(name).value, fold.find(name).version) for name in names]


def test_the_pages_of_many_ranges_fit_together(data_dir):
    make(data_dir, "kv")
    make_series = make(data_dir, "series")

    rebuild(data_dir, "kv", "kv", replace=True, rows_max=SMALL)
    rebuild(data_dir, "series", "series", replace=True, rows_max=SMALL)

    with open_lively(data_dir) as store:
        fold = host(store, "kv").fold
        kv_maps = (fold._live, fold._deleted, fold._expiry_index.map)
        for each in (*kv_maps, *host(store, "series").fold._maps):
            each.check()
        assert store.views.digest("series", "series") == make_series


def test_a_key_that_is_not_what_the_log_says_is_named(data_dir):
    make(data_dir, "kv")
    with open_lively(data_dir) as store:
        fold = host(store, "kv").fold
        keys = [seen.name for seen in fold.visible_items()]
        fold._live.put(keys[3], encode(Slot(b"wrong", 1, 1, 0, b"")))
        fold._live.delete(keys[5])
        fold._live.put(b"nobody", encode(Slot(b"put this", 2, 2, 0, b"")))
        store.kv("kv").put("last", b"so that it is saved")

    found = rebuild(data_dir, "kv", "kv", rows_max=SMALL)

    assert not found.same
    names = {name for each in found.differences for name in each.names}
    assert names == {keys[3].decode(), keys[5].decode(), "nobody"}
    assert len(found.differences) < found.ranges
    rebuild(data_dir, "kv", "kv", replace=True, rows_max=SMALL)
    assert rebuild(data_dir, "kv", "kv", rows_max=SMALL).same


def test_what_is_not_in_the_log_is_found_out(data_dir, kind):
    make(data_dir, kind)
    phantom = {"metrics": b"ghost warm=1 1000"}.get(kind, b"a ghost")
    with open_lively(data_dir) as store:
        found = host(store, kind)
        seq = found.topics[0].head_seq
        if kind == "queue":
            found.fold.jobs.end(found.fold.jobs.table.select(1))  # a job ends that nobody has done
        else:
            found.fold.apply(0, FoldColumns([seq], [2000], [b"ghost"], [None], [None], [phantom]))
        store.topic(kind).append(b"so that there is something to save")
        store.views.registry.save()  # and no more: a view lets go of jobs that it thinks are done

    told = rebuild(data_dir, kind, kind)

    assert [each.differing for each in told.differences] == [2 if kind == "metrics" else 1]
    named = "".join(told.differences[0].names)
    assert ("ghost" in named) == (kind != "queue")


def test_a_live_store_takes_a_rebuilt_view_and_folds_what_came_since(data_dir, kind):
    make(data_dir, kind)
    with strandline.open(data_dir) as store:
        if kind == "kv":
            store.views.alter("kv", "kv", grace_ms=86_400_000)
        before = host(store, kind)
        saved = before.saved

        class Busy(Embedded):
            """Something is appended while tasks run."""

            def run(self, work, tasks):
                for found in super().run(work, tasks):
                    live(store, kind, seed=3)
                    yield found

        done = rebuild(data_dir, kind, kind, replace=True, rows_max=SMALL, engine=Busy(1))

        now = host(store, kind)
        assert now is before
        assert now.saved.space != saved.space
        assert now.applied[0] > done.position[0]
        assert now.secured == now.saved.applied
        expected = store.views.digest(kind, kind)
        assert store.views.registry._pages(saved.space) == []
        store.rebuild(kind, kind)
        assert store.views.digest(kind, kind) == expected


def test_a_store_that_another_process_has_open_takes_it_over(data_dir):
    expected = make(data_dir, "kv")
    shutil.rmtree(f"{data_dir}/views")
    with owner(data_dir):
        done = rebuild(data_dir, "kv", "kv", replace=True)

    with strandline.open(data_dir, readonly=True) as store:
        assert host(store, "kv").saved.applied == done.position
        assert store.views.digest("kv", "kv") == expected


class Meanwhile(Embedded):
    """Something is done when the first tasks have ended: the log was read by then."""

    def __init__(self, act: Callable[[], None], *, times: int = 1) -> None:
        super().__init__(1)
        self._act = act
        self._times = times
        self._runs = 0

    def run(self, work, tasks: Sequence[object]) -> Iterator[tuple[int, object]]:
        yield from super().run(work, tasks)
        self._runs += 1
        if self._runs % 2 and self._runs < 2 * self._times:
            self._act()


def overwrite(store: strandline.Store) -> Callable[[], None]:
    """Keys change, and what nobody can see any more leaves the log."""

    def act() -> None:
        kv = store.kv("kv")
        for key in range(40):
            kv.delete(b"key-%d" % key)
            for _ in range(3):
                kv.put(b"key-%d" % (key + 50), b"newer")
        store.checkpoint()
        store.checkpoint()

    return act


def test_what_leaves_the_log_meanwhile_is_no_difference(data_dir):
    make(data_dir, "kv")
    with strandline.open(data_dir) as store:
        engine = Meanwhile(overwrite(store))

        found = rebuild(data_dir, "kv", "kv", rows_max=SMALL, engine=engine)

        assert found.same
        assert found.again == 1


def test_what_leaves_the_log_meanwhile_does_not_come_back(data_dir):
    make(data_dir, "kv")
    with strandline.open(data_dir) as store:
        store.views.alter("kv", "kv", grace_ms=86_400_000)
        engine = Meanwhile(overwrite(store))

        rebuild(data_dir, "kv", "kv", replace=True, rows_max=SMALL, engine=engine)

        expected = store.views.digest("kv", "kv")
        store.rebuild("kv", "kv")
        assert store.views.digest("kv", "kv") == expected


def test_a_rebuild_that_took_longer_than_the_grace_of_deleted_keys_is_refused(data_dir):
    make(data_dir, "kv")
    with strandline.open(data_dir) as store:
        engine = Meanwhile(overwrite(store))

        with pytest.raises(Conflict, match="rebuild it again"):
            rebuild(data_dir, "kv", "kv", replace=True, rows_max=SMALL, engine=engine)

        expected = store.views.digest("kv", "kv")
        store.rebuild("kv", "kv")
        assert store.views.digest("kv", "kv") == expected
        rebuild(data_dir, "kv", "kv", replace=True, rows_max=SMALL)
        assert store.views.digest("kv", "kv") == expected


def test_a_rebuild_of_options_that_changed_is_refused_and_the_view_stays(data_dir):
    make(data_dir, "kv")
    with strandline.open(data_dir) as store:
        engine = Meanwhile(lambda: store.views.alter("kv", "kv", history=2))

        with pytest.raises(Conflict, match="other options"):
            rebuild(data_dir, "kv", "kv", replace=True, engine=engine)

        expected = store.views.digest("kv", "kv")
        store.rebuild("kv", "kv")
        assert store.views.digest("kv", "kv") == expected
    assert names_in(open_objects(f"{data_dir}/incoming"), "views") == []


def test_a_damaged_page_is_refused_and_the_view_stays(data_dir):
    expected = make(data_dir, "kv")
    with owner(data_dir, jobs=False), pytest.raises(Unavailable, match="rebuilt and safe"):
        rebuild(data_dir, "kv", "kv", replace=True, rows_max=SMALL, wait_s_max=0.0)
    (name,) = left_in_the_lake(data_dir)
    with open(f"{data_dir}/lake/incoming/{name}", "r+b") as file:
        file.seek(2000)
        byte = file.read(1)
        file.seek(2000)
        file.write(bytes([byte[0] ^ 1]))

    with open_lively(data_dir) as store:
        assert store.ingest_pending() == 0

        assert store.views.digest("kv", "kv") == expected
    (refused,) = names_in(open_objects(f"{data_dir}/incoming"), "views-refused")
    told = decode_rejection(
        open_objects(f"{data_dir}/incoming").get(f"views-refused/{refused}"), ""
    )
    assert told.error == "corrupt"


def test_pages_of_an_adoption_that_ended_halfway_are_nobodys(data_dir):
    make(data_dir, "kv")
    with open_lively(data_dir) as store:
        maker = store.views.spec("kv", "kv")
        saved = host(store, "kv").saved

        def pages():
            yield [1 << 32 | 1, 2], [b"no root of a map", b"nothing"]
            raise OSError("the disk is gone")

        with pytest.raises(OSError, match="gone"):
            store.views.registry.adopt(maker, saved, pages())
        store.kv("another").put("a", b"1")
        store.checkpoint()
        space = store.views.registry.host("kv", store.existing_topic("another")).saved.space
        assert store.views.registry._pages(space)[0] >> 32 == space
    with open_lively(data_dir) as store:
        assert store.kv("another").get("a") == b"1"


def test_what_cannot_be_rebuilt_is_told(data_dir):
    make(data_dir, "kv")

    with pytest.raises(Invalid, match="nothing view cannot be rebuilt"):
        rebuild(data_dir, "nothing", "kv")
    with pytest.raises(NotFound, match="no table view"):
        rebuild(data_dir, "table", "kv")
    with pytest.raises(Invalid, match="strandline view rebuild table kv"):
        rebuild(data_dir, "table", "kv", replace=True)
    with pytest.raises(NotFound, match="no queue view"):
        rebuild(data_dir, "queue", "kv")
