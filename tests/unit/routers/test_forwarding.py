"""Promise: a router copies what passes its filter, in order, keeps what it was told to keep, and
leaves nothing out; what is lost before it was forwarded is told."""

from __future__ import annotations

import msgspec
import pytest

from strandline.errors import Invalid, NotFound
from strandline.routers.definition import HOPS_MAX
from tests.unit.routers.world import SETTINGS, RouterWorld


def _world(**options: object) -> RouterWorld:
    world = RouterWorld()
    world.store.topic("a")
    world.store.routers.put("r", **{"source": "a", "dest": "b", **options})
    return world


def test_records_are_copied_with_key_tag_node_meta_and_data():
    world = _world()
    world.store.topic("a").append(b"1", key="k", tag="t", node="n", meta=b"{}")

    forwarded = world.forward()

    (copy,) = world.store.topic("b").read().records
    assert forwarded == 1
    assert (copy.data, copy.key, copy.tag, copy.node, copy.meta) == (b"1", b"k", "t", "n", b"{}")


def test_tag_and_node_stay_behind_when_they_are_not_to_be_kept():
    world = _world(preserve_tag=False, preserve_node=False)
    world.store.topic("a").append(b"1", tag="t", node="n")

    world.forward()

    (copy,) = world.store.topic("b").read().records
    assert (copy.tag, copy.node) == (None, None)


def test_only_what_passes_the_filter_is_copied_and_in_order():
    world = _world(filter="eu*")
    tags = ["eu", None, "us", "eu-west", "eu"]
    world.store.topic("a").append_many([b"%d" % place for place in range(5)], tags=tags)

    world.forward()

    assert world.data("b") == [b"0", b"3", b"4"]
    assert world.store.routers.get("r").lag == 0


def test_more_than_one_batch_is_copied_in_one_turn():
    world = _world()
    data = [b"%d" % number for number in range(3000)]
    world.store.topic("a").append_many(data)

    forwarded = world.forward()

    assert forwarded == 3000
    assert world.data("b") == data


@pytest.mark.parametrize(
    ("start", "copied"), [("latest", [b"new"]), ("earliest", [b"old", b"new"])]
)
def test_a_new_router_begins_where_it_was_told_to(start, copied):
    world = RouterWorld()
    world.store.topic("a").append(b"old")
    world.store.routers.put("r", source="a", dest="b", start=start)
    world.store.topic("a").append(b"new")

    world.forward()

    assert world.data("b") == copied


def test_a_changed_router_goes_on_where_it_was():
    world = _world(filter="x")
    source = world.store.topic("a")
    source.append_many([b"1", b"2"], tags=["x", "y"])
    world.forward()

    put = world.store.routers.put("r", source="a", dest="b", filter="y")
    source.append_many([b"3", b"4"], tags=["x", "y"])
    world.forward()

    assert not put.created
    assert world.data("b") == [b"1", b"4"]


def test_a_router_that_gets_another_source_begins_anew():
    world = _world()
    world.store.topic("a").append(b"of a")
    world.forward()
    world.store.topic("c").append(b"before")
    world.store.routers.put("r", source="c", dest="b")
    world.store.topic("c").append(b"of c")

    world.forward()

    assert world.data("b") == [b"of a", b"of c"]
    assert world.store.routers.get("r").forwarded_total == 1


def test_a_chain_is_forwarded_to_its_end_in_one_turn():
    world = _world()
    world.store.routers.put("r2", source="b", dest="c")
    world.store.topic("a").append(b"1")

    world.forward()

    assert world.data("c") == [b"1"]


def test_one_source_feeds_many():
    world = _world()
    for number in range(5):
        world.store.routers.put(f"more-{number}", source="a", dest=f"c-{number}")
    world.store.topic("a").append(b"1")

    world.forward()

    assert [world.data(f"c-{number}") for number in range(5)] == [[b"1"]] * 5


def test_in_a_circle_a_record_makes_so_many_hops_and_no_more():
    world = _world(allow_cycle=True)
    world.store.routers.put("back", source="b", dest="a", allow_cycle=True)
    world.store.topic("a").append(b"1")

    forwarded = world.forward()

    assert forwarded == HOPS_MAX
    assert len(world.data("a")) + len(world.data("b")) == 1 + HOPS_MAX


def test_hops_are_counted_for_each_record():
    world = _world(allow_cycle=True)
    world.store.routers.put("back", source="b", dest="a", allow_cycle=True)
    world.store.topic("a").append(b"1")
    world.forward()

    world.store.topic("b").append(b"2")
    forwarded = world.forward()

    assert forwarded == HOPS_MAX


def test_a_reader_who_names_its_node_is_spared_its_own_records_in_the_dest():
    world = _world()
    world.store.topic("a").append(b"mine", node="n")
    world.store.topic("a").append(b"yours", node="m")

    world.forward()

    assert world.store.topic("b").read(0, node="n").data == [b"yours"]


def test_deletes_at_the_source_do_not_travel():
    world = _world()
    source = world.store.topic("a")
    source.append_many([b"1", b"2"])
    world.forward()

    source.delete(before=3)
    world.forward()

    assert world.data("b") == [b"1", b"2"]


def test_what_was_deleted_before_it_was_forwarded_is_left_out_silently():
    world = _world()
    source = world.store.topic("a")
    source.append_many([b"1", b"2", b"3"])
    source.delete(before=3)

    world.forward()

    page = world.store.topic("b").read()
    assert (page.data, page.tombstone) == ([b"3"], None)


