"""A store on a simulated machine with consumer groups on one topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from strandline.errors import Unavailable
from strandline.log.topic.topic import Topic
from strandline.testing.crash_choices import Choices
from strandline.views.groups.consumer_group import Group
from strandline.views.groups.group_registry import GroupRegistry
from strandline.views.groups.member import Delivery
from strandline.views.groups.offset_store import PREFIX
from strandline.views.groups.offsets import Offsets, decode
from strandline.views.kv.kv import Kv
from tests.unit.store import world

TOPIC = "orders"
GROUP = "billing"
LEASE_S = 30.0


class GroupWorld(world.World):
    """A machine with a store, and the groups of that store."""

    @property
    def groups(self) -> GroupRegistry:
        return self.store.groups

    @property
    def topic(self) -> Topic:
        return self.store.topic(TOPIC)

    def group(self, name: str = GROUP, **options: object) -> Group:
        return self.store.group(TOPIC, name, **options)

    def another(self, **options: object) -> Group:
        """The same group opened a second time, as another process would."""
        return GroupRegistry(self.store, self.store.kv, self.clock).open(TOPIC, GROUP, options)

    def append(self, count: int = 1, *, keys: Iterable[bytes | None] | None = None) -> list[int]:
        """Append records whose data is their seq."""
        keys = [None] * count if keys is None else list(keys)
        first = self.topic.head_seq + 1
        data = [b"%d" % seq for seq in range(first, first + len(keys))]
        self.topic.append_many(data, keys=keys)
        return list(range(first, first + len(keys)))

    def restart(self, *, cleanly: bool = True) -> None:
        if cleanly:
            self.reopen()
        else:
            self.kill()

    def lose_power(self, choices: Choices) -> None:
        """Cut the power; what was not synced is lost as the choices say."""
        self.disk.power_off()
        self.disk = self.disk.crash(choices)
        self.store.close()
        self.store = self.open()

    def stored(self, name: str = GROUP) -> Offsets:
        """What the kv map says of a group."""
        value = self.store.kv(TOPIC + ":groups").get(PREFIX + name)
        assert value is not None
        return decode(value, "here").offsets

    def dead(self, name: str = GROUP) -> Topic:
        return self.store.existing_topic(f"{TOPIC}:{name}:dead")


def seqs(deliveries: Iterable[Delivery]) -> list[int]:
    return [delivery.seq for delivery in deliveries]


def failing_once(kv: Kv, *, after: bool) -> Callable[..., int]:
    """The next write of a kv map fails; it happens all the same when ``after``."""
    put, state = kv.put, {"left": 1}

    def wrapped(*arguments: object, **options: object) -> int:
        if not state["left"]:
            return put(*arguments, **options)
        state["left"] = 0
        if after:
            put(*arguments, **options)
        raise Unavailable("nobody knows")

    return wrapped
