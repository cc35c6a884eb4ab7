"""Promise: every group of benchmarks runs to its end and reports figures, at any scale.

Figures at this scale mean nothing and are not judged. Each group runs as ``make bench`` runs it, in
a process of its own; those that start Spark share one process, and so one Java machine.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import GROUPS

ROOT = Path(__file__).parents[2]
SCALE = "0.001"
WITH_SPARK = ("spark", "pipelines", "materialize", "rebuild")
LIMITS = 6
"""Figures of the machine, which every run begins with."""


@pytest.mark.parametrize("group", [name for name in GROUPS if name not in WITH_SPARK])
def test_a_group_reports_its_figures(group: str, tmp_path: Path) -> None:
    figures = _figures(group, tmp_path)

    assert len(figures) > LIMITS
    assert all(math.isfinite(figure["value"]) for figure in figures)


@pytest.mark.spark
@pytest.mark.usefixtures("java")
def test_groups_that_start_spark_report_their_figures(tmp_path: Path) -> None:
    figures = _figures(",".join(WITH_SPARK), tmp_path)

    names = " ".join(figure["name"] for figure in figures)
    for word in ("table: full scan", "compact", "materialize", "rebuild"):
        assert word in names


def test_an_unknown_group_is_rejected_with_the_list_of_groups(tmp_path: Path) -> None:
    done = _run("appendix", tmp_path)

    assert done.returncode == 2
    assert "appendix is not one of appending, " in done.stderr


def _figures(groups: str, tmp_path: Path) -> list[dict]:
    done = _run(groups, tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads((tmp_path / "figures.json").read_bytes())["figures"]


def _run(groups: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", "--scale", SCALE, "--only", groups]
    command += ["--json", str(tmp_path / "figures.json"), "--folder", str(tmp_path / "work")]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
