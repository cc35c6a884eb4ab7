"""Clients of a work queue: jobs are put, claimed under leases, acknowledged, given back.

one owner    no job is given out while another has it: each delivery has a number of its own, and
             comes after the deadline of the one before, unless that was given back
kept         a job that was put and never settled is given out in the end
done         a job that was acknowledged is never given out again
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import msgspec

from tests.simulation.client import Answer, Client, Lost
from tests.simulation.model import Violation
from tests.simulation.world import World

NAME = "jobs"
LEASE_MS_MAX = 4_000


class _Job(msgspec.Struct):
    """All that is known of one job."""

    number: int
    deliveries: set[int] = set()
    deadline_ms: int = 0
    """Of the newest delivery; 0 when it may have been given back."""
    is_done: bool = False
    """Whether an acknowledgement was answered."""
    may_be_done: bool = False


class Queues:
    """The queue of one run. Owned by the loop's thread."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._numbers = itertools.count(1)
        self._jobs: dict[int, _Job] = {}
        self._sent: set[int] = set()

    async def create(self, client: Client) -> None:
        options = {"type": "queue", "durability": "fsync", "max_deliveries": 0}
        await self._world.until_good(client, "PUT", f"/v0/topics/{NAME}", options)

    async def work(self, client: Client, rng: random.Random, steps: int) -> None:
        for _ in range(steps):
            await self._world.think(rng)
            if rng.random() < 0.4:
                await self._put(client, rng)
            else:
                await self._work_on(client, rng)

    async def check(self, client: Client) -> None:
        """Take what is left, and judge what is missing."""
        # After a restart a lease counts again, from the first look at the queue.
        await self._world.until_good(client, "GET", f"/v0/queues/{NAME}")
        await self._world.pause(LEASE_MS_MAX / 1000 + 1)
        body = {"node": "checker", "max": 100, "lease_ms": LEASE_MS_MAX}
        taken: set[int] = set()
        while True:
            done = self._done()
            answer = await self._world.until_good(client, "POST", f"/v0/topics/{NAME}/claim", body)
            for job in answer["claimed"]:
                self._claimed(job, done)
                taken.add(job["$seq"])
            if not answer["claimed"]:
                break
        for seq, job in self._jobs.items():
            if seq not in taken and not job.may_be_done:
                raise Violation(f"job {seq} is lost: it was put and never acknowledged")

    async def _put(self, client: Client, rng: random.Random) -> None:
        numbers = [next(self._numbers) for _ in range(rng.choice((1, 1, 3)))]
        self._sent.update(numbers)
        jobs = [{"data": {"job": number}} for number in numbers]
        answer = await self._ask(client, f"/v0/queues/{NAME}/jobs", {"jobs": jobs})
        if answer is not None and answer.status == 200:
            for put, number in zip(answer.body["jobs"], numbers, strict=True):
                self._learn(put["seq"], number)

    async def _work_on(self, client: Client, rng: random.Random) -> None:
        lease_ms = rng.choice((300, 1000, LEASE_MS_MAX))
        body = {"node": client.name, "max": rng.choice((1, 3)), "lease_ms": lease_ms}
        done = self._done()
        answer = await self._ask(client, f"/v0/topics/{NAME}/claim", body)
        if answer is None or answer.status != 200:
            return
        for job in answer.body["claimed"]:
            self._claimed(job, done)
        if not answer.body["claimed"] or rng.random() < 0.2:
            return
        await self._world.think(rng)
        await self._settle(client, answer.body["claimed"], gives_back=rng.random() < 0.3)

    async def _settle(self, client: Client, claimed: list[Any], *, gives_back: bool) -> None:
        seqs = [job["$seq"] for job in claimed]
        for seq in seqs:
            self._jobs[seq].deadline_ms = 0
            self._jobs[seq].may_be_done |= not gives_back
        leases = [job["lease_id"] for job in claimed]
        body = {"node": client.name, "seqs": seqs, "lease_ids": leases}
        verb = "nack" if gives_back else "ack"
        answer = await self._ask(client, f"/v0/topics/{NAME}/{verb}", body)
        if answer is not None and answer.status == 200 and not gives_back:
            for seq in set(seqs) - set(answer.body["skipped"]):
                self._jobs[seq].is_done = True

    def _done(self) -> set[int]:
        """Jobs that are done before a claim is sent."""
        return {seq for seq, job in self._jobs.items() if job.is_done}

    def _claimed(self, given: Any, done: set[int]) -> None:
        seq = given["$seq"]
        job = self._learn(seq, given["data"]["job"])
        if seq in done:
            raise Violation(f"job {seq} was acknowledged, and is given out again")
        if given["deliveries"] in job.deliveries:
            raise Violation(f"job {seq} is given out twice as delivery {given['deliveries']}")
        now_ms = self._world.clock.now_us() // 1000
        if not self._world.clock_was_set and now_ms < job.deadline_ms:
            raise Violation(f"job {seq} is given out {job.deadline_ms - now_ms} ms before its time")
        job.deliveries.add(given["deliveries"])
        job.deadline_ms = given["deadline"]

    def _learn(self, seq: int, number: int) -> _Job:
        if number not in self._sent:
            raise Violation(f"job {seq} holds {number}, which nobody put")
        job = self._jobs.setdefault(seq, _Job(number))
        if job.number != number:
            raise Violation(f"job {seq} holds {number}, and held {job.number}")
        return job

    async def _ask(self, client: Client, path: str, body: Any) -> Answer | None:
        try:
            return self._world.sound(await client.ask("POST", path, body))
        except Lost:
            return None
