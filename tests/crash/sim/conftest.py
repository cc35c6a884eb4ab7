"""Every test of this folder runs twice: its crashes are power losses, then lost file systems.

A file system that fails and is mounted again loses what a power loss does, while the machine and
its boot id stay. What a test demands after the one it demands after the other. In `make test` only
the tests of the log itself run twice; `make crash` has the second run of the others.
"""

from __future__ import annotations

import pytest

from strandline.testing.sim_disk import SimDisk

QUICK = {"test_disk_full", "test_lost_tails", "test_power_loss", "test_shard_count"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marks = () if metafunc.definition.path.stem in QUICK else pytest.mark.crash
    power_loss = pytest.param("power loss", id=pytest.HIDDEN_PARAM)
    remount = pytest.param("remount", marks=marks)
    metafunc.parametrize("way_of_crashes", [power_loss, remount], indirect=True)


@pytest.fixture(autouse=True)
def way_of_crashes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "remount":
        monkeypatch.setattr(SimDisk, "crash", SimDisk.remount)
