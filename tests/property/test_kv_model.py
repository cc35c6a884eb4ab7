"""Promise: whatever is done to a key-value view, in any order, it answers as a plain dict of
versions does; with time passing, saves, reopenings, crashes, rebuilds and compactions in between.

After every compaction, and whenever it is asked, the live view and one that is folded anew from
what the log has left have the same digest.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from strandline.errors import Conflict, NotFound, RecordsLost
from strandline.views.kv.values import Delete, Put
from tests.unit.views.kv.world import (
    NAME,
    World,
    digest,
    forgetful_kv_of,
    host_of,
    rebuilt_digest,
    save,
)

KEYS = st.sampled_from([b"a", b"ab", b"b", b"b\xff", b"b\xffc", b"c", b"\xff"])
VALUES = st.sampled_from([b"", b"v", b"7", b"-3", b'{"x":[1,2]}', b"[]"]) | st.binary(max_size=6)
BOUNDS = st.none() | KEYS
TTLS = st.none() | st.sampled_from([1.0, 5.0, 100.0])
GRACE_S = 50


class Kept(NamedTuple):
    """A version of a key as the model has it."""

    version: int
    ts: int
    value: bytes | None
    expires_us: int | None


class KvMachine(RuleBasedStateMachine):
    """A view with little memory, and a dict of lists of versions, newest last."""

    @initialize(history=st.integers(1, 4), ram_bytes=st.sampled_from([0, 6000, 1 << 20]))
    def begin(self, history, ram_bytes):
        self.world = World()
        self.history = history
        self.ram_bytes = ram_bytes
        self._open()
        self.model: dict[bytes, list[Kept]] = {}
        self.forgotten = 0
        self.changes: list[tuple[int, bytes, bytes | None]] = []

    def _open(self):
        self.kv = forgetful_kv_of(
            self.world.store, self.ram_bytes, history=self.history, grace_ms=GRACE_S * 1000
        )

    @property
    def now_us(self) -> int:
        return self.world.clock.now_us()

    def _write(self, version: int, key: bytes, value: bytes | None, ttl=None, expires_us=None):
        if ttl is not None:
            expires_us = self.now_us + round(ttl * 1e6)
        versions = self.model.setdefault(key, [])
        versions.append(Kept(version, self.now_us, value, expires_us))
        del versions[: -self.history]
        self.changes.append((version, key, value))

    def _live(self, key: bytes) -> Kept | None:
        newest = self.model[key][-1] if self.model.get(key) else None
        if newest is None or newest.value is None:
            return None
        return None if (newest.expires_us or self.now_us + 1) <= self.now_us else newest

    def _alive(self) -> dict[bytes, Kept]:
        found = {key: self._live(key) for key in sorted(self.model)}
        return {key: each for key, each in found.items() if each is not None}

    @invariant()
    def every_key_is_as_the_model_has_it(self):
        if hasattr(self, "kv"):
            expected = {key: live.value for key, live in self._alive().items()}
            assert {entry.key: entry.value for entry in self.kv.scan()} == expected
            assert [self.kv.get(key) for key in self.model] == [
                expected.get(key) for key in self.model
            ]

    @rule(key=KEYS, value=VALUES, ttl=TTLS)
    def put(self, key, value, ttl):
        version = self.kv.put(key, value, ttl=ttl)

        assert version > max((each[0] for each in self.changes), default=0)
        self._write(version, key, value, ttl)

    @rule(key=KEYS, value=VALUES)
    def append_to_the_topic(self, key, value):
        appended = self.world.store.topic(NAME).append(value, key=key)

        self._write(appended.first_seq, key, value)

    @rule(key=KEYS, value=VALUES, ttl=TTLS, nx=st.booleans())
    def put_if_absent_or_present(self, key, value, ttl, nx):
        if (self._live(key) is None) != nx:
            with pytest.raises(Conflict):
                self.kv.put(key, value, ttl=ttl, nx=nx, xx=not nx)
        else:
            version = self.kv.put(key, value, ttl=ttl, nx=nx, xx=not nx)
            self._write(version, key, value, ttl)

    @rule(key=KEYS, value=VALUES, guess=st.none() | st.integers(0, 30))
    def compare_and_set(self, key, value, guess):
        live = self._live(key)
        actual = 0 if live is None else live.version
        expected = actual if guess is None else guess
        if expected == actual:
            self._write(self.kv.put(key, value, version=expected), key, value)
        else:
            with pytest.raises(Conflict):
                self.kv.put(key, value, version=expected)

    @rule(key=KEYS, guess=st.none() | st.integers(0, 30))
    def delete(self, key, guess):
        live = self._live(key)
        if guess is not None and guess != (live.version if live else 0):
            with pytest.raises(Conflict):
                self.kv.delete(key, version=guess)
            return

        assert self.kv.delete(key, version=guess) == (live is not None)

        if live is not None:
            self._write(self.kv.head, key, None)

    @rule(key=KEYS, delta=st.integers(-5, 5))
    def increment(self, key, delta):
        live = self._live(key)
        if live is not None and live.value not in (b"7", b"-3"):
            try:
                number = int(live.value)
            except ValueError:
                number = None
            if number is None or b"%d" % number != live.value:
                with pytest.raises(Conflict):
                    self.kv.incr(key, delta)
                return
        before = 0 if live is None else int(live.value)

        assert self.kv.incr(key, delta) == before + delta

        expires_us = None if live is None else live.expires_us
        self._write(self.kv.head, key, b"%d" % (before + delta), expires_us=expires_us)

    @rule(key=KEYS, ttl=TTLS)
    def touch_or_persist(self, key, ttl):
        live = self._live(key)
        version = self.kv.persist(key) if ttl is None else self.kv.touch(key, ttl)

        if live is None:
            assert version == 0
            return
        expires_us = None if ttl is None else self.now_us + round(ttl * 1e6)
        if expires_us == live.expires_us:
            assert version == live.version
        else:
            self._write(version, key, live.value, expires_us=expires_us)

    @rule(key=KEYS, place=st.sampled_from(["$", "$.x", "$.x[0]", "$.x[2]", "$[0]"]))
    def json_set(self, key, place):
        live = self._live(key)
        document = None
        try:
            document = None if live is None else json.loads(live.value)
        except ValueError:
            with pytest.raises(Conflict):
                self.kv.json_set(key, place, 9)
            return
        expected = _json_set(document, place, 9)
        if expected is None:
            with pytest.raises(NotFound):
                self.kv.json_set(key, place, 9)
            return
        version = self.kv.json_set(key, place, 9)
        value = self.kv.get(key)
        assert json.loads(value) == expected
        assert self.kv.json_get(key, place) == 9
        self._write(version, key, value, expires_us=None if live is None else live.expires_us)

    @rule(
        changes=st.dictionaries(KEYS, st.none() | VALUES, min_size=1, max_size=4),
        wrong=st.booleans(),
    )
    def batch(self, changes, wrong):
        operations = [
            Delete(key) if value is None else Put(key, value) for key, value in changes.items()
        ]
        if wrong:
            with pytest.raises(Conflict):
                self.kv.batch([*operations, Put(b"a", b"", version=10**9)])
            return

        versions = self.kv.batch(operations)

        for (key, value), version in zip(changes.items(), versions, strict=True):
            absent = value is None and self._live(key) is None
            assert (version == 0) == absent
            if not absent:
                self._write(version, key, value)

    @rule(
        reads=st.lists(KEYS, max_size=3),
        writes=st.dictionaries(KEYS, st.none() | VALUES, max_size=3),
        between=st.none() | KEYS,
    )
    def transaction(self, reads, writes, between):
        before = {key: self._live(key) for key in self.model}
        work = self.kv.transaction()
        for key in reads:
            live = self._live(key)
            assert work.get(key) == (None if live is None else live.value)
        deleted = []
        for key, value in writes.items():
            if value is None:
                deleted.append(key)
                assert work.delete(key) == (self._live(key) is not None)
            else:
                work.put(key, value)
            assert work.get(key) == value
        if between is not None:
            self.put(between, b"between", None)
        if between is not None and between in {*reads, *deleted}:
            with pytest.raises(Conflict):
                work.commit()
            return

        last = work.commit()

        written = [
            (key, value)
            for key, value in writes.items()
            if value is not None or before.get(key) is not None
        ]
        for place, (key, value) in enumerate(written):
            self._write(last - len(written) + 1 + place, key, value)

    @rule(keys=st.lists(KEYS, max_size=6))
    def look_up_many(self, keys):
        alive = self._alive()

        assert self.kv.mget(keys) == [alive[key].value if key in alive else None for key in keys]
        assert [self.kv.exists(key) for key in keys] == [key in alive for key in keys]
        for key in keys:
            entry = self.kv.entry(key)
            if key not in alive:
                assert entry is None
            else:
                assert (entry.version, entry.ts, entry.value, entry.expires_us) == alive[key]

    @rule(
        first=BOUNDS,
        following=BOUNDS,
        after=BOUNDS,
        limit=st.none() | st.integers(0, 4),
        reverse=st.booleans(),
    )
    def scan_a_range(self, first, following, after, limit, reverse):
        found = self.kv.scan(first=first, next=following, after=after, limit=limit, reverse=reverse)

        expected = sorted(self._alive(), reverse=reverse)
        expected = [
            key
            for key in expected
            if (first is None or key >= first)
            and (following is None or key < following)
            and (after is None or (key < after if reverse else key > after))
        ]
        assert [entry.key for entry in found] == expected[:limit]

    @rule(prefix=KEYS, reverse=st.booleans())
    def scan_a_prefix(self, prefix, reverse):
        found = [entry.key for entry in self.kv.scan(prefix, reverse=reverse)]

        expected = sorted(self._alive(), reverse=reverse)
        assert found == [key for key in expected if key.startswith(prefix)]

    @rule(key=KEYS)
    def look_at_the_history(self, key):
        versions = self.kv.history(key)

        found = [(each.version, each.ts, each.value, each.expires_us) for each in versions]
        assert found == [tuple(each) for each in reversed(self.model.get(key, []))]

    @rule(key=KEYS, version=st.integers(0, 60), by_time=st.booleans())
    def look_into_the_past(self, key, version, by_time):
        kept = self.model.get(key, [])
        ts = self.now_us - version * 1_000_000
        if by_time:
            reached = [each for each in kept if each.ts <= ts]
            asked = {"ts": ts}
        else:
            reached = [each for each in kept if each.version <= version]
            asked = {"version": version}
        if not reached and len(kept) == self.history:
            with pytest.raises(NotFound):
                self.kv.entry_at(key, **asked)
            return

        entry = self.kv.entry_at(key, **asked)

        newest = reached[-1] if reached else None
        over = by_time and newest is not None and 0 < (newest.expires_us or 0) <= ts
        if newest is None or newest.value is None or over:
            assert entry is None
        else:
            assert (entry.version, entry.value) == (newest.version, newest.value)

    @rule(after=st.integers(0, 60))
    def watch_what_is_there(self, after):
        after = min(after, self.kv.head)
        if 0 < after < self.forgotten:
            with pytest.raises(RecordsLost):
                self.kv.watch(after=after, timeout_s=0)
            return

        seen = list(self.kv.watch(after=after, timeout_s=0))

        told = [(each.version, each.key, each.value) for each in seen]
        all_changes = [each for each in self.changes if each[0] > after]
        assert [each for each in told if each not in all_changes] == []
        assert [each[0] for each in told] == sorted(each[0] for each in told)
        # Whatever the watcher knew before, it knows every key as it is now.
        last = {key: value for _, key, value in told}
        for key, kept in self.model.items():
            if kept and kept[-1].version > after:
                assert last[key] == kept[-1].value

    @rule(seconds=st.sampled_from([0.5, 2.0, 20.0, 60.0]))
    def let_time_pass(self, seconds):
        self.world.clock.advance(seconds)

    @rule()
    def save(self):
        save(self.world.store)

    @rule(saved=st.booleans())
    def compact(self, saved):
        if saved:
            save(self.world.store)
        head, secured = self.kv.head, host_of(self.world.store).secured[0]

        done = self.kv.compact()

        assert (done.expired, done.forgotten) == self._maintained(head, secured)

    @rule()
    def checkpoint_the_store(self):
        head = self.kv.head

        self.world.store.checkpoint()

        self._maintained(head, secured=head)

    def _maintained(self, head: int, secured: int) -> tuple[int, int]:
        """Do to the model what a compaction does; how many keys it expires and forgets."""
        over = [
            key
            for key, kept in self.model.items()
            if kept[-1].value is not None and self._live(key) is None
        ]
        for change in self.kv.watch(after=head, timeout_s=0):
            assert change.expired
            assert change.key in over
            self._write(change.version, change.key, None)
        assert [key for key in over if self.model[key][-1].value is not None] == []
        until_us = self.now_us - GRACE_S * 1_000_000
        gone = {
            key: kept[-1].version
            for key, kept in self.model.items()
            if kept[-1].value is None and kept[-1].ts < until_us and kept[-1].version <= secured
        }
        for key, version in gone.items():
            del self.model[key]
            self.forgotten = max(self.forgotten, version)
        return len(over), len(gone)

    @rule()
    def reopen(self):
        self.world.reopen()
        self._open()

    @rule()
    def kill(self):
        self.world.kill()
        self._open()

    @rule()
    def rebuild(self):
        live = digest(self.world.store)

        assert rebuilt_digest(self.world.store) == live

    def teardown(self):
        if hasattr(self, "kv"):
            self.compact(True)
            live = digest(self.world.store)
            self.kill()
            assert digest(self.world.store) == live
            assert rebuilt_digest(self.world.store) == live
            self.world.store.close()


def _json_set(document, place, value):
    """The document with the value at one of the places of the test; None when there is no place."""
    if place == "$":
        return value
    if place == "$[0]":
        if not isinstance(document, list):
            return None
        return [value, *document[1:]]
    if not isinstance(document, dict):
        return None
    if place == "$.x":
        return document | {"x": value}
    at = int(place[4])
    array = document.get("x")
    if not isinstance(array, list) or at > len(array):
        return None
    return document | {"x": [*array[:at], value, *array[at + 1 :]]}


TestKv = KvMachine.TestCase
TestKv.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
