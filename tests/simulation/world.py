"""The world of one simulation: a clock, a loop, a disk, an object store, a server and what happens.

Everything follows from the seed: what clients do, how long each thing takes, and what goes wrong
when. A run has three parts: clients work while faults strike; everything is healed and the clients
end; then all is read and judged, after a clean restart once more, and after a kill.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable
from typing import Any

from strandline.config.settings import (
    LakeSettings,
    SegmentSettings,
    Settings,
    SpaceSettings,
    ViewSettings,
    WalSettings,
)
from strandline.errors import Corrupt, StrandlineError
from strandline.server.settings import ServerSettings
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_loop import SimLoop, SteppingClock
from strandline.testing.sim_objects import SimObjects
from tests.simulation.client import Answer, Client, Lost
from tests.simulation.model import Losses, Violation
from tests.simulation.server import SimServer

KIB = 1024
RED_S_MAX = 3.0
TRIES_MAX = 60


def settings_of(rng: random.Random) -> ServerSettings:
    """Small files and short intervals, so that little work is enough for every job."""
    store = Settings(
        wal=WalSettings(
            shards=rng.choice((1, 1, 2, 3)),
            file_size_first=rng.choice((8, 32)) * KIB,
            file_size_max=64 * KIB,
        ),
        segment=SegmentSettings(
            checkpoint_interval_s=rng.choice((0.5, 3.0)),
            checkpoint_bytes=16 * KIB,
            seal_records=rng.choice((20, 60)),
            seal_bytes=8 * KIB,
            seal_idle_s=rng.choice((1.0, 3600.0)),
            own_bytes_min=1,
            shared_files_max=3,
            block_records=16,
        ),
        lake=LakeSettings(
            hot_segments=1,
            zone_rows=32,
            interval_s=rng.choice((1.0, 5.0)),
            grace_s=2,
            manifest_retention_s=2,
        ),
        views=ViewSettings(
            memory_bytes=64 << 20,
            checkpoint_interval_s=rng.choice((0.5, 5.0)),
            checkpoint_records=rng.choice((20, 1000)),
        ),
        space=SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0),
    )
    return ServerSettings(data="/data", bind="127.0.0.1:4000", store=store)


class World:
    """One simulated world. Owned by the loop's thread."""

    def __init__(self, seed: int, tell: Callable[[str], None] = lambda _: None) -> None:
        self.seed = seed
        self.clock = SteppingClock()
        self.loop = SimLoop(self.clock)
        self.disk = SimDisk(seed=seed)
        self.objects = SimObjects(clock=self.clock)
        self.losses = Losses()
        self.clients: list[Client] = []
        self.is_calm = False
        """Whether all clients have done their work."""
        self.clock_was_set = False
        self.restart_wanted = False
        self.slow_calls = self.slow_object_calls = 0
        self.slow_s = self.slow_object_s = 0.0
        self.server: SimServer | None = None
        self.deaths = 0
        self._tell = tell
        self._chance = random.Random(f"world {seed}")
        self._delays = random.Random(f"delays {seed}")
        self._settings = settings_of(random.Random(f"settings {seed}"))
        self._death: tuple[int, bool] | None = None
        self._after: SimDisk | None = None
        self._trace = hashlib.blake2b(digest_size=8)
        self._stopping = False
        self._connections = 0
        self._unsound: list[str] = []
        self._watch_disk()

    # -- time

    def delay_s(self) -> float:
        """How long a small thing takes."""
        return _delay_s(self._delays)

    def _delays_of_connection(self) -> Callable[[], float]:
        self._connections += 1
        rng = random.Random(f"connection {self._connections} {self.seed}")
        return lambda: _delay_s(rng)

    async def think(self, rng: random.Random) -> None:
        """What passes between two requests of a client."""
        await asyncio.sleep(rng.expovariate(25.0))

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        self.loop.call_later(seconds, callback)

    def note(self, what: str) -> None:
        """Say what happens, with the time."""
        self._tell(f"{self.clock.monotonic():10.6f}  {what}")

    @property
    def trace(self) -> str:
        """A digest of all disk calls and their times: equal runs have equal ones."""
        return self._trace.hexdigest()

    # -- clients

    def client(self, name: str) -> Client:
        made = Client(name, self._connect)
        self.clients.append(made)
        return made

    def _connect(self, protocol: asyncio.Protocol) -> Any:
        if self.server is None:
            raise ConnectionRefusedError
        return self.server.connect(protocol)

    def sound(self, answer: Answer) -> Answer:
        """The answer, when it is none of a bug."""
        if (
            answer.status == 500
            and answer.code == "internal"
            and self.server is not None
            and not self.server.has_failed
        ):
            self._unsound.append(str(answer.body))
        return answer

    async def until_good(self, client: Client, method: str, path: str, body: Any = None) -> Any:
        """The body of a 2xx answer to a request that may be repeated."""
        last: object = None
        for _ in range(TRIES_MAX):
            try:
                answer = self.sound(await client.ask(method, path, body))
            except Lost as error:
                last = error
            else:
                if answer.status < 300:
                    return answer.body
                last = answer
            await self.pause(0.5)
        raise Violation(f"{method} {path} never succeeds: {last}")

    # -- faults

    def die_after(self, calls: int, *, power_loss: bool) -> None:
        """Let the process die at that many disk calls from now."""
        if self._death is None:
            self._death = (self.disk.calls_total + calls, power_loss)

    def note_sync_failure(self) -> None:
        """What a failed sync was to cover may be lost."""
        self.losses.power_lost()

    def fill_disk(self, room: int, seconds: float) -> None:
        disk = self.disk
        disk.capacity = disk._volume.used() + room
        self.later(seconds, self._empty_disk)

    def _empty_disk(self) -> None:
        self.disk.capacity = None

    def heal(self) -> None:
        """Nothing goes wrong from here on."""
        self._death = None
        self.restart_wanted = False
        self.slow_calls = self.slow_object_calls = 0
        self._empty_disk()
        self.disk._calls._faults.clear()
        self.objects.heal()

    def set_clock(self, seconds: float) -> None:
        """The wall clock is wrong from here on."""
        self.clock_was_set = True
        self.clock.jump_wall(seconds)

    def _watch_disk(self) -> None:
        self.disk.on_call = self._on_disk_call

    def _on_disk_call(self, operation: str, path: str) -> None:
        disk = self.disk
        now = self.clock.monotonic()
        self._trace.update(f"{disk.calls_total} {operation} {path} {now:.9f}\n".encode())
        if operation == "sync" and self.slow_calls:
            self.slow_calls -= 1
            self.clock.advance(self.slow_s)
        if self._death is not None and disk.calls_total >= self._death[0]:
            self._die(power_loss=self._death[1], where=f"{operation} {path}")

    def _on_object_call(self, operation: str, key: str) -> None:
        self._trace.update(f"{operation} {key}\n".encode())
        if self.slow_object_calls:
            self.slow_object_calls -= 1
            self.clock.advance(self.slow_object_s)

    def _die(self, *, power_loss: bool, where: str) -> None:
        server = self.server
        self._death = None
        if server is None or server.has_failed:
            return
        self.deaths += 1
        chance = self._chance
        self.note(f"{'power loss' if power_loss else 'kill'} at {where}")
        if power_loss:
            self.losses.power_lost()
            sector, reorder = chance.choice((512, 4096)), chance.random() < 0.5
            self._after = self.disk.crash(chance, sector=sector, reorder_names=reorder)
        else:
            self.losses.killed()
            self._after = self.disk.kill()
        self._after.capacity = self.disk.capacity
        server.fail(keep=chance.randrange)

    def kill_now(self) -> None:
        self._die(power_loss=False, where="any moment")

    # -- the server's lives

    async def supervise(self) -> None:
        """Start the server, again and again, until ``end``."""
        failures = 0
        while not self._stopping:
            server = await self._begin()
            if server.is_open:
                failures = 0
                await self._watch(server)
            elif not server.has_failed:
                failures += 1
                if failures > TRIES_MAX:
                    raise Violation("the server does not start any more")
            await self._clear(server)
            await self.pause(self._chance.uniform(0.01, 1.0))

    async def end(self) -> None:
        """Stop the server cleanly, for good."""
        self._stopping = self.restart_wanted = True
        while self.server is not None:
            await self.pause(0.05)

    async def _begin(self) -> SimServer:
        server = SimServer(
            self.loop,
            self.disk,
            self.objects,
            self._settings,
            self.delay_s,
            self._delays_of_connection,
        )
        self.server = server
        self.objects.on_call = self._on_object_call
        self.note("the server starts")
        try:
            await server.start()
        except (OSError, StrandlineError) as error:
            if isinstance(error, Corrupt) and not server.has_failed:
                raise Violation(f"the store does not open: {error}") from error
            self.note(f"the server did not start: {error}")
        return server

    async def _watch(self, server: SimServer) -> None:
        """Return when the server has died, or was stopped."""
        red_since: float | None = None
        while not server.has_failed:
            if self.restart_wanted:
                self.restart_wanted = False
                self.note("the server stops")
                await server.stop()
                self.losses.restarted()
                return
            await self.pause(0.02)
            if server.has_failed:
                return
            assert server.store is not None
            is_red = server.store.health().status == "red"
            red_since = (red_since or self.loop.time()) if is_red else None
            if red_since is not None and self.loop.time() - red_since > RED_S_MAX:
                self.note(f"health is red: {server.store.health().reasons}")
                self.kill_now()

    async def _clear(self, server: SimServer) -> None:
        if not server.has_failed and not server.has_ended:  # it did not start: its process ends
            self.kill_now()
        await server.bury()
        if self._after is not None:
            self.disk, self._after = self._after, None
            self._watch_disk()
        self.server = None

    async def clear_up(self) -> None:
        """Leave nothing of a server behind, when the run has failed."""
        if self.server is not None:
            self.kill_now()
            await self.server.bury()

    def check_sound(self) -> None:
        """Raise when something met a bug."""
        if self._unsound:
            raise Violation(f"an answer tells of a bug: {self._unsound[0]}")
        if self.loop.errors:
            raise Violation(f"a callback met a bug: {self.loop.errors[0]}")


def _delay_s(rng: random.Random) -> float:
    drawn = rng.random()
    return drawn * 0.0005 if drawn < 0.9 else drawn * 0.02
