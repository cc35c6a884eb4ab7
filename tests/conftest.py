"""What every test may ask for: a Hypothesis profile that suits the machine, a fresh directory;
and which tests stay together when several processes share them."""

from __future__ import annotations

import os
import zlib
from collections import Counter
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

# Python workers of Spark, which may be started from anywhere, find what tests hand them.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
)

# Java machines of tests live for seconds: code is compiled quickly instead of well.
for _variable in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(_variable, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

if "STRANDLINE_MUTANT" in os.environ:
    plant(os.environ["STRANDLINE_MUTANT"])  # this run must fail: tests/mutants


TESTS = Path(__file__).parent
ONE_PROCESS = frozenset({"cluster", "docs", "integration"})
"""Folders whose tests share a Spark session, a cluster or servers: each is run by one process."""
SPARK_PROCESSES = 2
"""Processes that run the tests of ``spark``: each starts a Java process, which is slow at first."""
WITH_PY4J = frozenset({"cluster", "docs", "integration", "spark"})
PY4J_SOCKETS = "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
"""py4j leaves its connections of ended threads to the garbage collector, in any later test."""
SLOW_S = 60
"""Seconds of a run from which on its slowest groups are printed."""
FIRST = ("cluster", "spark", "integration", "bench", "docs", "crash", "cli")
"""Folders with the longest tests start first, so that no process works alone at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several processes run the tests (``--dist loadgroup``), a file stays together."""
    items.sort(key=lambda item: _rank(_folder(item)))
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
        if _folder(item) in WITH_PY4J:
            item.add_marker(pytest.mark.filterwarnings(PY4J_SOCKETS))


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).parts[0]


def _rank(folder: str) -> int:
    return FIRST.index(folder) if folder in FIRST else len(FIRST)


def _group(item: pytest.Item) -> str:
    folder = _folder(item)
    if folder == "spark":
        return f"spark-{zlib.crc32(item.path.name.encode()) % SPARK_PROCESSES}"
    return folder if folder in ONE_PROCESS else str(item.path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the groups that took the most time in all processes together."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                file = report.nodeid.partition("::")[0]
                seconds[file.rpartition("/")[0]] += report.duration
    if seconds.total() >= SLOW_S:
        terminalreporter.section("slowest groups")
        for group, taken_s in seconds.most_common(10):
            terminalreporter.write_line(f"{taken_s:8.1f} s  {group}")


@pytest.fixture
def data_dir(tmp_path: Path) -> str:
    """Where a store may be opened; it does not exist yet."""
    return str(tmp_path / "data")


@pytest.fixture(scope="session")
def java() -> None:
    """For tests that start Spark: without Java they are skipped, and fail under ``CI=true``."""
    # Here, since a mutant must be planted before the modules that import its function.
    from strandline.errors import NotInstalled
    from strandline.spark.sessions import check_java

    try:
        check_java()
    except NotInstalled as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
