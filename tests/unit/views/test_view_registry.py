"""Promise: views are saved together and found again; a view that is thrown away and folded again is
the same; saved state that does not fit the log is never used."""

from __future__ import annotations

import errno

import msgspec
import pytest
from pyroaring import BitMap64

import strandline
from strandline.config.settings import ViewSettings
from strandline.errors import Closed, Conflict, Invalid, NotFound, Unavailable
from strandline.testing.crash_choices import Oldest
from strandline.testing.sim_disk import SimDisk
from strandline.views.view_runner import is_current
from tests.unit.store.world import World
from tests.unit.views.world import NAME, PATH, TALLY, tally, views_of


def folded_since_opening(view) -> int:
    """Records that a view had to read again."""
    view.count(b"")
    return view.host.folded


@pytest.mark.parametrize("end", ["reopen", "kill"])
def test_a_saved_view_is_found_again_and_only_the_rest_is_replayed(end):
    world = World()
    view = tally(world.store)
    view.add(*[b"%d" % n for n in range(100)])
    world.store.checkpoint()
    view.add(b"0", b"1")

    view = tally(getattr(world, end)())

    assert (view.count(b"0"), view.count(b"99")) == (2, 1)
    assert folded_since_opening(view) == (2 if end == "kill" else 0)


def test_a_view_that_was_never_saved_is_folded_from_the_log():
    world = World()
    tally(world.store).add(b"a", b"a")

    view = tally(world.kill())

    assert view.count(b"a") == 2


def test_a_view_that_is_folded_again_is_the_same():
    world = World()
    view = tally(world.store)
    for n in range(300):
        view.add(b"%d" % (n % 37), b"%d" % (n % 11))
        if n % 100 == 50:
            world.store.checkpoint()
    before = view.host.digest()

    views_of(world.store).rebuild(TALLY, NAME)

    assert view.host.digest() == before
    assert folded_since_opening(view) == 600


def test_after_folding_again_saving_and_opening_go_on():
    world = World()
    view = tally(world.store)
    view.add(b"a", b"b")
    world.store.checkpoint()
    views_of(world.store).rebuild(TALLY, NAME)
    view.add(b"a")
    world.store.checkpoint()

    view = tally(world.kill())

    assert (view.count(b"a"), view.count(b"b")) == (2, 1)
    assert folded_since_opening(view) == 0


def test_other_options_fold_again():
    world = World()
    tally(world.store, history=3).add(b"a")
    world.store.checkpoint()

    views_of(world.store).alter(TALLY, NAME, history=5)
    view = tally(world.store)

    assert view.host.fold.config.history == 5
    assert folded_since_opening(view) == 1
    assert tally(world.reopen()).host.fold.config.history == 5


def test_saved_state_of_another_topic_of_the_name_is_not_used():
    world = World()
    tally(world.store).add(b"a")
    world.store.checkpoint()
    world.store.delete_topic(NAME)

    view = tally(world.store)
    view.add(b"b")

    assert (view.count(b"a"), view.count(b"b")) == (0, 1)


def test_saved_state_of_other_options_is_not_used():
    world = World()
    tally(world.store, history=3).add(b"a")
    store = world.reopen()
    store.topic(NAME).alter(views={"kv": {"history": 5}})

    view = tally(store)

    assert folded_since_opening(view) == 1
    assert any("folded again" in reason for reason in store.health().reasons)


def test_saved_state_of_records_that_are_lost_since_is_not_used():
    world = World()
    view = tally(world.store)
    view.add(b"a", b"b")
    world.store.checkpoint()
    host, saved = view.host, view.host.saved

    ahead = msgspec.structs.replace(saved, applied=[3])
    with_gap = msgspec.structs.replace(saved, gaps=msgspec.msgpack.encode([[(1, 1)]]))
    other_life = msgspec.structs.replace(saved, topics=[(saved.topics[0][0], 5)])

    assert is_current(saved, saved.config, host.topics)
    for unfit in (ahead, with_gap, other_life):
        assert not is_current(unfit, saved.config, host.topics)


