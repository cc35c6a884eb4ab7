"""Promise: a view shows every record that was published, once; a decision and its records are one
step; what fails in the middle is folded again from what was saved."""

from __future__ import annotations

import threading

import pytest
from pyroaring import BitMap64

from strandline.errors import Invalid, Unavailable
from strandline.views.view import FoldColumns, ViewAppend
from tests.unit.store.world import World
from tests.unit.views.world import NAME, TALLY, Tally, TallyFold, tally, views_of


def test_what_is_appended_through_a_view_is_seen_at_once():
    view = tally(World().store)

    view.add(b"a", b"b", b"a")

    assert (view.count(b"a"), view.count(b"b"), view.count(b"c")) == (2, 1, 0)


def test_what_is_appended_to_the_topic_is_seen_by_the_view():
    store = World().store
    store.topic(NAME).append_many([b"1", b"2"], keys=[b"a", b"b"])
    view = tally(store)

    store.topic(NAME).append(b"3", key=b"a")

    assert (view.count(b"a"), view.count(b"b")) == (2, 1)


@pytest.mark.parametrize("durability", ["memory", "disk", "fsync"])
def test_appends_to_view_and_topic_are_folded_in_in_the_order_of_the_log(durability):
    store = World().store
    view = tally(store, durability=durability)
    seen: list[int] = []
    fold = view.host.fold
    apply = fold.apply
    fold.apply = lambda source, rows: (seen.extend(rows.seqs), apply(source, rows))[1]  # type: ignore[method-assign]

    view.add(b"a")
    store.topic(NAME).append(b"plain", key=b"a")
    view.add(b"a", b"b")
    store.topic(NAME).append(b"plain", key=b"a")
    view.add(b"a")

    assert view.count(b"a") == 5
    assert seen == [1, 2, 3, 4, 5, 6]


def test_rows_of_ones_own_are_those_of_the_log():
    store = World().store
    view = tally(store)
    got: list[FoldColumns] = []
    fold = view.host.fold
    fold.apply = lambda source, rows: got.append(rows)  # type: ignore[method-assign]

    view.host.append(ViewAppend(0, [b"1", b"2"], [b"k", None], [None, b"m"], ["t", None]))

    found = store.topic(NAME).read().columns()
    assert [list(column) for column in got[0]] == [
        found.seqs,
        found.stamps,
        found.keys,
        found.tags,
        found.metas,
        found.data,
    ]


def test_rows_of_ones_own_that_were_read_from_the_log_are_not_folded_in_twice():
    store = World().store
    view = tally(store)
    host, topic = view.host, store.topic(NAME)

    with host.lock:  # a plain append, then one's own, and nobody has looked since
        topic.append(b"plain", key=b"a")
        host._place(ViewAppend(0, [b"x", b"x"], [b"a", b"b"]), None)
    both = view.count(b"a"), view.count(b"b")
    view.add(b"a")

    assert both == (2, 1)
    assert view.count(b"a") == 3


def test_a_decision_that_says_nothing_appends_nothing():
    store = World().store
    view = tally(store)

    answers = [view.add_up_to(b"a", 2) for _ in range(3)]

    assert answers == [True, True, False]
    assert store.topic(NAME).head_seq == 2


def test_a_decision_is_made_again_when_a_plain_append_came_between():
    store = World().store
    view = tally(store)
    seen: list[int] = []

    def decision(fold: TallyFold) -> ViewAppend:
        seen.append(fold.tally(b"a")[0])
        if len(seen) == 1:
            store.topic(NAME).append(b"plain", key=b"a")
        return ViewAppend(0, [b"x"], [b"a"])

    view.host.decide(decision)

    assert seen == [0, 1]
    assert view.count(b"a") == 2


def test_what_a_decision_raises_travels_and_nothing_is_appended():
    store = World().store
    view = tally(store)

    def decision(fold: TallyFold) -> ViewAppend:
        raise Invalid("no")

    with pytest.raises(Invalid, match="no"):
        view.host.decide(decision)

    assert store.topic(NAME).head_seq == 0


@pytest.mark.parametrize("durability", ["disk", "fsync"])
def test_decisions_of_many_threads_are_one_after_the_other(durability):
    store = World(start_jobs=True).store
    view = tally(store, durability=durability)
    granted: list[bool] = []

    def work() -> None:
        granted.extend(view.add_up_to(b"a", 10) for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sum(granted) == 10
    assert view.count(b"a") == 10
    store.close()


def test_a_fold_that_failed_in_the_middle_is_folded_again():
    store = World().store
    view = tally(store)
    view.add(b"a")
    store.checkpoint()
    fold = view.host.fold
    apply = fold.apply

    def half(source: int, rows: FoldColumns) -> None:
        apply(source, rows)
        raise Unavailable("the object store is away")

    fold.apply = half  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        view.add(b"a", b"b")

    assert (view.count(b"a"), view.count(b"b")) == (2, 1)


def test_a_topic_with_a_view_keeps_its_records():
    store = World().store
    tally(store)
    topic = store.topic(NAME)
    topic.append(b"1", key=b"a")

    for refused in (
        lambda: topic.delete(before=1),
        lambda: topic.alter(ttl_ms=1000),
        lambda: topic.alter(cap_records=1),
        lambda: topic.alter(cap_bytes=1),
        lambda: topic.alter(durability="ephemeral"),
        lambda: store.topic("other", views={"kv": {}}, ttl_ms=5),
    ):
        with pytest.raises(Invalid, match="view"):
            refused()

    assert topic.read().data == [b"1"]


def test_only_what_the_saved_state_has_seen_is_let_go():
    store = World().store
    view = tally(store)
    view.add(b"a", b"b")
    store.checkpoint()
    view.add(b"c", b"d")

    gone = view.host.release(0, BitMap64([1, 3, 4]))
    left = [record.seq for record in store.topic(NAME).read().records]
    store.checkpoint()
    gone += view.host.release(0, before=4)

    assert gone == 3
    assert left == [2, 3, 4]
    assert [record.seq for record in store.topic(NAME).read().records] == [4]


def test_records_are_fetched_in_the_order_asked_for_without_those_that_are_gone():
    store = World().store
    view = tally(store)
    store.topic(NAME).append_many([b"1", b"2", b"3", b"4"], keys=[b"a"] * 4)
    store.topic(NAME).append(b"5", key=b"a")
    store.checkpoint()
    store.topic(NAME).append(b"6", key=b"a")
    view.host.release(0, BitMap64([2]))

    found = view.host.records(0, [6, 1, 2, 5, 3, 99])

    assert [(record.seq, record.data) for record in found] == [
        (6, b"6"),
        (1, b"1"),
        (5, b"5"),
        (3, b"3"),
    ]
    assert view.host.record(0, 2) is None


def test_options_that_are_wrong_are_told_by_name():
    store = World().store
    tally(store, history=3)

    with pytest.raises(Invalid, match="'histroy': options of the view are history"):
        tally(store, histroy=3)
    with pytest.raises(Invalid, match="bad kv option"):
        views_of(store).open(TALLY, "other", {"history": "many"})
    with pytest.raises(Invalid, match=r"other options than given: use store\.views\.alter"):
        tally(store, history=4)

    assert isinstance(tally(store, history=3), Tally)
    assert tally(store) is tally(store)
