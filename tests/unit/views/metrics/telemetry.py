"""A metrics view in a simulated store, with a clock that the test sets."""

from __future__ import annotations

from strandline.config.settings import ViewSettings
from tests.unit.store.world import World
from tests.unit.views.metrics.metrics_world import NAME, SECOND, host_of, open_metrics


class Telemetry:
    """A view, and a clock that begins at a full hour."""

    def __init__(self) -> None:
        self.world = World(views=ViewSettings(memory_bytes=32 << 20))
        self.metrics = open_metrics(self.world.store)
        self.base = (self.world.clock.now_us() // 3_600_000_000 + 1) * 3600
        self.to(0)

    def to(self, second: float) -> None:
        """Let it be so many seconds after the hour."""
        now = self.world.clock.now_us() / 1e6
        self.world.clock.advance(self.base + second - now)

    def at(self, second: float) -> int:
        return int((self.base + second) * SECOND)

    def write(self, *seconds: float, host: str = "a", value: float = 1.0) -> None:
        for second in seconds:
            self.metrics.write("cpu", {"host": host}, {"load": value}, at=self.at(second))

    def seconds(self, measurement: str = "cpu", field: str = "load") -> list[float]:
        answer = self.metrics.read(measurement, field)
        return [at / SECOND - self.base for at in answer.at.tolist()]

    def made(self, field: str = "load_count") -> dict[float, float]:
        answer = self.metrics.read("cpu_1m", field)
        return {row.at / SECOND - self.base: row.value for row in answer}

    def reopen(self, how: str = "reopen") -> None:
        getattr(self.world, how)()
        self.metrics = open_metrics(self.world.store)

    @property
    def fold(self):
        return host_of(self.world.store).fold

    def records(self) -> int:
        return self.world.store.topic(NAME).statistics().count
