"""Promise: without threads jobs run when they are due or kicked, and pools run their work."""

from __future__ import annotations

import asyncio
import threading

import pytest

from strandline.platform.background_jobs import BackgroundJob
from strandline.platform.thread_pool import ThreadPool, pools_with_executor
from strandline.testing.sim_loop import SimLoop, SimProcess, SteppingClock
from strandline.testing.sim_work import SimExecutor, SimJobs


@pytest.fixture
def loop():
    made = SimLoop(SteppingClock())
    yield made
    made.close()


def _job(loop: SimLoop, run_once, deaths: list[str]) -> BackgroundJob:
    return BackgroundJob("work", run_once, loop.clock, interval_s=1.0, on_death=deaths.append)


def test_a_job_runs_at_its_interval_and_at_once_when_it_is_kicked(loop):
    seen: list[float] = []
    job = _job(loop, lambda: seen.append(round(loop.time(), 3)), [])

    async def main() -> None:
        jobs = SimJobs(loop, SimProcess(loop), [job], lambda: 0.0)
        await asyncio.sleep(2.5)
        job.kick.set()
        await asyncio.sleep(1.4)
        jobs.stop()
        await asyncio.sleep(10.0)

    loop.run_until_complete(main())

    assert seen == [1.0, 2.0, 2.5, 3.5]


def test_a_job_that_meets_a_bug_is_dead_and_says_so(loop):
    deaths: list[str] = []

    def fail() -> None:
        raise ZeroDivisionError

    job = _job(loop, fail, deaths)

    async def main() -> SimJobs:
        jobs = SimJobs(loop, SimProcess(loop), [job], lambda: 0.0)
        await asyncio.sleep(5.0)
        return jobs

    jobs = loop.run_until_complete(main())

    assert jobs.deaths == ["work"]
    assert len(deaths) == 1


def test_pools_of_the_library_can_be_replaced_for_a_while():
    with pools_with_executor(SimExecutor):
        pool = ThreadPool(2, "any")
        done = pool.submit(lambda: 7)
        failed = pool.submit(lambda: 1 // 0)
        pool.shutdown()

    assert done.result(0) == 7
    assert isinstance(failed.exception(0), ZeroDivisionError)
    with ThreadPool(1, "any") as pool:
        assert pool.submit(threading.get_ident).result(10) != threading.get_ident()
