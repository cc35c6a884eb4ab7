"""One run: clients at work, faults that strike, then everything read and judged.

python -m tests.simulation --seed 7       # one run, told as it goes
python -m tests.simulation --runs 1000    # many, until one fails
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import msgspec
import structlog

from strandline.platform.thread_pool import pools_with_executor
from strandline.testing.sim_work import SimExecutor
from tests.simulation import faults
from tests.simulation.maps import Maps
from tests.simulation.model import Violation
from tests.simulation.queues import Queues
from tests.simulation.topics import Topics
from tests.simulation.world import World

CLIENTS = {"topics": 3, "map": 2, "queue": 2}
"""How many of each kind."""
STEPS = 30
FAULTS = 6
FAULT_PAUSE_S = 0.5


class Report(msgspec.Struct, frozen=True):
    """What a run came to."""

    seed: int
    trace: str
    deaths: int
    seconds: float
    """Of simulated time."""


def simulate(seed: int, tell: Callable[[str], None] = lambda _: None) -> Report:
    """One run. Raises AssertionError with the command that repeats it when a promise is broken."""
    world = World(seed, tell)
    logging.disable(logging.CRITICAL)
    structlog.configure(processors=[partial(_take_log, world)])
    try:
        with pools_with_executor(SimExecutor):
            world.loop.run_until_complete(_run(world))
    except Exception as error:
        kind = "" if isinstance(error, Violation) else f"{type(error).__name__}: "
        again = f"python -m tests.simulation --seed {seed}"
        raise AssertionError(f"{kind}{error}\nto see it again: {again}") from error
    finally:
        structlog.reset_defaults()
        logging.disable(logging.NOTSET)
        world.loop.close()
    return Report(seed, world.trace, world.deaths, world.clock.monotonic())


async def _run(world: World) -> None:
    supervisor = asyncio.ensure_future(world.supervise())
    try:
        await _until(supervisor, _work(world))
        await _until(supervisor, world.end())
        await supervisor
    finally:
        supervisor.cancel()
        with contextlib.suppress(asyncio.CancelledError, Violation):
            await supervisor
        await world.clear_up()
    world.check_sound()


async def _until(supervisor: asyncio.Future[None], work: object) -> None:
    """Do the work, unless the supervisor ends with an error first."""
    task = asyncio.ensure_future(work)
    await asyncio.wait({task, supervisor}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done() and supervisor.exception() is not None:
        task.cancel()
        await asyncio.wait({task})
        await supervisor
    await task


async def _work(world: World) -> None:
    seed = world.seed
    topics = Topics(world)
    parts = (topics, Maps(world), Queues(world))
    checker = world.client("checker")
    for part in parts:
        await part.create(checker)
    clients = [
        part.work(world.client(f"{kind}-{number}"), random.Random(f"{kind} {number} {seed}"), STEPS)
        for part, (kind, count) in zip(parts, CLIENTS.items(), strict=True)
        for number in range(count)
    ]
    follower = topics.follow(world.client("follower"), random.Random(f"follower {seed}"))
    striking = asyncio.ensure_future(_strike(world, random.Random(f"faults {seed}")))
    following = asyncio.ensure_future(follower)
    try:
        await _all(clients, following)
        striking.cancel()
        world.heal()
        world.is_calm = True
        await following
    finally:
        striking.cancel()
        following.cancel()
    for ending in ("nothing", "a clean restart", "a kill"):
        world.note(f"everything is judged after {ending}")
        if ending == "a clean restart":
            world.restart_wanted = True
        elif ending == "a kill":
            world.kill_now()
        await world.pause(2.0)
        for part in parts:
            await part.check(checker)


async def _all(work: list[object], *beside: asyncio.Future[None]) -> None:
    """Do all of the work at once; the first error ends it, also one of what goes on beside it."""
    tasks = {asyncio.ensure_future(each) for each in work}
    left = set(tasks)
    try:
        while left:
            done, _ = await asyncio.wait(left | set(beside), return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                await each
            left -= done
    finally:
        for task in tasks:
            task.cancel()


async def _strike(world: World, rng: random.Random) -> None:
    for _ in range(FAULTS):
        await asyncio.sleep(rng.expovariate(1 / FAULT_PAUSE_S))
        name = faults.draw(rng)
        world.note(f"fault: {name}")
        faults.KINDS[name].arm(world, rng)


def _take_log(world: World, logger: object, method: str, event: dict[str, Any]) -> NoReturn:
    """Stands where the server writes its log."""
    del logger
    if method == "error":
        error = event.pop("exc_info", None)
        told = "".join(traceback.format_exception(error)) if error is not None else ""
        world.note(f"log: {event} {told}")
    raise structlog.DropEvent
