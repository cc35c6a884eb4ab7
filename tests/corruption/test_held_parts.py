"""Promise: damage in the records that one part reads when the store opens holds that part alone.

The store opens, other topics are read and written, health names what is held and where the damage
is. A held router can be changed and deleted, and resumes when its source can be read again.
"""

from __future__ import annotations

import pytest

from strandline.config.settings import SegmentSettings, Settings, SpaceSettings, WalSettings
from strandline.errors import Corrupt, Unavailable
from strandline.routers import router_store
from strandline.security.scopes import parse
from strandline.security.token_store import TokenStore
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from tests.unit.routers.world import RouterWorld

MARK = b"the source's record %d"
ROUTER = {"source": "from", "dest": "to", "start": "earliest", "guarantee": "exactly_once"}


class HeldWorld(RouterWorld):
    """A router whose destination has more than the stored position says."""

    def __init__(self) -> None:
        super().__init__(
            Settings(
                wal=WalSettings(file_size_first=8192, file_size_max=65536),
                segment=SegmentSettings(seal_records=8),
                space=SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0),
            )
        )
        for name in ("from", "other"):
            self.store.topic(name, durability="fsync")
        self.store.topic("other").append(b"kept")
        self.store.routers.put("r", create_dest=True, **ROUTER)
        for number in range(20):
            self.store.topic("from").append(MARK % number)
        self.forward()
        self.store.checkpoint()

    def damage(self, content: bytes) -> None:
        """Flip a bit of every copy of this content in segments, and kill the process."""
        self.disk = self.disk.kill()
        for path in _files(self.disk, "/data"):
            stored = self.disk.read(path)
            if content in stored and not path.endswith(".wal"):
                place = stored.index(content)
                changed = stored[:place] + bytes([stored[place] ^ 1]) + stored[place + 1 :]
                self.disk.durable_replace(path, changed)


def _files(disk: SimDisk, folder: str) -> list[str]:
    found: list[str] = []
    for name in disk.list_dir(folder):
        path = f"{folder}/{name}"
        found += _files(disk, path) if disk.is_dir(path) else [path]
    return found


def test_a_damaged_block_of_its_source_holds_a_router_and_the_store_opens():
    world = HeldWorld()
    world.damage(MARK % 3)

    world.store = world.opened()

    (held,) = [each for each in world.store.health().reasons if "router 'r'" in each]
    assert "/data/" in held
    assert "at byte" in held
    assert world.data("other") == [b"kept"]
    world.store.topic("other").append(b"more")
    assert world.data("other") == [b"kept", b"more"]
    assert world.store.routers.get("r").held
    world.store.close()


@pytest.mark.parametrize("change", ["delete", "put", "both"])
def test_a_held_router_can_be_deleted_and_defined_again(change):
    world = HeldWorld()
    world.damage(MARK % 3)
    world.store = world.opened()
    world.store.topic("fresh", durability="fsync").append(b"news")

    if change != "put":
        assert world.store.routers.delete("r")
    if change != "delete":
        world.store.routers.put("r", source="fresh", dest="new", create_dest=True, start="earliest")
        world.forward()
        assert world.data("new") == [b"news"]

    assert not [each for each in world.store.health().reasons if "router 'r'" in each]
    world.store.close()


def test_a_held_router_goes_on_without_repeats_when_its_source_can_be_read_again():
    world = HeldWorld()
    whole = world.disk.kill()
    world.damage(MARK % 3)
    world.store = world.opened()
    before = world.store.routers.get("r").held
    with pytest.raises(Corrupt):
        world.forward()
    damaged = [path for path in _files(world.disk, "/data") if path in _files(whole, "/data")]
    for path in damaged:
        if whole.read(path) != world.disk.read(path) and path.endswith(".seg"):
            world.disk.durable_replace(path, whole.read(path))
    world.store.topic("from").append(b"after the repair")
    world.reopen()

    world.forward()

    assert before
    assert world.store.routers.get("r").held == ""
    assert world.data("to") == [MARK % number for number in range(20)] + [b"after the repair"]
    world.store.close()


def test_damaged_definitions_hold_all_routers_and_nothing_overwrites_them():
    world = HeldWorld()
    world.damage(b'"name":"r"')

    world.store = world.opened()

    assert [each for each in world.store.health().reasons if router_store.TOPIC in each]
    assert world.data("other") == [b"kept"]
    world.store.topic("other").append(b"more")
    with pytest.raises(Unavailable):
        world.store.routers.put("s", source="from", dest="elsewhere", create_dest=True)
    with pytest.raises(Unavailable):
        world.store.routers.delete("r")
    world.forward()
    world.store.close()


def _measure(store: Store) -> None:
    metrics = store.metrics("part-metrics", durability="fsync")
    metrics.write("cpu", tags={"host": "a"}, fields={"v": 1.0})
    metrics.keep("cpu", "1h")


def _define(store: Store) -> None:
    store.table("pay", durability="fsync")
    store.run('DEFINE pay FIELDS { "n": "i64" }')
    store.run('STORE pay FOR c PAYLOAD { "n": 1 }')
    store.run("REMEMBER QUERY pay RETURN [n] AS big")


def _registry(store: Store) -> TokenStore:
    return TokenStore(store, SimClock(), store._disk.random_id)


PARTS = {
    "kv": lambda store: store.kv("part-kv", durability="fsync").put("key", b"part kv value"),
    "queue": lambda store: store.queue("part-queue", durability="fsync").put(b"part queue job"),
    "series": lambda store: store.series("part-series", durability="fsync"),
    "group": lambda store: store.group("from", "part-group").join("member"),
    "metrics": _measure,
    "table": _define,
    "users": lambda store: store.run("CREATE USER ada"),
    "tokens": lambda store: _registry(store).create(scopes=parse("all"), creator="test"),
}


def test_no_damage_of_one_file_keeps_the_store_from_opening_or_another_topic_from_appends():
    """A bit is flipped in every sector of every segment and of every file of views."""
    world = HeldWorld()
    for make in PARTS.values():
        make(world.store)
    world.forward()
    world.store.checkpoint()
    whole = world.disk.kill()
    opened = 0

    for path in _files(whole, "/data"):
        if "/segments/" not in path and "/views/" not in path:
            continue
        content = whole.read(path)
        for offset in range(0, len(content), 512):
            world.disk = whole.kill()
            changed = bytearray(content)
            changed[offset] ^= 4
            world.disk.durable_replace(path, bytes(changed))
            _check_open(world)
            opened += 1

    assert opened > 20


def _check_open(world: HeldWorld) -> None:
    with world.opened() as store:
        other = store.existing_topic("other")
        store.topic("new", durability="fsync").append(b"more")
        assert store.existing_topic("new").read().data == [b"more"]
        other.append(b"more")
        try:
            assert other.read().data == [b"kept", b"more"]
        except Corrupt as error:
            if error.topic_id != other.identity[0]:
                raise  # not its own block
        try:
            found = _registry(store).current()
        except Corrupt:
            return  # nobody is let in
        assert [each.scopes for each in found.values()] == ["all"]
