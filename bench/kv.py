"""Key-value maps: get and put beside a dict, LMDB and RocksDB, and how costs grow with the keys.

``python -m bench.kv --keys 10000 100000`` runs it alone, with maps of these sizes.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import shutil
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import strandline
from bench.measure import Figure, fixed, rate, scaled
from bench.places import scratch
from strandline.config.settings import GIB, Settings, ViewSettings
from strandline.views.kv.values import Entry

VALUE = b"v" * 100
KEYS = 100_000
HOT_KEYS = 1_000
OPERATIONS = 20_000
BATCH = 100
ROUNDS = 5
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
LOAD_BATCH = 10_000
SCANNED = 100
GOAL_GET_US = 3.0
GROWTH_MAX = 3.0
"""A thousand times the keys may cost so many times as much: log2 grows from 13 to 23, and caches of
the processor hold less and less of it."""
SMALL_VALUE = b"v" * 20
ROOMY = Settings(views=ViewSettings(memory_bytes=64 * GIB))
"""So that all pages stay in memory, of the largest map too: what grows is then the search alone."""


class Peer(Protocol):
    """A map of bytes."""

    name: str
    reads: bool

    def get(self, key: bytes) -> bytes | None: ...

    def put(self, key: bytes, value: bytes) -> object: ...

    def put_many(self, keys: Sequence[bytes], value: bytes) -> object:
        """All or none."""
        ...


def run(folder: Path, *, scale: float = 1.0, sizes: Sequence[int] | None = None) -> list[Figure]:
    operations = fixed(OPERATIONS, scale, least=BATCH)
    figures = _beside_others(folder, scaled(KEYS, scale, least=HOT_KEYS), operations)
    chosen = sizes or [size for size in SIZES if size <= SIZES[-1] * scale] or SIZES[:1]
    return figures + _growth(folder, chosen, operations)


def _beside_others(folder: Path, count: int, operations: int) -> list[Figure]:
    """The same work by all of them in turn, so that all meet the same machine."""
    draw = random.Random(7)
    keys = _keys(count)
    hot = draw.choices(keys[:HOT_KEYS], k=operations)
    anywhere = draw.choices(keys, k=operations)
    batches = [anywhere[at : at + BATCH] for at in range(0, operations, BATCH)]
    with _peers(folder) as peers:
        for peer in peers:
            for at in range(0, count, BATCH):
                peer.put_many(keys[at : at + BATCH], VALUE)
        works: dict[str, tuple[list[Any], Callable[[Peer], Callable[[Any], object]]]] = {
            "get a hot key": (hot, lambda peer: peer.get),
            f"get any of {count:,} keys": (anywhere, lambda peer: peer.get),
            "put": (anywhere, lambda peer: lambda key: peer.put(key, VALUE)),
            f"put, batches of {BATCH}": (
                batches,
                lambda peer: lambda keys: peer.put_many(keys, VALUE),
            ),
        }
        figures = []
        for name, (given, verb) in works.items():
            able = [peer for peer in peers if peer.reads or not name.startswith("get")]
            rates = {peer.name: 0.0 for peer in able}
            for _ in range(ROUNDS):
                for peer in able:
                    done = rate(lambda: _each(verb(peer), given), rounds=1)  # noqa: B023
                    rates[peer.name] = max(rates[peer.name], done)
            figures += _compared(name, rates, peers[0].name, operations / len(given))
    return figures


def _compared(name: str, rates: dict[str, float], ours: str, keys_per_call: float) -> list[Figure]:
    own_us = 1e6 / (rates[ours] * keys_per_call)
    goal = f"< {GOAL_GET_US:.0f} us" if name == "get a hot key" else ""
    return [
        Figure(
            name=f"kv: {name}",
            value=own_us,
            unit="us/key",
            peer=f"{peer} (times as fast)",
            ratio=rates[ours] / theirs,
            goal=goal,
            met=own_us < GOAL_GET_US if goal else None,
        )
        for peer, theirs in rates.items()
        if peer != ours
    ]


def _growth(folder: Path, sizes: Sequence[int], operations: int) -> list[Figure]:
    """What one operation costs in maps of several sizes; beside it the smallest."""
    costs: dict[str, list[float]] = {}
    figures = []
    for size in sizes:
        for name, cost_us in _costs(folder / f"kv-{size}", size, operations, ROOMY).items():
            costs.setdefault(name, []).append(cost_us)
            ratio = cost_us / costs[name][0]
            figures.append(
                Figure(
                    name=f"kv of {size:,}: {name}",
                    value=cost_us,
                    unit="us",
                    peer=f"of {sizes[0]:,} (times as long)",
                    ratio=ratio,
                    goal=f"<= {GROWTH_MAX:.0f} x",
                    met=ratio <= GROWTH_MAX,
                )
            )
    largest = _costs(folder / "kv-default", sizes[-1], operations, Settings())
    figures += [
        Figure(name=f"kv of {sizes[-1]:,}, memory as by default: {name}", value=cost, unit="us")
        for name, cost in largest.items()
    ]
    return figures


def _costs(folder: Path, size: int, operations: int, settings: Settings) -> dict[str, float]:
    draw = random.Random(11)
    with strandline.open(str(folder), settings=settings) as store:
        kv = store.kv("map")
        topic = store.topic("map")
        for first in range(0, size, LOAD_BATCH):
            count = min(LOAD_BATCH, size - first)
            topic.append_many([SMALL_VALUE] * count, keys=_keys(count, first))
            kv.exists(b"?")  # it folds in as it comes
        store.checkpoint()
        some = [_key(draw.randrange(size)) for _ in range(operations // 4)]
        hot = draw.choices(some[:100], k=operations)
        works: dict[str, tuple[Callable[[bytes], object], list[bytes]]] = {
            "get a hot key": (kv.get, hot),
            "get a key that is not at hand": (kv.get, some),
            "put a key that is not at hand": (lambda key: kv.put(key, SMALL_VALUE), some),
            "put if the version is right": (
                lambda key: kv.put(key, SMALL_VALUE, version=_entry(kv, key).version),
                some[: len(some) // 4],
            ),
            f"scan {SCANNED} from any key": (
                lambda key: list(kv.scan(first=key, limit=SCANNED)),
                some[: max(1, len(some) // 20)],
            ),
        }
        found = {}
        for name, (work, given) in works.items():
            rates = []
            for _ in range(3):
                if work is not kv.get or given is not hot:
                    _drop_what_is_at_hand(kv)
                rates.append(rate(lambda: _each(work, given), rounds=1))  # noqa: B023
            found[name] = 1e6 / statistics.median(rates)
    shutil.rmtree(folder)
    return found


def _entry(kv: strandline.Kv, key: bytes) -> Entry:
    found = kv.entry(key)
    assert found is not None
    return found


def _drop_what_is_at_hand(kv: strandline.Kv) -> None:
    """As the memory budget does when it is short: what is asked for next comes from the map."""
    with kv._host.reading() as fold:
        fold.shrink(1 << 62)


def _each(work: Callable[[Any], object], given: Sequence[Any]) -> int:
    for each in given:
        work(each)
    return len(given)


def _key(number: int) -> bytes:
    return b"user:%010d" % number


def _keys(count: int, first: int = 0) -> list[bytes]:
    return [_key(number) for number in range(first, first + count)]


@contextmanager
def _peers(folder: Path) -> Iterator[list[Peer]]:
    """Ours comes first."""
    with strandline.open(str(folder / "kv-peers")) as store:
        peers: list[Peer] = [_Ours(store.kv("map")), _Dict(), _Log(store.topic("log"))]
        closing: list[Callable[[], object]] = []
        for name, make in (("lmdb", _Lmdb), ("rocksdict", _Rocks)):
            if importlib.util.find_spec(name):
                peer = make(str(folder / f"kv-{name}"))
                peers.append(peer)
                closing.append(peer.close)
        try:
            yield peers
        finally:
            for close in closing:
                close()


class _Ours:
    name = "Strandline"
    reads = True

    def __init__(self, kv: strandline.Kv) -> None:
        self._kv = kv
        self.get = kv.get
        self.put = kv.put

    def put_many(self, keys: Sequence[bytes], value: bytes) -> object:
        return self._kv.put_many(dict.fromkeys(keys, value))


class _Dict:
    """Nothing is kept, and nothing is safe: what Python itself costs."""

    name = "a dict in a class"
    reads = True

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self._values.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        self._values[key] = value

    def put_many(self, keys: Sequence[bytes], value: bytes) -> None:
        self._values.update(dict.fromkeys(keys, value))


class _Log:
    """The topic below, without a view: what the log itself costs."""

    name = "appends to a topic"
    reads = False

    def __init__(self, topic: strandline.Topic) -> None:
        self._topic = topic

    def get(self, key: bytes) -> bytes | None:
        raise NotImplementedError

    def put(self, key: bytes, value: bytes) -> object:
        return self._topic.append(value, key=key)

    def put_many(self, keys: Sequence[bytes], value: bytes) -> object:
        return self._topic.append_many([value] * len(keys), keys=keys)


class _Lmdb:
    """Not synced, as a topic of class ``disk`` is not: the page cache has it."""

    name = "lmdb, not synced"
    reads = True

    def __init__(self, path: str) -> None:
        import lmdb  # noqa: PLC0415

        self._environment = lmdb.open(path, map_size=1 << 34, sync=False, metasync=False)

    def get(self, key: bytes) -> bytes | None:
        with self._environment.begin(buffers=False) as transaction:
            found: bytes | None = transaction.get(key)
            return found

    def put(self, key: bytes, value: bytes) -> None:
        with self._environment.begin(write=True) as transaction:
            transaction.put(key, value)

    def put_many(self, keys: Sequence[bytes], value: bytes) -> None:
        with self._environment.begin(write=True) as transaction:
            for key in keys:
                transaction.put(key, value)

    def close(self) -> None:
        self._environment.close()


class _Rocks:
    """With its log, not synced."""

    name = "RocksDB"
    reads = True

    def __init__(self, path: str) -> None:
        import rocksdict  # noqa: PLC0415

        self._batch = rocksdict.WriteBatch
        self._map = rocksdict.Rdict(path, rocksdict.Options(raw_mode=True))

    def get(self, key: bytes) -> bytes | None:
        found: bytes | None = self._map.get(key)
        return found

    def put(self, key: bytes, value: bytes) -> None:
        self._map[key] = value

    def put_many(self, keys: Sequence[bytes], value: bytes) -> None:
        batch = self._batch(raw_mode=True)
        for key in keys:
            batch.put(key, value)
        self._map.write(batch)

    def close(self) -> None:
        self._map.close()


def main() -> None:
    from bench.__main__ import _print  # noqa: PLC0415 — the table is drawn there

    parser = argparse.ArgumentParser(prog="python -m bench.kv", description=__doc__)
    parser.add_argument("--keys", type=int, nargs="+", default=list(SIZES[:3]))
    parser.add_argument("--scale", type=float, default=1.0)
    given = parser.parse_args()
    with scratch() as folder:
        for figure in run(folder, scale=given.scale, sizes=given.keys):
            _print(figure)


if __name__ == "__main__":
    main()
