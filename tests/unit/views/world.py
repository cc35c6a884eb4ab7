"""A store with a small view of its own: how often each key was appended, and its bytes together.

The fold is a real one, on a paged map; views that users get have tests of their own.
"""

from __future__ import annotations

import msgspec
from xxhash import xxh3_128

from strandline.config.view_config import KvConfig
from strandline.reservoir.btree.btree_map import PagedMap
from strandline.reservoir.session import Session
from strandline.store import Store
from strandline.views.open_view import ViewKind, Views
from strandline.views.view import FoldColumns, FoldContext, ViewAppend
from strandline.views.view_runner import ViewRunner
from tests.unit.store import world

NAME = "words"
PATH = world.PATH


class TallyFold:
    """Counts by key. Owned by one thread."""

    def __init__(self, config: KvConfig, surroundings: FoldContext) -> None:
        self.config = config
        self._world = surroundings

    def load(self, session: Session, space: int, state: bytes) -> None:
        self._map = PagedMap(
            session,
            space=space,
            page_bytes=512,
            ram_bytes=self._world.ram_bytes,
            spill=self._world.spill,
        )
        self.records = msgspec.msgpack.decode(state) if state else 0

    def save(self, session: Session) -> bytes:
        self._map.save()
        return msgspec.msgpack.encode(self.records)

    def apply(self, source: int, rows: FoldColumns) -> None:
        for key, data in zip(rows.keys, rows.data, strict=True):
            self.records += 1
            count, size = self.tally(key or b"")
            self._map.put(key or b"", msgspec.msgpack.encode((count + 1, size + len(data))))

    def tally(self, key: bytes) -> tuple[int, int]:
        found = self._map.get(key)
        return (0, 0) if found is None else msgspec.msgpack.decode(found, type=tuple[int, int])

    def digest(self) -> bytes:
        hasher = xxh3_128(self.records.to_bytes(8, "little"))
        for key, value in self._map.range():
            hasher.update(msgspec.msgpack.encode((key, value)))
        return hasher.digest()


class Tally:
    """What a user would see of it."""

    def __init__(self, host: ViewRunner[TallyFold]) -> None:
        self.host = host
        self.maintained = 0

    def count(self, key: bytes) -> int:
        with self.host.reading() as fold:
            return fold.tally(key)[0]

    def add(self, *keys: bytes) -> None:
        self.host.append(ViewAppend(0, [b"x"] * len(keys), keys))

    def add_up_to(self, key: bytes, limit: int) -> bool:
        """Add the key unless it is there so often already."""

        def decision(fold: TallyFold) -> ViewAppend | None:
            return ViewAppend(0, [b"x"], [key]) if fold.tally(key)[0] < limit else None

        return self.host.decide(decision) is not None

    def maintain(self) -> None:
        self.maintained += 1


TALLY = ViewKind("kv", KvConfig, "kv", ("",), TallyFold, lambda host, *_: Tally(host))


def views_of(store: Store) -> Views:
    return store._views


def tally(store: Store, **options: object) -> Tally:
    found = views_of(store).open(TALLY, NAME, options)
    assert isinstance(found, Tally)
    return found
