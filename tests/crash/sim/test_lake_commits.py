"""Promise (O2, O3, O7): whatever call of a lake's work fails, a commit is whole or not there.

Every call fails once, before or after it took effect, with refused credentials or with damaged
bytes; or the process dies there. Then somebody else opens the lake, finds a version that was
committed or was just being committed, makes the same change again, and all is as if nothing had
failed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from pyroaring import BitMap64

from strandline.errors import Conflict, StrandlineError
from strandline.lake import object_keys
from strandline.lake.gc import collect_garbage
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_commit import ManifestCommitter
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_objects import How, SimObjects
from tests.unit.lake.histories import (
    STORE_ID,
    TOPIC_ID,
    add,
    dangling,
    data_in,
    ids,
    lake_file,
    ledger_of,
    numbers_in,
    raising,
    upload,
)

FILES = [lake_file(1, 10), lake_file(11, 20), lake_file(21, 30)]
WAYS: list[How] = ["before", "after", "denied", "flipped", "truncated"]
Step = Callable[[ManifestCommitter], object]


def _added(ledger: ManifestCommitter) -> object:
    upload(ledger.objects, *FILES)
    return ledger.commit(lambda each: each.with_added(FILES))


def _replaced(ledger: ManifestCommitter) -> object:
    whole = lake_file(1, 20, salt=1)
    upload(ledger.objects, whole)
    old = [file.name() for file in FILES[:2]]
    return ledger.commit(
        lambda each: each.with_replaced(old, [whole], at_us=1, purged=BitMap64([3]))
    )


STEPS: list[Step] = [
    lambda ledger: ledger.create("orders", epoch=1),
    _added,
    lambda ledger: ledger.commit(lambda each: each.with_deleted(BitMap64([3, 25]))),
    _replaced,
    lambda ledger: ledger.commit(lambda each: each.with_floor(21, at_us=2)),
    *(
        lambda ledger, epoch=epoch: ledger.commit(lambda each: each.with_epoch(epoch))
        for epoch in range(2, 20)
    ),
]


def _content(manifest: Manifest) -> tuple[object, ...]:
    return (manifest.epoch, manifest.floor, manifest.files, list(manifest.deleted or []))


def _run(objects: SimObjects, steps: list[Step]) -> Iterator[None]:
    ledger = ledger_of(objects)
    for step in steps:
        step(ledger)
        yield


def _history() -> tuple[list[tuple[object, ...]], int]:
    """What every step makes when nothing fails, and how many calls all of them take."""
    objects = SimObjects()
    contents = [_content(ledger_of(objects).load()) for _ in _run(objects, STEPS)]
    clean = SimObjects()
    list(_run(clean, STEPS))
    return contents, clean.calls_total


CONTENTS, CALLS = _history()


@pytest.mark.parametrize("how", WAYS)
def test_a_commit_is_whole_or_not_there_and_can_be_made_again(how):
    for at in range(1, CALLS + 1):
        objects = SimObjects()
        objects.fail_at(at, how)
        done = 0
        try:
            for _ in _run(objects, STEPS):
                done += 1
        except StrandlineError:
            objects.heal()
            other = ManifestCommitter(objects, STORE_ID, TOPIC_ID, SimClock(), _other_ids())
            if done:
                assert _content(other.load()) in CONTENTS[done - 1 : done + 1], (at, how)
            for step in STEPS[done:]:
                step(other)

        assert _content(ledger_of(objects).load()) == CONTENTS[-1], (at, how)
        assert numbers_in(objects) == list(range(1, len(STEPS) + 1)), (at, how)
        assert dangling(objects) == [], (at, how)


def _other_ids():
    next_id = ids()
    return lambda: next_id()[:8] + b"somebody"


def _grown(clock: SimClock) -> SimObjects:
    """A lake with something to sweep, and an object that nobody names."""
    objects = SimObjects(clock=clock)
    ledger = ledger_of(objects, clock=clock)
    ledger.create("orders", epoch=1)
    upload(objects, lake_file(5000, 5001))
    for number in range(1, 25):
        clock.advance(60)
        add(ledger, lake_file(number * 10, number * 10 + 9))
        ledger.commit(raising((number - 2) * 10, clock.now_us()))
    return objects


def _sweep(ledger: ManifestCommitter, clock: SimClock) -> None:
    collect_garbage(
        ledger, now_us=clock.now_us(), manifest_retention_s=300, grace_s=300, orphans=True
    )


def _calls_of_a_sweep() -> int:
    clock = SimClock()
    objects = _grown(clock)
    before = objects.calls_total
    _sweep(ledger_of(objects, clock=clock), clock)
    return objects.calls_total - before


@pytest.mark.parametrize("how", WAYS)
def test_a_sweep_cut_short_anywhere_takes_nothing_that_is_named(how):
    """At every call each version that can be read has all its files; the next sweep ends it."""
    calls = _calls_of_a_sweep()
    clock = SimClock()
    grown = _grown(clock)
    swept = grown.fork()
    _sweep(ledger_of(swept, clock=clock), clock)
    assert len(data_in(swept)) < len(data_in(grown)) - 10

    for at in range(1, calls + 1):
        objects = grown.fork()
        objects.fail_at(at, how)
        try:
            _sweep(ledger_of(objects, clock=clock), clock)
        except StrandlineError:
            objects.heal()
            assert dangling(objects) == [], (at, how)
            _sweep(ledger_of(objects, clock=clock), clock)

        assert dangling(objects) == [], (at, how)
        assert data_in(objects) == data_in(swept), (at, how)
        assert not set(numbers_in(objects)) & set(range(1, numbers_in(swept)[0])), (at, how)


def test_every_readable_version_has_its_files_at_every_moment_of_a_sweep():
    clock = SimClock()
    objects = _grown(clock)
    ledger = ledger_of(objects, clock=clock)
    missing: list[str] = []
    with ledger.pin(numbers_in(objects)[-35]) as pinned:
        kept = {file.name() for file in pinned.files}
        objects.on_call = lambda *_: missing.extend([*dangling(objects), *kept - data_in(objects)])

        _sweep(ledger, clock)

    assert missing == []


def test_a_late_commit_and_a_sweep_never_leave_a_name_without_its_file():
    """A pipeline commits a file that it uploaded long ago, at any moment of two sweeps."""
    calls = _calls_of_a_sweep()
    clock = SimClock()
    grown = _grown(clock)
    refused = 0

    for at in range(1, calls + 1):
        objects = grown.fork()
        outcome = _with_intruder(objects, at, clock)
        refused += outcome == "refused"
        late = clock.now_us() + 7_200_000_000
        for _ in range(3):
            collect_garbage(
                ledger_of(objects, clock=clock),
                now_us=late,
                manifest_retention_s=0,
                grace_s=0,
                orphans=True,
            )

        assert dangling(objects) == [], at
        named = ledger_of(objects).load().find_file(lake_file(5000, 5001).name())
        assert (named is not None) == (outcome == "committed"), at

    assert 0 < refused < calls


def _with_intruder(objects: SimObjects, at: int, clock: SimClock) -> str:
    outcomes: list[str] = []

    def intrude() -> None:
        pipeline = ledger_of(objects, clock=clock, random_id=_other_ids())
        try:
            pipeline.commit(lambda each: each.with_added([lake_file(5000, 5001)]))
            outcomes.append("committed")
        except Conflict:
            outcomes.append("refused")

    _sweep_with(objects, at, clock, intrude)
    return outcomes[0]


def _sweep_with(objects: SimObjects, at: int, clock: SimClock, act: Callable[[], None]) -> None:
    """Sweep, and before its nth call do something else."""
    start = objects.calls_total
    pending = [act]

    def hook(_operation: str, _key: str) -> None:
        if objects.calls_total - start == at and pending:
            pending.pop()()

    objects.on_call = hook
    _sweep(ledger_of(objects, clock=clock), clock)
    objects.on_call = None


def test_a_sleepers_commit_counts_or_begins_again_at_every_moment_of_a_sweep():
    """He wakes up with any old version in hand while it is being swept."""
    calls = _calls_of_a_sweep()
    clock = SimClock()
    grown = _grown(clock)

    for known in (1, 2, 16, 17, 18, 30):
        for at in range(1, calls + 1, 2):
            sleeper = ledger_of(_past(grown, known), clock=clock, random_id=_other_ids())
            sleeper.load()
            sleeper.objects.restore(grown.snapshot())
            _sweep_with(sleeper.objects, at, clock, partial(_wake, sleeper))

            newest = ledger_of(sleeper.objects).load()
            assert 10**6 in (newest.deleted or []), (known, at)
            assert newest.files, (known, at)


def _past(grown: SimObjects, newest: int) -> SimObjects:
    """The lake as it was when a number was the newest."""
    past = grown.fork()
    past.delete(
        object_keys.manifest_key(TOPIC_ID, number)
        for number in numbers_in(grown)
        if number > newest
    )
    return past


def _wake(ledger: ManifestCommitter) -> None:
    ledger.commit(lambda each: each.with_deleted(BitMap64([10**6])))


def test_a_sweep_cut_short_and_then_told_to_keep_more_goes_on_from_a_full_manifest():
    clock = SimClock()
    grown = _grown(clock)
    calls = _calls_of_a_sweep()

    for at in range(1, calls + 1):
        objects = grown.fork()
        objects.fail_at(at, "before")
        with contextlib.suppress(StrandlineError):
            _sweep(ledger_of(objects, clock=clock), clock)
        objects.heal()
        ledger = ledger_of(objects, clock=clock)
        collect_garbage(ledger, now_us=clock.now_us(), manifest_retention_s=1200, grace_s=600)

        oldest = ledger.load().oldest
        assert ledger.base_of(oldest) == oldest, at
        assert dangling(objects) == [], at
