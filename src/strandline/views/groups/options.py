"""The options of a group: checked, and stored with its offsets (``co:<group>`` of the kv map).

They are those of the first opening of the group. A later opening must give no options or the same
ones: two openings with different options would share leases and disagree about them.
"""

from __future__ import annotations

import msgspec

from strandline.errors import Corrupt, Invalid
from strandline.log.topic.topic import Topic
from strandline.views.groups.group_state import GroupOptions
from strandline.views.kv.kv import Kv

PREFIX = "co:"
LEASE_S_MAX = 7 * 24 * 3600.0
WINDOW_MAX = 10_000_000


class _Stored(msgspec.Struct, frozen=True):
    topic: int
    """The id of the topic: options of an earlier topic with its name are not used."""
    options: GroupOptions


class OptionsStore:
    """The stored options of one group. Owned by one thread: the one that holds the groups' lock."""

    def __init__(self, kv: Kv, topic: Topic, name: str) -> None:
        self._kv = kv
        self._topic = topic
        self._name = name

    def resolve(self, requested: dict[str, object]) -> GroupOptions:
        """The options of an opening that requests these; stored if it is the first opening."""
        stored = self.load()
        if stored is None:
            options = options_of(requested)
            self.save(options)
            return options
        others = [
            f"{option} {getattr(stored, option)!r}"
            for option, value in requested.items()
            if getattr(stored, option) != value
        ]
        if others:
            raise Invalid(
                f"the group {self._name!r} has other options than given ({', '.join(others)}): "
                "open it without them, or change them with store.groups.alter()"
            )
        return stored

    def load(self) -> GroupOptions | None:
        """The stored options, None if there are none for this topic."""
        data = self._kv.get(PREFIX + self._name)
        if data is None:
            return None
        try:
            stored = msgspec.msgpack.decode(data, type=_Stored)
        except msgspec.MsgspecError as error:
            path = f"key {PREFIX + self._name!r} of the kv map {self._kv.name!r}"
            raise Corrupt(f"options of a group cannot be read: {error}", path=path) from error
        return stored.options if stored.topic == self._topic.identity[0] else None

    def save(self, options: GroupOptions) -> None:
        """Store options."""
        stored = _Stored(self._topic.identity[0], options)
        self._kv.put(PREFIX + self._name, msgspec.msgpack.encode(stored))


def options_of(options: dict[str, object]) -> GroupOptions:
    """Checked options. Raises Invalid if one is unknown or out of range."""
    try:
        group = msgspec.convert(options, GroupOptions)
    except msgspec.ValidationError as error:
        raise Invalid(f"bad option of a group: {error}") from error
    if not 0 < group.lease_s <= LEASE_S_MAX:
        raise Invalid(f"lease_s is more than 0 and at most {LEASE_S_MAX:.0f}, not {group.lease_s}")
    if group.deliveries_max < 0:
        raise Invalid(f"deliveries_max is 0 or more, not {group.deliveries_max}")
    if not 1 <= group.window <= WINDOW_MAX:
        raise Invalid(f"window is 1 to {WINDOW_MAX}, not {group.window}")
    return group