def test_a_view_whose_topic_is_deleted_is_closed():
    world = World()
    view = tally(world.store)
    view.add(b"a")

    world.store.delete_topic(NAME)

    for use in (lambda: view.count(b"a"), lambda: view.add_up_to(b"a", 5)):
        with pytest.raises(Closed, match="its topic was deleted"):
            use()


def test_a_view_of_a_closed_store_is_closed():
    world = World()
    view = tally(world.store)
    view.add(b"a")

    world.store.close()

    with pytest.raises(Closed):
        view.count(b"a")


def test_pages_of_a_view_whose_topic_is_gone_are_deleted():
    world = World()
    tally(world.store).add(*[b"%d" % n for n in range(500)])
    world.store.checkpoint()
    shelf = views_of(world.store).registry
    space = shelf.host("kv", world.store.topic(NAME)).saved.space
    assert shelf._pages(space)

    world.store.delete_topic(NAME)
    world.store.checkpoint()

    assert shelf._pages(space) == []


def test_a_power_loss_leaves_no_view_ahead_of_its_topic():
    world = World()
    view = tally(world.store)
    view.add(b"a")
    world.store.checkpoint()
    view.add(b"a")  # class disk: in the page cache only

    lose_power(world)
    view = tally(world.store)

    assert view.count(b"a") == len(world.store.topic(NAME).read().records) == 1


def test_saving_makes_the_log_durable_first():
    world = World()
    view = tally(world.store)
    view.add(b"a", b"b")
    views_of(world.store).registry.save()

    lose_power(world)

    assert tally(world.store).count(b"a") == 1
    assert len(world.store.topic(NAME).read().records) == 2


def test_what_comes_while_a_view_is_saved_is_durable_if_it_is_saved():
    world = World()
    view = tally(world.store)
    view.add(b"a")
    topic = view.host.topics[0]
    secure = topic.sync

    def secure_and_append() -> None:
        secure()
        if topic.head_seq == 1:
            topic.append(b"late", key=b"a")

    topic.sync = secure_and_append
    views_of(world.store).registry.save()
    lose_power(world)

    assert tally(world.store).count(b"a") == 2
    assert not any("folded again" in reason for reason in world.store.health().reasons)


def test_views_of_a_read_only_store_show_the_log():
    world = World()
    view = tally(world.store)
    view.add(b"a", b"b")
    world.store.checkpoint()
    view.add(b"a")
    world.store.sync()

    with world.open(readonly=True) as other:
        seen = tally(other)

        assert (seen.count(b"a"), seen.count(b"b")) == (2, 1)
        with pytest.raises(Invalid, match="read-only"):
            seen.add(b"c")


def test_views_of_a_read_only_store_need_not_have_been_saved():
    world = World()
    tally(world.store).add(b"a")
    world.store.sync()

    with world.open(readonly=True) as other:
        assert tally(other).count(b"a") == 1


def test_a_read_only_store_makes_no_view():
    world = World()
    world.store.topic(NAME).append(b"a")
    world.store.sync()

    with world.open(readonly=True) as other, pytest.raises(NotFound, match="no kv view"):
        tally(other)


def test_a_damaged_version_folds_views_again_though_records_were_let_go():
    """The older version still has what the log has let go of since: it must not come back."""
    world = World()
    view = tally(world.store)
    view.add(b"a")
    world.store.checkpoint()
    view.add(b"b")
    world.store.checkpoint()
    view.host.release(0, BitMap64([1]))
    world.store.close()
    newest = [path for path in world.files("views") if "checkpoint" in path][-1]
    _flip_everything(world.disk, newest)

    world.store = world.open()
    view = tally(world.store)

    assert (view.count(b"a"), view.count(b"b")) == (0, 1)
    assert any("folded again" in reason for reason in world.store.health().reasons)


@pytest.mark.parametrize("readonly", [False, True])
def test_saved_views_that_cannot_be_read_at_all_are_set_aside(readonly):
    world = World()
    tally(world.store).add(b"a")
    world.store.close()
    for path in world.files("views"):
        _flip_everything(world.disk, path)

    store = world.open(readonly=readonly)
    found = tally(store).count(b"a")
    told = views_of(store).registry.problems
    store.close()

    assert found == 1
    assert "folded again" in told[0]
    assert world.disk.exists(f"{PATH}/damaged") != readonly


