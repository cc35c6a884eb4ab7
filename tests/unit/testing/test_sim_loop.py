"""Promise: simulated time passes only when nothing is ready, the same way each time; and a process
that has ended does nothing any more."""

from __future__ import annotations

import asyncio
import itertools
import threading

import pytest

from strandline.testing.sim_loop import SimLoop, SimProcess, SteppingClock
from strandline.testing.sim_network import SimNetwork


@pytest.fixture
def loop():
    made = SimLoop(SteppingClock())
    yield made
    made.close()


class Talker(asyncio.Protocol):
    """Writes down what arrives."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def data_received(self, data: bytes) -> None:
        self.heard.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.heard.append(type(exc))


def _delays():
    pauses = itertools.cycle([0.3, 0.1, 0.2])
    return lambda: next(pauses)


def test_timers_run_in_their_order_and_take_no_real_time(loop):
    seen = []

    async def wait(seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((seconds, round(loop.time(), 3)))

    async def main() -> None:
        await asyncio.gather(wait(3600.0), wait(1.0), wait(60.0))

    loop.run_until_complete(main())

    assert seen == [(1.0, 1.0), (60.0, 60.0), (3600.0, 3600.0)]


def test_a_loop_in_which_nothing_can_happen_says_so(loop):
    async def wait() -> None:
        await loop.create_future()

    with pytest.raises(RuntimeError, match="no timer is scheduled"):
        loop.run_until_complete(wait())


def test_to_wait_on_the_clock_of_one_thread_lets_time_pass():
    clock = SteppingClock()

    was_set = clock.wait(threading.Event(), 5.0)

    assert (was_set, clock.monotonic()) == (False, 5.0)
    with pytest.raises(RuntimeError):
        clock.wait(threading.Event(), None)


def test_nothing_of_a_life_runs_after_its_end(loop):
    seen = []

    async def tick() -> None:
        try:
            while True:
                await asyncio.sleep(1.0)
                seen.append(loop.time())
        finally:
            seen.append("ended in order")

    async def main() -> None:
        life = SimProcess(loop)
        life.run(loop.call_later, 5.0, seen.append, "a timer")
        task = life.task(tick())
        await asyncio.sleep(2.5)
        await life.end()
        life.run(loop.call_soon, seen.append, "a callback")
        await asyncio.sleep(10.0)
        assert task.done()

    loop.run_until_complete(main())

    assert seen == [1.0, 2.0, "ended in order"]


def test_what_is_written_arrives_in_order(loop):
    client, server = Talker(), Talker()

    async def main() -> None:
        near, _ = SimNetwork(loop, _delays).connect(client, server, SimProcess(loop))
        near.write(b"one")
        near.write(b"two")
        near.close()
        await asyncio.sleep(5.0)

    loop.run_until_complete(main())

    assert server.heard == [b"one", b"two", type(None)]


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_cut_connection_delivers_a_first_part_and_then_fails(loop, kept):
    client, server = Talker(), Talker()

    async def main() -> None:
        _, far = SimNetwork(loop, _delays).connect(client, server, SimProcess(loop))
        far.write(b"one")
        far.write(b"two")
        far.cut(keep=lambda count: kept)
        far.write(b"three")
        await asyncio.sleep(5.0)

    loop.run_until_complete(main())

    assert client.heard == [*[b"one", b"two"][:kept], ConnectionResetError]
    assert server.heard == []


def test_a_reader_that_pauses_gets_everything_when_it_goes_on(loop):
    client, server = Talker(), Talker()

    async def main() -> None:
        near, far = SimNetwork(loop, _delays).connect(client, server, SimProcess(loop))
        far.pause_reading()
        near.write(b"one")
        near.close()
        await asyncio.sleep(5.0)
        assert server.heard == []
        far.resume_reading()

    loop.run_until_complete(main())

    assert server.heard == [b"one", type(None)]
