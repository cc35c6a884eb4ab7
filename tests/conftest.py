"""What every test may ask for: a Hypothesis profile that suits the machine, a fresh directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.mutants.catalogue import plant

settings.register_profile("default", derandomize=False, deadline=None, print_blob=True)
settings.register_profile(
    "ci",
    settings.get_profile("default"),
    derandomize=True,  # the same commit gives the same answer
    suppress_health_check=[HealthCheck.too_slow],  # speaks of the machine, not of the code
)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "default")

if "STRANDLINE_MUTANT" in os.environ:
    plant(os.environ["STRANDLINE_MUTANT"])  # this run must fail: tests/mutants


@pytest.fixture
def data_dir(tmp_path: Path) -> str:
    """Where a store may be opened; it does not exist yet."""
    return str(tmp_path / "data")
