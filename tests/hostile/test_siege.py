"""Promise: clients without a token, or with a small one, do not end a server with 1.5 GB of memory,
and every append, read and query of another client succeeds meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.hostile.siege import BYTES_MAX, besiege

SECONDS = 5.0
SECONDS_LONG = 3600.0


def test_attacks_do_not_end_a_server_and_another_client_is_served(tmp_path: Path):
    withstand(tmp_path, SECONDS)


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("STRANDLINE_CRASH") != "long", reason="STRANDLINE_CRASH=long")
def test_an_hour_of_attacks(tmp_path: Path):
    withstand(tmp_path, SECONDS_LONG)


def withstand(path: Path, seconds: float) -> None:
    report = besiege(path, seconds)

    print(report)
    assert report.failures == []
    assert report.is_alive
    assert report.bytes_most < BYTES_MAX
    assert all(report.latencies_ms.values())