@pytest.mark.parametrize("durability", ["fsync", "disk", "memory", "ephemeral"])
def test_what_retention_took_before_it_was_forwarded_is_told_in_the_dest(durability):
    world = RouterWorld()
    source = world.store.topic("a", cap_records=2, durability=durability)
    world.store.routers.put("r", source="a", dest="b", start="earliest")
    source.append(b"0")
    world.forward()
    for number in range(1, 6):
        source.append(b"%d" % number)

    world.forward()

    dest = world.store.topic("b")
    assert dest.config.durability == durability
    assert dest.read(0, 1).data == [b"0"]
    page = dest.read(1)
    assert page.tombstone is not None
    assert (page.tombstone.gap_from, page.tombstone.gap_to) == (2, 4)
    assert page.tombstone.reason == "source_trim"
    assert page.data == [b"4", b"5"]


def test_a_loss_is_told_once_however_often_the_router_is_stopped_behind_it():
    world = RouterWorld()
    source = world.store.topic("a", cap_records=2)
    world.store.topic("b", cap_records=1, discard="reject").append(b"in the way")
    world.store.routers.put("r", source="a", dest="b", start="earliest")
    for number in range(6):
        source.append(b"%d" % number)
    for _ in range(3):
        world.forward()
        world.kill()

    world.store.topic("b").delete(before=2)
    world.store.topic("b").alter(cap_records=0, discard="old")
    world.forward()

    dest = world.store.topic("b")
    assert dest.gaps_below(100) == [(2, 5)]
    assert dest.read(5).data == [b"4", b"5"]


def test_a_full_dest_holds_the_router_until_there_is_room():
    world = RouterWorld()
    source = world.store.topic("a")
    dest = world.store.topic("b", cap_records=3, discard="reject")
    world.store.routers.put("r", source="a", dest="b")
    source.append_many([b"%d" % number for number in range(5)])

    world.forward()
    held = world.store.routers.get("r")
    dest.delete(before=3)
    world.forward()

    assert "full" in held.held
    assert (held.lag, held.forwarded_total) == (2, 3)
    assert world.data("b") == [b"2", b"3", b"4"]
    assert world.store.routers.get("r").held == ""


def test_a_router_that_is_held_is_told_in_health_and_the_others_go_on():
    world = _world()
    world.store.topic("full", cap_records=1, discard="reject").append(b"x")
    world.store.routers.put("stuck", source="a", dest="full")
    world.store.topic("a").append(b"1")

    world.forward()

    assert world.data("b") == [b"1"]
    assert any("'stuck' is held" in each for each in world.store.routers.problems())
    assert any("'stuck' is held" in each for each in world.store.health().reasons)


def test_a_record_that_is_too_large_for_the_dest_holds_the_router():
    world = RouterWorld()
    world.store.topic("b", cap_bytes=10, discard="reject")
    world.store.topic("a")
    world.store.routers.put("r", source="a", dest="b")
    world.store.topic("a").append(b"x" * 11)

    world.forward()

    assert "larger" in world.store.routers.get("r").held


def test_records_that_a_full_dest_has_let_expire_make_room():
    world = RouterWorld()
    world.store.topic("b", cap_records=1, discard="reject", ttl_ms=1000).append(b"old")
    world.store.topic("a")
    world.store.routers.put("r", source="a", dest="b")
    world.store.topic("a").append(b"new")
    world.clock.advance(5)

    world.forward()

    assert world.data("b") == [b"new"]


def test_a_deleted_router_forwards_no_more_and_leaves_what_it_did():
    world = _world()
    world.store.topic("a").append(b"1")
    world.forward()

    deleted = [world.store.routers.delete("r"), world.store.routers.delete("r")]
    world.store.topic("a").append(b"2")
    world.forward()

    assert deleted == [True, False]
    assert world.data("b") == [b"1"]
    with pytest.raises(NotFound, match="'r'"):
        world.store.routers.get("r")


@pytest.mark.parametrize("topic", ["a", "b"])
def test_with_a_topic_its_routers_go(topic):
    world = _world()
    world.store.topic("z")
    world.store.routers.put("other", source="z", dest="y")

    world.store.delete_topic(topic)

    assert [each.router.name for each in world.store.routers.list()] == ["other"]
    world.reopen()
    assert [each.router.name for each in world.store.routers.list()] == ["other"]


def test_a_topic_that_is_not_deleted_keeps_its_routers():
    world = _world()
    world.store.topic("a").append(b"1")

    with pytest.raises(Invalid, match="has 1 records"):
        world.store.delete_topic("a", if_empty=True)

    assert world.store.routers.of_topic("a") == ["r"]


def test_lists_are_in_order_and_can_be_narrowed():
    world = RouterWorld()
    world.store.topic("a")
    for name in ("x2", "x1", "y1"):
        world.store.routers.put(name, source="a", dest=f"to-{name}")
    world.store.routers.put("chain", source="to-y1", dest="end")

    def names(*args, **options):
        return [each.router.name for each in world.store.routers.list(*args, **options)]

    assert names() == ["chain", "x1", "x2", "y1"]
    assert names("x") == ["x1", "x2"]
    assert names(source="to-y1") == ["chain"]
    assert names(dest="to-x1") == ["x1"]
    assert names(after="x1", limit=1) == ["x2"]


def test_a_batch_that_is_too_large_for_one_append_is_cut():
    limits = msgspec.structs.replace(SETTINGS.limits, batch_bytes_max=4096)
    world = RouterWorld(msgspec.structs.replace(SETTINGS, limits=limits))
    world.store.topic("a")
    world.store.routers.put("r", source="a", dest="b")
    for number in range(40):
        world.store.topic("a").append(b"%d" % number, meta=bytes(300))

    world.forward()

    assert world.data("b") == [b"%d" % number for number in range(40)]
