"""Promise (V1): a topic takes each number of a producer once, for good.

Not for the window of an idempotency key: after any time, checkpoint, restart or power loss.
"""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.config.settings import WalSettings
from strandline.errors import Invalid, TooLarge, TopicFull
from strandline.log.state import producer_seq
from strandline.log.topic.topic import Topic
from strandline.records import AppendResult, BatchNumber
from strandline.store import Store
from strandline.testing.crash_choices import Oldest
from tests.unit.store.world import World, payloads

DEADLINE_S = 30
MONTH_S = 31 * 86_400.0
YEARS_S = 100 * MONTH_S
LOGGED = ("memory", "disk", "fsync")


def give(topic: Topic, number: int, producer: str = "p", *, count: int = 1) -> AppendResult:
    data = [b"%s %d" % (producer.encode(), number)] * count
    return topic.append_many(data, idempotency_key=BatchNumber(producer, number))


@pytest.mark.parametrize("durability", ["ephemeral", *LOGGED])
def test_a_number_is_taken_once(durability):
    topic = World().store.topic("t", durability=durability)

    first = give(topic, 7, count=3)
    again = give(topic, 7, count=3)

    assert first == AppendResult(1, 3, 3)
    assert again == AppendResult(1, 3, 3, True)
    assert payloads(topic) == [b"p 7"] * 3
    assert topic.last_number("p") == 7


def test_numbers_rise_with_any_gaps_and_lower_ones_were_taken():
    topic = World().store.topic("t")
    for number in (0, 1, 5, 900):
        give(topic, number)

    lower = [give(topic, number) for number in (0, 4, 5, 899)]

    assert lower == [AppendResult(0, 0, 4, True)] * 4
    assert payloads(topic) == [b"p 0", b"p 1", b"p 5", b"p 900"]


def test_each_producer_and_each_topic_counts_for_itself():
    store = World().store
    topic, other = store.topic("t"), store.topic("other")
    give(topic, 9, "a")

    give(topic, 3, "b")
    give(other, 2, "a")

    assert payloads(topic) == [b"a 9", b"b 3"]
    assert payloads(other) == [b"a 2"]
    assert (topic.last_number("a"), topic.last_number("b"), topic.last_number("c")) == (9, 3, None)


def test_one_record_with_a_number_and_every_form_of_append_count_alike():
    topic = World().store.topic("t")

    topic.append(b"one", idempotency_key=BatchNumber("p", 1))
    again = topic.append_nowait([b"x", b"y"], idempotency_key=BatchNumber("p", 1)).wait()

    assert again == AppendResult(1, 1, 1, True)


def test_a_number_is_known_after_the_window_of_keys():
    world = World()
    topic = world.store.topic("t", idempotency_window_ms=1)
    topic.append_many([b"x"], idempotency_key=b"key")
    give(topic, 1)

    world.clock.advance(YEARS_S)
    by_key = topic.append_many([b"x"], idempotency_key=b"key")
    by_number = give(topic, 1)

    assert not by_key.deduped
    assert by_number.deduped


def _nothing(store: Store) -> None:
    del store


def _checkpoint(store: Store) -> None:
    store.checkpoint()


def _drop_log_files(store: Store) -> None:
    """Fill the log and checkpoint until the files are gone that had the number."""
    for _ in range(4):
        store.topic("neighbour").append_many([bytes(1000)] * 100)
        store.checkpoint()


@pytest.mark.parametrize("before", [_nothing, _checkpoint, _drop_log_files])
@pytest.mark.parametrize("durability", LOGGED)
@pytest.mark.parametrize("clean", [True, False], ids=["close", "kill"])
def test_a_number_is_known_to_every_later_opening(before, durability, clean):
    world = World()
    topic = world.store.topic("t", durability=durability)
    first_files = world.files("wal")
    give(topic, 4, count=2)
    give(topic, 5, count=2)
    before(world.store)

    for _ in range(2):
        topic = (world.reopen() if clean else world.kill()).topic("t")

        head = topic.head_seq  # behind a gap, when a memory topic was killed
        assert give(topic, 5) == AppendResult(3, 4, head, True)
        assert give(topic, 4) == AppendResult(0, 0, head, True)
    assert not give(topic, 6).deduped
    if before is _drop_log_files:
        assert not set(first_files) & set(world.files("wal"))


def test_a_number_is_known_after_its_records_are_gone():
    world = World()
    topic = world.store.topic("t", cap_records=1)
    give(topic, 1, count=5)
    topic.append(b"newer")
    topic.delete(before=topic.head_seq + 1)
    world.store.checkpoint()

    topic = world.kill().topic("t")

    assert give(topic, 1).deduped
    assert payloads(topic) == []


def test_a_number_is_known_when_the_topic_changes_its_shard():
    world = World(wal=WalSettings(shards=3, file_size_first=65536, file_size_max=262144))
    names = [f"t{number}" for number in range(6)]
    for name in names:
        give(world.store.topic(name), 1)

    store = world.kill(wal=WalSettings(shards=1, file_size_first=65536, file_size_max=262144))

    assert all(give(store.topic(name), 1).deduped for name in names)


def test_a_new_topic_of_the_same_name_has_taken_nothing():
    world = World()
    give(world.store.topic("t"), 8)
    world.store.delete_topic("t")

    topic = world.store.topic("t")

    assert topic.last_number("p") is None
    assert not give(topic, 1).deduped


def test_a_refused_batch_does_not_use_up_its_number():
    topic = World().store.topic("t", cap_records=2, discard="reject")
    give(topic, 1, count=2)

    with pytest.raises(TopicFull):
        give(topic, 2)
    topic.delete(before=3)

    assert give(topic, 2) == AppendResult(3, 3, 3)


