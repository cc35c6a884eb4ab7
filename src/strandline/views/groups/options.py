"""The options of a group: checked, and kept beside its offsets (``co:<group>`` of the kv map).

They are those that the group was first opened with. Whoever opens it later says nothing and gets
them, or says the same: two openings that differ would share leases and disagree about them.
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


class _Kept(msgspec.Struct, frozen=True):
    topic: int
    """Of which life of the name: options of an earlier one are nobody's."""
    options: GroupOptions


class KeptOptions:
    """The stored options of one group. Owned by one thread: who holds the lock of the groups."""

    def __init__(self, kv: Kv, topic: Topic, name: str) -> None:
        self._kv = kv
        self._topic = topic
        self._name = name

    def opened(self, said: dict[str, object]) -> GroupOptions:
        """The options that an opening gets which says these; kept if they are the first."""
        kept = self.load()
        if kept is None:
            made = options_of(said)
            self.save(made)
            return made
        others = [
            f"{option} {getattr(kept, option)!r}"
            for option, value in said.items()
            if getattr(kept, option) != value
        ]
        if others:
            raise Invalid(
                f"the group {self._name!r} has other options than given ({', '.join(others)}): "
                "open it without them, or change them with store.groups.alter()"
            )
        return kept

    def load(self) -> GroupOptions | None:
        """What is kept, None when there is nothing of this topic."""
        stored = self._kv.get(PREFIX + self._name)
        if stored is None:
            return None
        try:
            kept = msgspec.msgpack.decode(stored, type=_Kept)
        except msgspec.MsgspecError as error:
            path = f"key {PREFIX + self._name!r} of the kv map {self._kv.name!r}"
            raise Corrupt(f"options of a group cannot be read: {error}", path=path) from error
        return kept.options if kept.topic == self._topic.identity[0] else None

    def save(self, options: GroupOptions) -> None:
        """Keep these."""
        stored = _Kept(self._topic.identity[0], options)
        self._kv.put(PREFIX + self._name, msgspec.msgpack.encode(stored))


def options_of(options: dict[str, object]) -> GroupOptions:
    """Options as they were given, checked."""
    try:
        made = msgspec.convert(options, GroupOptions)
    except msgspec.ValidationError as error:
        raise Invalid(f"bad option of a group: {error}") from error
    if not 0 < made.lease_s <= LEASE_S_MAX:
        raise Invalid(f"lease_s is more than 0 and at most {LEASE_S_MAX:.0f}, not {made.lease_s}")
    if made.deliveries_max < 0:
        raise Invalid(f"deliveries_max is 0 or more, not {made.deliveries_max}")
    if not 1 <= made.window <= WINDOW_MAX:
        raise Invalid(f"window is 1 to {WINDOW_MAX}, not {made.window}")
    return made
