"""Promise: while every append is refused for want of disk, the server says so wherever its state is
looked up, and no longer when there is room again."""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline.errors import DiskFull
from strandline.testing.sim_disk import SimDisk
from tests.server.running import Running, running
from tests.server.topics_face import Face

RECORDS = {"records": [{"data": "x" * 100_000}]}


def _below_the_mark(server: Running, disk: SimDisk) -> Callable[[], None]:
    disk.capacity = 1 << 20
    server.store._space.run_once()

    def free() -> None:
        disk.capacity = None
        server.store._space.run_once()

    return free


def _over_a_quota(server: Running, disk: SimDisk) -> Callable[[], None]:
    """The disk has room, but not for this process."""

    def refuse(operation: str, _: str) -> None:
        if operation in ("reserve", "prepare"):
            raise OSError(errno.EDQUOT, "over quota")

    disk.on_call = refuse
    topic = server.store.topic("t")
    with contextlib.suppress(DiskFull):
        while True:
            topic.append(b"x" * 100_000)
    server.store._space.run_once()

    def free() -> None:
        disk.on_call = None
        topic.append(b"x" * 100_000)
        server.store._space.run_once()

    return free


@pytest.mark.parametrize("fill", [_below_the_mark, _over_a_quota])
def test_a_full_disk_is_reported_by_health_ready_store_and_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fill
):
    disk = SimDisk()
    with running(tmp_path, disk=disk) as server, Face(server) as face:
        server.store.topic("t")
        before = _reported(face)

        with caplog.at_level(logging.WARNING):
            free = fill(server, disk)
            full = _reported(face)
            append = face.refused("POST", "/v0/topics/t", RECORDS)
            free()
        after = _reported(face)

    assert before == after == ("ok", 200, False)
    assert full == ("degraded", 503, True)
    assert append[:2] == (507, "disk_full")
    lines = [record.getMessage() for record in caplog.records if "append" in record.getMessage()]
    assert [line.partition(":")[0] for line in lines] == [
        "appends are rejected",
        "appends are accepted again",
    ]


def _reported(face: Face) -> tuple[str, int, bool]:
    """What health says, the status of ready, and whether the store is red."""
    health = face.good("GET", "/v0/health")
    assert health.get("reason") == ("disk_full" if health["status"] == "degraded" else None)
    ready = face.ask("GET", "/v0/ready")
    if ready.status_code == 503:
        assert ready.json()["error"]["detail"] == {"reason": "disk_full"}
    return health["status"], ready.status_code, face.good("GET", "/v0/store")["status"] == "red"