def test_a_number_comes_with_its_rows_or_not_at_all_through_a_power_loss():
    """A root that is written while appends go on tells of no number that the disk does not have."""
    world = World()
    topic = world.store.topic("t")
    give(topic, 1)
    disk = world.disk
    ends = []

    def cut(operation: str, path: str) -> None:
        del operation
        if "segments" in path and topic.last_number("p") == 1:
            give(topic, 2)  # behind the sync of the checkpoint, before its root
        disk.on_call = None
        ends.append(disk.crash(Oldest()))
        disk.on_call = cut

    disk.on_call = cut
    world.store.checkpoint()
    disk.on_call = None

    assert topic.last_number("p") == 2
    for end in [*ends, disk.crash(Oldest())]:
        world.disk = end
        with world.open() as store:
            if "t" in store.topics():
                found = store.topic("t")
                numbers = {int(data.split()[1]) for data in payloads(found)}
                assert max(numbers, default=None) == found.last_number("p")


@pytest.mark.parametrize("repeated", [1, 2])
def test_a_repeated_number_is_acknowledged_only_after_its_sync(repeated):
    world = World()
    topic = world.store.topic("t", durability="fsync")
    topic.append_nowait([b"x"], idempotency_key=BatchNumber("p", 1))
    topic.append_nowait([b"y"], idempotency_key=BatchNumber("p", 2))

    assert topic.append_many([b"x"], idempotency_key=BatchNumber("p", repeated)).deduped

    world.disk = world.disk.crash(Oldest())
    assert payloads(world.open().topic("t")) == [b"x", b"y"]


def test_of_many_threads_with_one_number_one_appends():
    topic = World().store.topic("t")
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(give(topic, 1, count=10))) for _ in range(8)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)

    assert sorted(answer.deduped for answer in answers) == [False] + [True] * 7
    assert topic.head_seq == 10


def test_a_key_that_looks_like_a_number_is_refused():
    topic = World().store.topic("t")
    disguised = producer_seq.encode(BatchNumber("p", 1))

    with pytest.raises(Invalid, match=r"strandline\.BatchNumber"):
        topic.append_many([b"x"], idempotency_key=disguised)
    with pytest.raises(Invalid):
        topic.append(b"x", idempotency_key=disguised.decode("latin-1"))

    assert topic.head_seq == 0
    assert topic.last_number("p") is None


@pytest.mark.parametrize(
    ("producer", "number", "error"),
    [
        ("p", -1, Invalid),
        ("p", 2**63, Invalid),
        ("p", 1.0, Invalid),
        ("p", True, Invalid),
        (b"p", 1, Invalid),
        ("\ud800", 1, Invalid),
        ("", 1, TooLarge),
        ("ü" * 101, 1, TooLarge),
    ],
)
def test_a_number_that_is_none_is_refused_and_nothing_is_appended(producer, number, error):
    topic = World().store.topic("t")

    with pytest.raises(error):
        topic.append_many([b"x"], idempotency_key=BatchNumber(producer, number))

    assert topic.head_seq == 0


@given(st.text(min_size=1, max_size=50), st.integers(0, producer_seq.NUMBER_MAX))
def test_a_number_in_the_log_is_what_it_was(producer, number):
    mark = producer_seq.encode(BatchNumber(producer, number))

    assert producer_seq.decode(mark) == (producer.encode(), number)


@given(st.binary(max_size=30))
def test_no_key_of_a_caller_is_taken_for_a_number(key):
    assert (producer_seq.decode(key) is None) == (not key.startswith(b"\0numbered\0"))


def test_the_longest_silent_producer_is_forgotten_once_there_are_many():
    known: dict[bytes, producer_seq.ProducerEntry] = {}
    for place in range(producer_seq.PRODUCERS_MIN):
        producer_seq.remember(known, b"%d" % place, (1, 1, 1, place))

    producer_seq.remember(
        known, b"0", (2, 2, 2, producer_seq.PRODUCER_EXPIRY_US)
    )  # not silent: it stays
    producer_seq.remember(known, b"late", (1, 3, 3, producer_seq.PRODUCER_EXPIRY_US + 2))

    assert b"1" not in known
    assert {b"0", b"2", b"late"} <= set(known)
    assert len(known) == producer_seq.PRODUCERS_MIN


def test_few_producers_are_never_forgotten_and_recent_ones_neither():
    few = {b"old": (1, 1, 1, 0)}
    many: dict[bytes, producer_seq.ProducerEntry] = {}

    producer_seq.remember(few, b"new", (1, 2, 2, 1000 * producer_seq.PRODUCER_EXPIRY_US))
    for place in range(2 * producer_seq.PRODUCERS_MIN):
        producer_seq.remember(many, b"%d" % place, (1, 1, 1, place))

    assert set(few) == {b"old", b"new"}
    assert len(many) == 2 * producer_seq.PRODUCERS_MIN


def test_who_was_silent_longest_is_known_after_a_restart(monkeypatch):
    monkeypatch.setattr(producer_seq, "PRODUCERS_MIN", 3)
    world = World()
    topic = world.store.topic("t")
    for producer in "abc":
        give(topic, 1, producer)
        world.clock.advance(MONTH_S / 3)
    give(topic, 2, "a")
    world.store.checkpoint()
    topic = world.reopen().topic("t")
    world.clock.advance(MONTH_S / 3)

    give(topic, 1, "d")

    assert [topic.last_number(producer) for producer in "abcd"] == [2, None, 1, 1]
