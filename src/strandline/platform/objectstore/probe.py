"""Is this store safe to build on? Asked once, when a store is opened, before anything rests on it.

All order in the lake comes from one promise: of many who create one name exactly one succeeds, and
everybody can then read what the winner wrote. Some stores and gateways take the request and ignore
the condition, so the promise is tried: first one after another, then all at once.
"""

from __future__ import annotations

import os
import threading

from strandline.errors import AlreadyThere, Unavailable, UnfitStore
from strandline.platform.objectstore.protocol import Objects
from strandline.platform.system_errors import NO_THREADS
from strandline.platform.thread_pool import ThreadPool

PROBES = "probe"
RACERS = 8
ROUNDS = 3


def probe(objects: Objects, *, racers: int = RACERS, rounds: int = ROUNDS) -> None:
    """Return when the store keeps the promise; ``UnfitStore`` when it does not."""
    name = os.urandom(16).hex()
    keys = [f"{PROBES}/{name}-{number}" for number in range(rounds + 1)]
    try:
        _one_after_another(objects, keys[0])
        for key in keys[1:]:
            _all_at_once(objects, key, racers)
        if not {info.key for info in objects.list(PROBES)}.issuperset(keys):
            raise _unfit(objects, "a listing does not show what was written just before")
    except UnfitStore:
        objects.delete(keys)
        raise
    objects.delete(keys)


def _one_after_another(objects: Objects, key: str) -> None:
    first, second = _body(), _body()
    objects.create(key, first)
    try:
        objects.create(key, second)
    except AlreadyThere:
        pass
    else:
        raise _unfit(objects, "it created one object twice")
    if objects.get(key) != first:
        raise _unfit(objects, "a refused creation changed the object")


def _all_at_once(objects: Objects, key: str, racers: int) -> None:
    start = threading.Barrier(racers)

    def race(body: bytes) -> bytes | None:
        start.wait()
        try:
            objects.create(key, body)
        except AlreadyThere:
            return None
        return body

    with ThreadPool(racers, "strandline-probe") as pool:
        ended = [pool.try_submit(race, _body()) for _ in range(racers)]
        if None in ended:
            start.abort()
            raise Unavailable(f"{racers} threads to check {objects.name} are refused: {NO_THREADS}")
        winners = [body for each in ended if each is not None and (body := each.result())]
    if len(winners) != 1:
        raise _unfit(objects, f"{len(winners)} of {racers} created one object at the same time")
    if objects.get(key) != winners[0]:
        raise _unfit(objects, "the object is not the one of the creator who was told to have won")


def _body() -> bytes:
    return os.urandom(32)


def _unfit(objects: Objects, what: str) -> UnfitStore:
    return UnfitStore(
        f"{objects.name} does not create objects safely: {what}. "
        "Two writers could both believe to have committed; use another store"
    )
