"""A small reservoir to damage: data files, bundles, increments, snapshots, garbage.

It is made once and only ever damaged in copies. What every version holds is known, so that whoever
opens a damaged copy can be asked: is this a version as it was, and did you say which?
"""

from __future__ import annotations

import functools

import msgspec

from strandline.config.settings import ReservoirSettings
from strandline.errors import Corrupt, NotFound
from strandline.reservoir import checkpoint_codec, object_keys, recovery
from strandline.reservoir.reservoir import Reservoir
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects

SETTINGS = ReservoirSettings(
    file_bytes=250, snapshot_interval=4, retained_versions=2, compact_share=0.3, uploads_at_once=1
)
GREEDY = msgspec.structs.replace(
    SETTINGS, file_bytes=1000, compact_share=0.5, snapshot_interval=1, retained_versions=0
)
"""Rewrites whatever it may."""

PAGES = range(1, 13)
Model = dict[int, bytes]
FEW = {1: b"one", 2: b"two" * 9}
MANY = {page: b"%d," % page * 20 for page in range(3, 9)}
STEPS = [
    FEW,
    MANY,
    {9: b"nine"},
    {10: b"ten" * 5, 3: b"three again"},
    {4: b"4" * 80, 5: b"5" * 200},
]


class Small(msgspec.Struct, frozen=True):
    """The objects, and what each version holds."""

    objects: SimObjects
    states: dict[int, Model]

    @property
    def newest(self) -> int:
        return max(self.states)

    @property
    def keys(self) -> list[str]:
        return sorted(self.objects.snapshot())

    def data(self, key: str) -> bytes:
        return self.objects.snapshot()[key].data


def opened(objects: SimObjects, *, readonly: bool = False, seed: int = 1,
           settings: ReservoirSettings = SETTINGS) -> Reservoir:  # fmt: skip
    return Reservoir(
        objects,
        settings=settings,
        readonly=readonly,
        disk=SimDisk(seed=seed),
        clock=SimClock(),
        start_jobs=False,
    )


@functools.cache
def small(*, steps: int = 12, salt: bytes = b"", seed: int = 0) -> Small:
    """Shared: only ever damage a copy. With 11 steps the newest version is a snapshot."""
    objects, states, model = SimObjects(), {}, {}
    reservoir = opened(objects, seed=100 + seed)
    states[reservoir.version] = {}
    for number in range(steps):
        if number == 5:
            reservoir.close()
            reservoir = opened(objects, seed=200 + seed)
            states[reservoir.version] = dict(model)
        change = {page: data + salt + b"%d" % number for page, data in STEPS[number % 5].items()}
        with reservoir.session() as session:
            for page, data in change.items():
                session.write(page, data)
            if number == 6:
                session.delete(6)
            session.commit()
        model |= change
        if number == 6:
            del model[6]
        states[reservoir.checkpoint(b"%d" % number)] = dict(model)
    reservoir.close()
    return Small(objects.fork(), states)


def with_object(objects: SimObjects, key: str, content: bytes) -> SimObjects:
    """A copy in which an object has other bytes, as no client could do."""
    copy = objects.fork()
    stored = copy.snapshot()
    stored[key] = type(stored[key])(content, stored[key].number, stored[key].modified_us)
    copy.restore(stored)
    return copy


def without(objects: SimObjects, key: str) -> SimObjects:
    copy = objects.fork()
    copy.restore({name: stored for name, stored in copy.snapshot().items() if name != key})
    return copy


class Outcome(msgspec.Struct, frozen=True):
    """What somebody who opens a damaged copy finds."""

    version: int
    """0 when it is refused."""
    passed_over: bool = False
    refused_pages: frozenset[int] = frozenset()
    wrong: tuple[str, ...] = ()
    """What he is given that is in no version, or in another than he is told."""

    @property
    def noticed(self) -> bool:
        return self.version == 0 or self.passed_over or bool(self.refused_pages)


def outcome(objects: SimObjects, whole: Small, *, readonly: bool = False) -> Outcome:
    """Open it and compare every page with the version that it says it is."""
    try:
        reservoir = opened(objects, readonly=readonly)
    except (Corrupt, NotFound):
        return Outcome(0)
    with reservoir:
        version, passed_over = reservoir.recovered.version, bool(reservoir.recovered.passed_over)
        expected = whole.states.get(version, {})
        wrong, refused = [], set()
        if version != whole.newest and not passed_over:
            wrong.append(f"version {version} without a word")
        for page in PAGES:
            try:
                if reservoir.read(page) != expected.get(page):
                    wrong.append(f"page {page} of version {version}")
            except Corrupt:
                refused.add(page)
        if len(reservoir) != len(expected):
            wrong.append("another number of pages")
    return Outcome(version, passed_over, frozenset(refused), tuple(wrong))


def used_bytes(whole: Small) -> dict[str, set[int]]:
    """Of every object, the bytes that the newest version is put together from and read out of."""
    found = recovery.recover(whole.objects)
    assert found.state is not None
    used: dict[str, set[int]] = {key: set() for key in whole.keys}
    for row in found.state.rows:
        if row.version >= found.state.snapshot_version:
            used[object_keys.checkpoint_key(row.version)].update(
                range(row.offset, row.offset + row.size)
            )
    newest = object_keys.checkpoint_key(found.version)
    size = len(whole.data(newest))
    footer = checkpoint_codec.decode_footer(whole.data(newest)[-64:], newest, size)
    used[newest].update(range(footer.checkpoint_offset, size))
    _, rows = found.state.pages.all_pages()
    for row in rows.tolist():
        file_id, offset, length, _ = row
        used[object_keys.file_key(file_id)].update(range(offset, offset + length))
    return used