def test_views_in_a_place_of_another_store_are_refused():
    world = World(views=ViewSettings(url="/elsewhere"))
    tally(world.store).add(b"a")
    world.store.checkpoint()
    world.store.close()

    other = strandline.open(
        "/other", disk=world.disk, clock=world.clock, settings=world.settings, start_jobs=False
    )
    with pytest.raises(Conflict, match=r"set views\.url to another location"):
        tally(other)


def test_views_may_be_saved_somewhere_else():
    world = World(views=ViewSettings(url="/elsewhere"))
    tally(world.store).add(b"a")
    world.store.checkpoint()

    view = tally(world.kill())

    assert folded_since_opening(view) == 0
    assert view.count(b"a") == 1
    assert not world.disk.exists(f"{PATH}/views")


def test_views_that_are_saved_somewhere_else_are_read_beside_their_writer():
    world = World(views=ViewSettings(url="/elsewhere"))
    tally(world.store).add(b"a")
    world.store.checkpoint()
    tally(world.store).add(b"a")

    reader = world.open(readonly=True)
    beside = tally(reader)
    found, read_again = beside.count(b"a"), folded_since_opening(beside)
    tally(world.store).add(b"b")
    world.store.checkpoint()
    reader.close()

    assert (found, read_again) == (2, 1), "what was saved, and the record behind it"


def test_a_reader_does_not_keep_a_writer_from_views_somewhere_else():
    world = World(views=ViewSettings(url="/elsewhere"))
    tally(world.store).add(b"a")
    world.store.close()
    reader = world.open(readonly=True)
    tally(reader)

    view = tally(world.open())

    assert view.count(b"a") == 1
    reader.close()


def test_the_job_saves_when_enough_was_folded_in_or_long_ago():
    world = World(views=ViewSettings(checkpoint_records=3, checkpoint_interval_s=60))
    view = tally(world.store)
    shelf = views_of(world.store).registry

    view.add(b"a")
    shelf.run_once()
    early = view.host.secured
    view.add(b"a", b"a")
    shelf.run_once()
    many = view.host.secured
    view.add(b"a")
    world.clock.advance(61)
    shelf.run_once()

    assert (early, many, view.host.secured) == ([0], [3], [4])
    assert view.maintained == 2


def test_a_reservoir_that_cannot_be_reached_costs_no_append():
    world = World()
    view = tally(world.store)
    view.add(b"a")
    world.store.checkpoint()
    view.add(b"b")
    world.disk.fail("create", path_contains="views/", errno=errno.EIO)

    with pytest.raises(Unavailable, match="views"):
        world.store.checkpoint()
    view.add(b"c")
    world.store.checkpoint()

    assert [view.count(key) for key in (b"a", b"b", b"c")] == [1, 1, 1]
    view = tally(world.kill())
    assert [view.count(key) for key in (b"a", b"b", b"c")] == [1, 1, 1]
    assert folded_since_opening(view) == 0


def test_what_could_not_be_saved_is_saved_the_next_time_though_nothing_was_added():
    world = World()
    view = tally(world.store)
    view.add(b"a")
    world.disk.fail("create", path_contains="views/", errno=errno.EIO)
    with pytest.raises(Unavailable, match="views"):
        world.store.checkpoint()
    after_failure = view.host.secured

    world.store.checkpoint()

    assert (after_failure, view.host.secured) == ([0], [1])
    assert folded_since_opening(tally(world.kill())) == 0


def lose_power(world: World) -> None:
    """Lose all that is not synced, and open the store again."""
    world.disk.power_off()
    world.disk = world.disk.crash(Oldest())
    world.store.close()
    world.store = world.open()


def _flip_everything(disk: SimDisk, path: str) -> None:
    content = bytes(byte ^ 0xFF for byte in disk.read(path))
    disk.durable_replace(path, content)
