"""Promise (D13): through any crash a delivery is appended exactly once, whole and in order.

Staging, delivering and taking are cut before every call of the disk, by a power loss and by a kill,
with the lake on that disk and elsewhere. Then the next process takes what is there, and the
producer, who knows nothing, delivers the same number again, cut into other chunks. On the lake's
side every call fails before it happened, after it did, and with other bytes.
"""

from __future__ import annotations

import contextlib
import random

import pytest

from strandline.errors import ObjectExists, StrandlineError
from strandline.ingest import staged_files
from strandline.testing.crash_choices import Newest, Oldest
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from tests.crash.sim.watch import power_losses
from tests.crash.sim.world import LONG
from tests.unit.ingest.deliveries import Post, counted, rows

PARTS = (5, 4)
ROWS = [b"f%d %d" % (part, place) for part, count in enumerate(PARTS) for place in range(count)]
EARLIER = [b"earlier"]


class Sender:
    """Who has rows for a store and gives them a number, however often that takes."""

    def __init__(self, post: Post) -> None:
        self.post = post
        self.delivered = False

    def send(self) -> None:
        """Stage the rows, and deliver them unless an earlier attempt is delivered."""
        post = self.post
        files = [
            post.stage(counted(f"f{part}", count), number=2, part=part)
            for part, count in enumerate(PARTS)
        ]
        with contextlib.suppress(ObjectExists):
            post.send(post.letter(*files, number=2, attempt=post.disk.random_id().hex()))
        self.delivered = True


def _post(durability: str, objects: SimObjects | None) -> Post:
    """A store that took a delivery of this producer before."""
    post = Post(objects)
    post.store.create_topic("t", durability=durability)
    post.deliver(rows(*EARLIER), number=1)
    post.take()
    post.store.sync()
    return post


def _after(post: Post, disk: SimDisk, objects: SimObjects | None) -> Post:
    """The next process, on what a crash has left."""
    again = Post.__new__(Post)
    again.disk, again.clock, again.objects = disk, post.clock, objects
    again.store = again.open()
    return again


def _check(found: Post, monkeypatch: pytest.MonkeyPatch, *, delivered: bool) -> None:
    """Take what is there; then the same number comes again."""
    found.take()
    data = found.data()
    assert data in ([*EARLIER, *ROWS], *([] if delivered else [EARLIER]))

    monkeypatch.setattr(staged_files, "CHUNK_ROWS", 3)
    Sender(found).send()
    found.take()
    monkeypatch.setattr(staged_files, "CHUNK_ROWS", 2)

    assert found.data() == [*EARLIER, *ROWS]
    assert (found.pending(), found.refused()) == ([], [])


def _ends(disk: SimDisk, rng: random.Random, *, kill: bool) -> list[SimDisk]:
    if kill:
        return [disk.kill()]
    samples = list(power_losses(disk, rng, 3 if LONG else 1))
    return [disk.crash(Oldest()), disk.crash(Newest()), *samples]


@pytest.mark.parametrize("remote", [False, True], ids=["folder", "remote"])
@pytest.mark.parametrize("kill", [False, True], ids=["power loss", "kill"])
@pytest.mark.parametrize("durability", ["memory", "disk", "fsync"])
def test_a_crash_at_any_step_of_a_delivery_appends_it_exactly_once(
    monkeypatch, durability, kill, remote
):
    monkeypatch.setattr(staged_files, "CHUNK_ROWS", 2)
    objects = SimObjects() if remote else None
    post = _post(durability, objects)
    sender = Sender(post)
    rng = random.Random(3)
    crashes = 0

    def crash(operation: str, path: str) -> None:
        nonlocal crashes
        del operation, path
        post.disk.on_call = None
        kept = None if objects is None else objects.fork()
        for disk in _ends(post.disk, rng, kill=kill):
            lake = None if kept is None else kept.fork()
            _check(_after(post, disk, lake), monkeypatch, delivered=sender.delivered)
            crashes += 1
        post.disk.on_call = crash

    post.disk.on_call = crash
    sender.send()
    post.take()
    post.disk.on_call = None

    assert post.data() == [*EARLIER, *ROWS]
    assert crashes > 20


@pytest.mark.parametrize("how", ["before", "after", "denied", "flipped", "truncated"])
def test_any_call_to_the_lake_may_fail(monkeypatch, how):
    monkeypatch.setattr(staged_files, "CHUNK_ROWS", 2)
    number, struck, failed = 0, True, 0
    while struck:
        number += 1
        objects = SimObjects()
        post = _post("disk", objects)
        sender = Sender(post)
        fault = objects.fail_at(number, how)
        for step in (sender.send, post.take):
            try:
                step()
            except StrandlineError:
                failed += 1
        struck = fault.fired > 0
        objects.heal()
        _check(post, monkeypatch, delivered=sender.delivered)

    assert number > 5
    assert failed or how in ("flipped", "truncated")  # then it is read again


def test_a_crash_between_two_chunks_goes_on_behind_the_first(monkeypatch):
    monkeypatch.setattr(staged_files, "CHUNK_ROWS", 1)
    post = _post("fsync", None)
    Sender(post).send()
    ends = []

    def crash(operation: str, path: str) -> None:
        del operation, path
        post.disk.on_call = None
        ends.append((post.store.topic("t").head_seq, post.disk.crash(Oldest())))
        post.disk.on_call = crash

    post.disk.on_call = crash
    post.take()
    post.disk.on_call = None

    assert {head for head, _ in ends} >= set(range(2, 10))
    for head, disk in ends:
        found = _after(post, disk, None)
        assert found.store.topic("t").head_seq >= head
        found.take()
        assert found.data() == [*EARLIER, *ROWS]
