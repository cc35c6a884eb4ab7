"""Promise: every watcher sees every record exactly once and in order, or is told of its loss,
whatever is appended, deleted and evicted meanwhile, and wherever its connection is cut."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strandline.server.settings import LiveSettings, ServerSettings
from tests.server.live.watching import Event, Reader, gaps, seqs, wait_until_gone, watch
from tests.server.running import Running, running

LAST = b'{"last":true}'


def read_all(server: Running, url: str, found: list[Event]) -> None:
    """Read until the record that is marked as the last."""
    with Reader(server, url) as reader:
        while event := reader.next():
            found.append(event)
            if event.name == "record" and event.data["records"][-1]["data"] == {"last": True}:
                return


def seen(events: list[Event]) -> tuple[list[int], set[int]]:
    """Seqs that were told, and seqs that were told to be lost."""
    lost = {seq for first, last in gaps(events) for seq in range(first, last + 1)}
    return seqs(events), lost


def check_once_in_order(events: list[Event], deleted: set[int], last: int) -> None:
    told, lost = seen(events)
    assert told == sorted(set(told))
    missing = set(range(1, last + 1)) - set(told) - lost
    assert missing <= deleted


@pytest.mark.parametrize("cap", [0, 200])
def test_a_hundred_watchers_see_every_record_once_and_in_order(tmp_path: Path, cap: int):
    random = Random(7)
    with running(tmp_path) as server:
        topic = server.store.topic("busy", cap_records=cap)
        found: list[list[Event]] = [[] for _ in range(100)]
        options = [{"limit": 3}, {}, {"include_tags": True}, {"consistency": "strong"}]
        readers = []
        for number, events in enumerate(found):
            session = watch(server, {"busy": {}}, **options[number % 4])
            arguments = (server, session["stream_url"], events)
            readers.append(threading.Thread(target=read_all, args=arguments))
        deleted: set[int] = set()
        for step, reader in enumerate(readers):
            reader.start()
            for _ in range(random.randrange(4)):
                topic.append_many([b"%d" % step] * random.randrange(1, 20), tags=None)
            if random.random() < 0.1:
                first = topic.append(b'"x"', tag="gone").first_seq
                topic.delete(match="gone")
                deleted.add(first)
            if cap == 0 and random.random() < 0.05:
                before = topic.head_seq - 50
                if before > 1:
                    topic.delete(before=before)
                    deleted |= set(range(1, before))
        last = topic.append(LAST).last_seq
        for reader in readers:
            reader.join(60)

    for events in found:
        check_once_in_order(events, deleted, last)
        assert events[-1].data["to_seq"] == last


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    batches=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    cuts=st.lists(st.integers(0, 6), min_size=1, max_size=8),
    limit=st.sampled_from([1, 3, 256]),
    topics=st.integers(1, 3),
)
def test_a_stream_that_is_cut_anywhere_goes_on_without_a_gap_or_a_repeat(
    shared_server, batches, cuts, limit, topics
):
    server, number = shared_server
    names = [f"cut-{next(number)}" for _ in range(topics)]
    handles = [server.store.topic(name) for name in names]
    session = watch(server, {name: {} for name in names}, limit=limit)
    last_id = session["last_event_id"]
    events: list[Event] = []

    for place, batch in enumerate(batches):
        handles[place % topics].append_many([b"%d" % place] * batch)
        with Reader(server, session["stream_url"], last_id=last_id) as reader:
            for _ in range(cuts[place % len(cuts)]):
                event = reader.next()
                assert event is not None
                events.append(event)
                if event.name == "caught-up":
                    break
            last_id = reader.last_id
    with Reader(server, session["stream_url"], last_id=last_id) as reader:
        waiting = {name for name, topic in zip(names, handles, strict=True) if topic.head_seq}
        while waiting:
            event = reader.next()
            assert event is not None
            events.append(event)
            if event.name == "caught-up":
                waiting.discard(event.data["topic"])

    for name, topic in zip(names, handles, strict=True):
        assert seqs(events, name) == list(range(1, topic.head_seq + 1))


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory):
    with running(tmp_path_factory.mktemp("many")) as server:
        yield server, iter(range(1_000_000))


def test_a_watcher_that_does_not_read_delays_nobody_and_misses_nothing(tmp_path: Path):
    live = LiveSettings(queue_bytes_max=64 * 1024, grace_s=60.0, stalled_s_max=60.0)
    with running(tmp_path, settings=ServerSettings(live=live)) as server:
        topic = server.store.topic("slow")
        topic.append(b"0")
        lazy = watch(server, {"slow": {}})
        eager = watch(server, {"slow": {}})
        big = b'"%b"' % (b"x" * 20_000)

        with (
            Reader(server, lazy["stream_url"], buffer=4096) as stalled,
            Reader(server, eager["stream_url"]) as reader,
        ):
            reader.until("caught-up")
            for seq in range(2, 602):
                topic.append(big)
                reader.records_to(seq)  # each one is here before the next is appended
            held = [stream.full_since for stream in server.parts.hub.streams]
            waiting = [stream.waiting() for stream in server.parts.hub.streams]
            late = stalled.records_to(601)

    assert sum(since is not None for since in held) == 1
    assert max(waiting) < 1024 * 1024  # what waits for one is bounded
    assert seqs(late) == list(range(1, 602))


def test_a_slow_watcher_of_a_lossy_topic_is_told_what_it_missed(tmp_path: Path):
    live = LiveSettings(queue_bytes_max=64 * 1024, grace_s=0.05, stalled_s_max=60.0)
    with running(tmp_path, settings=ServerSettings(live=live)) as server:
        topic = server.store.topic("lossy", cap_records=1_000_000)
        topic.append(b"0")
        session = watch(server, {"lossy": {}})
        big = b'"%b"' % (b"x" * 20_000)

        with Reader(server, session["stream_url"], buffer=4096) as stalled:
            stalled.until("caught-up")
            for _ in range(600):
                topic.append(big)
            wait_for_full(server, 0.1)
            events = stalled.until("tombstone")
            events += stalled.until("caught-up")
            topic.append(b"1")
            events += stalled.records_to(602)

    (tombstone,) = [event for event in events if event.name == "tombstone"]
    assert tombstone.data["reason"] == "from_seq_too_old"
    assert tombstone.data["gap_to"] == 601
    assert seqs(events) == [*range(2, tombstone.data["gap_from"]), 602]


def test_who_does_not_read_for_too_long_is_cut_off_and_may_resume(tmp_path: Path):
    live = LiveSettings(queue_bytes_max=64 * 1024, grace_s=0.05, stalled_s_max=0.2)
    with running(tmp_path, settings=ServerSettings(live=live)) as server:
        topic = server.store.topic("patience")
        session = watch(server, {"patience": {}})
        big = b'"%b"' % (b"x" * 20_000)

        with Reader(server, session["stream_url"], buffer=4096) as stalled:
            stalled.until("caught-up")
            for _ in range(600):
                topic.append(big)
            wait_until_gone(server)
            events: list[Event] = []
            while event := next_or_cut(stalled):
                events.append(event)
            last_id = stalled.last_id
        with Reader(server, session["stream_url"], last_id=last_id) as reader:
            rest = reader.records_to(600)

    assert seqs(events) + seqs(rest) == list(range(1, 601))


def next_or_cut(reader: Reader) -> Event | None:
    try:
        return reader.next()
    except (ConnectionError, OSError):
        return None


def wait_for_full(server: Running, seconds: float) -> None:
    """Until the only stream has been full for so long."""
    deadline = threading.Event()
    for _ in range(3000):
        since = [stream.full_since for stream in server.parts.hub.streams]
        if since and since[0] and server.parts.clock.monotonic() - since[0] > seconds:
            return
        deadline.wait(0.01)
    raise AssertionError("the stream never was full")
