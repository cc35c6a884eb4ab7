"""Clients of topics: appends of every class, alone and in batches; reads; cursors that follow."""

from __future__ import annotations

import itertools
import random
from typing import Any

from tests.simulation.client import Answer, Client, Lost
from tests.simulation.model import Append, Mark, TopicModel, Violation
from tests.simulation.world import World

DURABILITIES = ("fsync", "disk", "memory", "ephemeral")
REFUSED_SURELY = frozenset({400, 404, 409, 413, 422, 429})


class Topics:
    """The topics of one run. Owned by the loop's thread."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._numbers = itertools.count(1)
        self.models = {
            f"{durability}-{number}": TopicModel(f"{durability}-{number}", durability, world.losses)
            for durability in DURABILITIES
            for number in range(2 if durability in ("fsync", "disk") else 1)
        }

    async def create(self, client: Client) -> None:
        for name, model in self.models.items():
            await self._world.until_good(
                client, "PUT", f"/v0/topics/{name}", {"durability": model.durability}
            )

    async def work(self, client: Client, rng: random.Random, steps: int) -> None:
        """One client that appends and reads."""
        for _ in range(steps):
            await self._world.think(rng)
            model = rng.choice(list(self.models.values()))
            if rng.random() < 0.75:
                await self._append(client, rng, model)
            else:
                await self._read(client, rng, model)

    async def follow(self, client: Client, rng: random.Random) -> None:
        """One client that reads every topic on from its cursors, until all clients are done."""
        cursors = dict.fromkeys(self.models, 0)
        while not self._world.is_calm:
            name = rng.choice(list(self.models))
            body = {"from_seq": cursors[name], "limit": rng.choice((1, 7, 200)), "wait_ms": 300}
            page = await self._page(client, self.models[name], body)
            if page is not None:
                cursors[name] = page["next_from_seq"]
            await self._world.think(rng)

    async def check(self, client: Client) -> None:
        """Read everything, and judge it."""
        for name, model in self.models.items():
            after, records = 0, []
            while True:
                mark = model.mark
                page = await self._world.until_good(
                    client, "POST", f"/v0/topics/{name}/diff", {"from_seq": after, "limit": 100}
                )
                model.check_page(after, mark, page)
                records += page["records"]
                if page["caught_up"]:
                    break
                if page["next_from_seq"] <= after:
                    raise Violation(f"topic {name}: a page after {after} does not move on")
                after = page["next_from_seq"]
            model.check_all(records)

    async def _append(self, client: Client, rng: random.Random, model: TopicModel) -> None:
        count = rng.choice((1, 1, 1, 2, 5, 30))
        keyed = rng.random() < 0.4
        append = model.send(next(self._numbers), count, keyed=keyed)
        body = _body(rng, append)
        expected = model.head if rng.random() < 0.15 else None
        if expected is not None:
            body["expected_head_seq"] = expected
        headers = {"Idempotency_Key": f"op-{append.number}"} if keyed else {}
        path = f"/v0/topics/{model.name}"
        for pause in (0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0):
            mark = model.mark
            answer = await self._try(client, "POST", path, body, headers)
            if answer is not None and answer.status == 200:
                self._acknowledge(model, append, mark, answer.body, expected)
                return
            if not keyed or (answer is not None and answer.status in REFUSED_SURELY - {429}):
                return
            await self._world.pause(pause)

    def _acknowledge(
        self, model: TopicModel, append: Append, mark: Mark, body: Any, expected: int | None
    ) -> None:
        model.acknowledge(append, mark, body)
        first = body["first_seq"]
        if expected is not None and not body["deduped"] and first != expected + 1:
            raise Violation(f"topic {model.name}: head {expected} was expected, first is {first}")

    async def _read(self, client: Client, rng: random.Random, model: TopicModel) -> None:
        after = rng.randrange(model.head + 1)
        await self._page(client, model, {"from_seq": after, "limit": rng.choice((1, 10, 500))})

    async def _page(self, client: Client, model: TopicModel, body: dict[str, Any]) -> Any:
        mark = model.mark
        answer = await self._try(client, "POST", f"/v0/topics/{model.name}/diff", body, {})
        if answer is None or answer.status != 200:
            return None
        model.check_page(body["from_seq"], mark, answer.body)
        return answer.body

    async def _try(
        self, client: Client, method: str, path: str, body: Any, headers: dict[str, str]
    ) -> Answer | None:
        try:
            return self._world.sound(await client.ask(method, path, body, **headers))
        except Lost:
            return None


def _body(rng: random.Random, append: Append) -> dict[str, Any]:
    records = []
    for index in range(append.count):
        data: dict[str, Any] = {"op": append.number, "i": index}
        if rng.random() < 0.3:
            data["fill"] = "x" * rng.choice((10, 300, 3000))
        record: dict[str, Any] = {"data": data}
        if rng.random() < 0.2:
            record["tag"] = rng.choice(("red", "blue"))
        records.append(record)
    return {"records": records}
