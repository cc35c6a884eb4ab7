"""Clients of a key-value map: puts, conditional puts, deletes and reads; each key is linearizable.

A version is the place of a write in the order of all, so it is enough to look at versions: a read
or write sees none below those that were known when it was sent; a conditional put has nothing
between the version that it names and its own; a key is absent only after a delete.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import msgspec

from tests.simulation.client import Answer, Client, Lost
from tests.simulation.model import Violation
from tests.simulation.world import World

KEYS = 5
NAME = "map"


class _Delete(msgspec.Struct):
    """A delete of a client. Its end is endless when its outcome is not known."""

    floor: int
    is_done: bool = False


class _Key(msgspec.Struct):
    """All that is known of one key."""

    writes: dict[int, int] = {}
    """Which write has which version."""
    swaps: list[tuple[int, int]] = []
    deletes: list[_Delete] = []

    @property
    def newest(self) -> int:
        return max(self.writes, default=0)


class Maps:
    """The map of one run. Owned by the loop's thread."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._numbers = itertools.count(1)
        self._keys = {f"key-{number}": _Key() for number in range(KEYS)}
        self._sent: dict[int, str] = {}

    async def create(self, client: Client) -> None:
        good = self._world.until_good
        await good(client, "PUT", f"/v0/topics/{NAME}", {"durability": "fsync"})
        await good(client, "PUT", f"/v0/views/{NAME}/kv", {})

    async def work(self, client: Client, rng: random.Random, steps: int) -> None:
        for _ in range(steps):
            await self._world.think(rng)
            name, drawn = rng.choice(list(self._keys)), rng.random()
            if drawn < 0.3:
                await self._put(client, name, None)
            elif drawn < 0.55:
                await self._put(client, name, self._keys[name].newest)
            elif drawn < 0.65:
                await self._delete(client, name)
            else:
                await self._get(client, name)

    async def check(self, client: Client) -> None:
        for name in self._keys:
            floor, deletes = self._mark(name)
            found = await self._world.until_good(
                client, "POST", f"/v0/kv/{NAME}/get", {"key": name}
            )
            self._judge(name, floor, deletes, found)

    async def _put(self, client: Client, name: str, version: int | None) -> None:
        number = next(self._numbers)
        self._sent[number] = name
        body = {"key": name, "value": {"write": number}}
        if version is not None:
            body["version"] = version
        floor = self._keys[name].newest
        answer = await self._ask(client, "put", body)
        if answer is None or answer.status != 200:
            return
        given = answer.body["version"]
        if given <= floor:
            raise Violation(f"{name}: write {number} has version {given}, {floor} was known before")
        if version:
            self._keys[name].swaps.append((version, given))
        self._learn(name, given, number)

    async def _delete(self, client: Client, name: str) -> None:
        delete = _Delete(self._keys[name].newest)
        self._keys[name].deletes.append(delete)
        answer = await self._ask(client, "delete", {"key": name})
        delete.is_done = answer is not None and answer.status == 200

    async def _get(self, client: Client, name: str) -> None:
        floor, deletes = self._mark(name)
        answer = await self._ask(client, "get", {"key": name})
        if answer is not None and answer.status == 200:
            self._judge(name, floor, deletes, answer.body)

    def _mark(self, name: str) -> tuple[int, list[_Delete]]:
        """The newest version that is known now, and the deletes that are done."""
        key = self._keys[name]
        return key.newest, [each for each in key.deletes if each.is_done]

    def _judge(self, name: str, floor: int, done: list[_Delete], found: Any) -> None:
        key = self._keys[name]
        if not found["found"]:
            # A delete that was sent while an older version was the newest known may come later.
            if floor and not key.deletes:
                raise Violation(f"{name} is not there, and version {floor} was, and no delete sent")
            return
        version, number = found["entry"]["version"], found["entry"]["value"]["write"]
        if self._sent.get(number) != name:
            raise Violation(f"{name} holds write {number}, which was not sent to it")
        if version < floor:
            raise Violation(f"{name} has version {version}, and had {floor} before")
        gone = max((each.floor for each in done), default=0)
        if version <= gone:
            raise Violation(f"{name} has version {version}, and was deleted after {gone}")
        self._learn(name, version, number)

    def _learn(self, name: str, version: int, number: int) -> None:
        key = self._keys[name]
        if key.writes.setdefault(version, number) != number:
            raise Violation(f"{name}: version {version} is of {number} and {key.writes[version]}")
        for before, after in key.swaps:
            between = [each for each in key.writes if before < each < after]
            if between:
                raise Violation(f"{name}: {after} was to follow {before}, and {between} is between")

    async def _ask(self, client: Client, verb: str, body: Any) -> Answer | None:
        try:
            return self._world.sound(await client.ask("POST", f"/v0/kv/{NAME}/{verb}", body))
        except Lost:
            return None
