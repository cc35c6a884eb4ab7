"""Promise: a server over a disk whose syncs take a second says so: in health, metrics and store."""

from __future__ import annotations

from pathlib import Path

from strandline.platform.clock import SystemClock
from strandline.testing.sim_disk import SimDisk
from tests.server.running import running
from tests.server.topics_face import Face


class SlowDisk(SystemClock):
    """A disk and the clock by which its syncs take a second, once it says so."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.disk.on_call = self._on_call
        self.is_slow = False
        self._later_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._later_s

    def _on_call(self, operation: str, _: str) -> None:
        if self.is_slow and operation == "sync":
            self._later_s += 1.0


def test_syncs_of_a_second_degrade_health_and_refuse_nothing(tmp_path: Path):
    slow = SlowDisk()
    with running(tmp_path, disk=slow.disk, clock=slow) as server, Face(server) as face:
        topic = server.store.topic("safe", durability="fsync")
        before = face.good("GET", "/v0/health")
        slow.is_slow = True
        topic.append(b"x")
        slow.is_slow = False

        alive = face.good("GET", "/v0/health")
        store = face.good("GET", "/v0/store")
        ready = face.good("GET", "/v0/ready")
        numbers = face.good("GET", "/v0/metrics", headers={"accept": "application/json"})

    assert (before["status"], "reason" in before) == ("ok", False)
    assert (alive["status"], alive["reason"]) == ("degraded", "slow_disk")
    assert alive["slow_syncs"] >= 1
    assert alive["slowest_sync_ms"] >= 1000
    assert store["status"] == "yellow"
    assert any("the disk is slow" in reason for reason in store["reasons"])
    assert ready["status"] == "ready"
    assert numbers["strandline_wal_slow"] == [{"shard": "0", "value": 1}]
    assert numbers["strandline_wal_slow_fsyncs_total"][0]["value"] >= 1
