"""Promise: a state that was folded elsewhere is a view's own, or nobody's: pages of an adoption
that a crash has ended are never taken for those of a view that is made afterwards."""

from __future__ import annotations

import threading

from strandline.store import Store
from strandline.views.view import SPACES
from tests.unit.store.world import World

JOIN_S = 60.0


def _moved(store: Store) -> tuple[list[int], list[bytes]]:
    """The pages of the view "old", numbered as in the space 0."""
    shelf = store.views.registry
    space = shelf.host("kv", store.existing_topic("old")).saved.space
    with shelf._open().session() as session:
        ids = shelf._pages(space)
        return [each - (space << 32) for each in ids], [session.read(each) for each in ids]


def test_pages_that_a_crash_left_behind_are_not_those_of_the_next_view():
    world = World()
    old = world.store.kv("old")
    for number in range(200):
        old.put(b"%d" % number, b"old")
    world.store.checkpoint()
    world.store.views.registry.save()
    shelf = world.store.views.registry
    maker = world.store.views.spec("kv", "old")
    saved = shelf.host("kv", world.store.existing_topic("old")).saved
    ids, data = _moved(world.store)
    begun, may_end = threading.Event(), threading.Event()

    def pages():
        begun.set()
        assert may_end.wait(JOIN_S)
        yield ids, data

    adoption = threading.Thread(target=lambda: shelf.adopt(maker, saved, pages()), daemon=True)
    adoption.start()
    assert begun.wait(JOIN_S)
    with shelf._save_lock:  # the adoption waits behind us when its pages are committed
        may_end.set()
        left_behind = shelf._next_space - SPACES
        while not shelf._pages(left_behind):
            assert adoption.is_alive()
        old.put(b"more", b"news")
        shelf.save()
        killed = world.disk.kill()
    adoption.join(JOIN_S)
    expected = world.store.views.digest("kv", "old")

    world.disk.power_off()
    world.store.close()
    world.disk = killed
    world.store = world.open()
    other = world.store.kv("other")
    other.put(b"a", b"1")
    world.store.views.registry.save()
    world.reopen()

    assert [entry.key for entry in world.store.kv("other").scan()] == [b"a"]
    assert world.store.views.digest("kv", "old") == expected
    found = world.store.views.registry
    assert found._pages(left_behind), "this crash left nothing behind"
    assert found.host("kv", world.store.existing_topic("other")).saved.space != left_behind
