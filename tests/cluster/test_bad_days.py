"""Promise: what goes wrong on a worker's machine is told in a line, with the remedy.

A real worker on which things are amiss: folders that are not mounted there, folders that it may not
read, another Python at the same path, a Python without Strandline, none at all.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.standalone import running
from tests.cluster.test_cluster import fill

pytestmark = [pytest.mark.spark, pytest.mark.needs_root, pytest.mark.timeout(600)]
LINES_MAX = 3
NOBODY = 65534
ON_WORKER = "STRANDLINE_ON_WORKER"
OTHER_PYTHON = """
import collections, sys
kind = collections.namedtuple("version", "major minor micro releaselevel serial")
sys.version_info = kind(3, sys.version_info.minor + 1, 0, "final", 0)
"""
WITHOUT = (
    "unshare",
    "--mount",
    "sh",
    "-c",
    'mount -t tmpfs none "$0" && exec setpriv --bounding-set -dac_override,-dac_read_search "$@"',
)
NO_STRANDLINE = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name == "strandline":
            raise ModuleNotFoundError("No module named 'strandline'")
sys.meta_path.insert(0, Without())
"""


def make_python(folder: Path, customized: str) -> str:
    """A Python that is this one on the driver's machine, and on the worker's a changed one."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(customized)
    python = folder / "python"
    path = f"PYTHONPATH={folder}:$PYTHONPATH"
    python.write_text(
        f'#!/bin/sh\n[ -z "${ON_WORKER}" ] || export {path}\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    return str(python)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[str, str, str]]]:
    """What came of each day: the error's name, its message, and all that Spark said."""
    if os.geteuid() or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("only root can hide a folder from a process")
    folder = tmp_path_factory.mktemp("bad-days")
    hidden, denied = folder / "hidden", folder / "denied"
    for place in (hidden, denied):
        place.mkdir(mode=0o700)
        fill(str(place / "cold"), 1000)
        fill(str(place / "hot"), 0, large=40)
    os.chown(denied, NOBODY, NOBODY)
    ours = sys.executable
    days = {
        "hidden lake": ("source", f"{hidden}/cold", ours),
        "hidden table": ("table", f"{hidden}/cold", ours),
        "hidden store": ("source", f"{hidden}/hot", ours),
        "denied lake": ("source", f"{denied}/cold", ours),
        "denied table": ("table", f"{denied}/cold", ours),
        "denied store": ("source", f"{denied}/hot", ours),
        "other python": ("source", f"{hidden}/hot", make_python(folder / "other", OTHER_PYTHON)),
        "no package": ("source", f"{hidden}/hot", make_python(folder / "without", NO_STRANDLINE)),
        "no python": ("source", f"{hidden}/hot", make_python(hidden / "there", "")),
    }
    with running(folder / "cluster", workers=0) as cluster:
        cluster.start_worker("worker", [*WITHOUT, str(hidden)], **{ON_WORKER: "1"})
        cluster.wait_alive(1)
        yield cluster.run("meet", days=days)


@pytest.mark.parametrize(
    ("day", "kind", "message"),
    [
        ("hidden lake", "Unavailable", r"cannot read the lake at .*: every executor needs"),
        (
            "hidden table",
            "Unavailable",
            r"an executor cannot read .*\.parquet, which exists here: ",
        ),
        ("hidden store", "Unavailable", r"cannot read the store at .*need that folder on every"),
        (
            "denied lake",
            "ObjectStoreDenied",
            r"on \S+ .*\.parquet is not accessible \(.*\): check its",
        ),
        ("denied table", "Unavailable", r"an executor cannot read .*every executor needs access"),
        ("denied store", "Unavailable", r"Permission denied.*with the right to read it"),
        ("other python", "NotInstalled", r"workers run Python 3\.\d+ and the driver 3\.\d+: set"),
        ("no package", "NotInstalled", r"Python has no strandline: pip install 'strandline\[spark"),
        ("no python", "Unavailable", r"could not start a Python worker: set PYSPARK_PYTHON to"),
    ],
)
def test_a_bad_day_of_a_worker_is_told_with_the_remedy(told, day, kind, message):
    name, text, _ = told[day]

    assert name == kind
    assert re.search(message, text)
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("day", ["hidden lake", "hidden store", "denied lake", "denied store"])
def test_our_own_errors_are_short_also_as_spark_tells_them(told, day):
    _, _, said = told[day]

    assert len(said.splitlines()) <= LINES_MAX
