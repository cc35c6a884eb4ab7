"""Promise: damage to the files never lets in whom a revocation has put out, also after a repair.

Bytes all over the log are flipped, one at a time. Then the store is opened as it is, or
repaired first: the revoked token is refused, or nobody is let in at all.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter

import pytest

from strandline.errors import StrandlineError
from strandline.log.repair.repair import repair_store
from strandline.security import audit
from strandline.security.scopes import parse
from strandline.security.token_store import TokenStore
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from tests.corruption.stores import ROOT, flipped, opened, paths, replaced, settings, wal_paths

STEP = 7
"""Every so many bytes; it shares no factor with the sizes of anything."""


class _Ids:
    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def __call__(self) -> bytes:
        return (next(self._numbers) * 0x9E3779B97F4A7C15F39C).to_bytes(16, "big")


@functools.cache
def _store_with_a_revoked_token() -> tuple[SimDisk, str]:
    """The disk of a store that was closed, and the token."""
    disk, clock = SimDisk(), SimClock()
    with opened(disk, clock) as store:
        registry = TokenStore(store, clock, _Ids())
        made = registry.create(scopes=parse("all"), creator="test")
        registry.create(scopes=parse("read"), creator="test")
        registry.revoke(made.token.id)
        store.topic("orders").append(b"behind it")
        audit.Audit(store, clock).note("token-revoked", {"token": made.token.id}).wait()
    return disk, made.text


def _places() -> list[tuple[str, int]]:
    disk, _ = _store_with_a_revoked_token()
    sizes = {path: len(disk.read(path).rstrip(b"\0")) for path in wal_paths(disk)}
    return [(path, offset) for path, size in sizes.items() for offset in range(0, size, STEP)]


def _without_views(disk: SimDisk) -> SimDisk:
    """What views have saved is gone, and they are folded from the log again."""
    for path in paths(disk, f"{ROOT}/views") if disk.exists(f"{ROOT}/views") else []:
        disk.remove(path)
    return disk


def _is_let_in(disk: SimDisk, text: str) -> str:
    """What becomes of somebody with a token: ``in``, ``out``, or the reason for all."""
    clock = SimClock()
    try:
        with opened(disk, clock) as store:
            found = TokenStore(store, clock, _Ids()).find(text)
            audit.Audit(store, clock)
            return "out" if found is None or found.invalid_reason(clock.now_us()) else "in"
    except StrandlineError as error:
        return type(error).__name__


def test_an_undamaged_store_keeps_him_out():
    disk, text = _store_with_a_revoked_token()

    assert _is_let_in(disk.kill(), text) == "out"
    assert _is_let_in(_without_views(disk.kill()), text) == "out"


@pytest.mark.parametrize("views", ["saved", "folded anew"])
@pytest.mark.parametrize("repair", [False, True], ids=["as it is", "repaired"])
def test_no_flipped_byte_lets_a_revoked_token_in(repair: bool, views: str):
    disk, text = _store_with_a_revoked_token()
    outcomes: Counter[str] = Counter()
    for path, offset in _places():
        damaged = replaced(disk, path, flipped(disk.read(path), offset, offset % 8))
        if repair:
            repair_store(damaged, ROOT, settings(), clock=SimClock())
        if views == "folded anew":
            damaged = _without_views(damaged)
        outcomes[_is_let_in(damaged, text)] += 1

    assert not outcomes["in"], outcomes
    assert outcomes["Corrupt"], outcomes
    assert outcomes["out"], outcomes
