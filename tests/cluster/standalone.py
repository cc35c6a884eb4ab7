"""A standalone Spark of the pip package: one master and some workers, each with its own folder.

They are real processes on loopback, on ports that the kernel chooses. A worker has an address of
its own, since Spark runs no second copy of a task on the machine of the first, one core, one
gigabyte and one executor for each application. Drivers are processes, too (``jobs.py``): there is
one JVM for each Python process, and only a process can be killed.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

import strandline
from tests.cluster.processes import POLL_S, WAIT_S_MAX, Process

ROOT = Path(__file__).resolve().parents[2]
LOOPBACK = "127.0.0.1"
# None lives long enough for the second compiler to pay; verifying classes is a fifth of a start.
_SHORT_LIVED = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
_DAEMON = {
    "SPARK_DAEMON_MEMORY": "192m",
    "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
}


class Driver:
    """A job under way in its own process."""

    def __init__(self, process: Process, result: Path) -> None:
        self.process = process
        self._result = result

    def result(self, timeout_s: float = WAIT_S_MAX) -> Any:
        """What the job returned, when it has."""
        status = self.process.wait(timeout_s)
        assert status == 0, f"the driver ended with {status}:\n{self.process.said()}"
        return pickle.loads(self._result.read_bytes())


class Cluster:
    """A master, its workers, and the drivers that were started against it. Owned by one thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self._home = _make_home(folder / "spark")
        self._workers: dict[str, Process] = {}
        self._addresses = (f"127.0.0.{number}" for number in range(2, 255))
        self._drivers: list[Driver] = []
        self._master = self._daemon("master", LOOPBACK, "master.Master", "--port", "0")
        try:
            self.url, self._page = self._told_by_master()
        except BaseException:
            self.close()
            raise

    def start_worker(self, name: str, prefix: Sequence[str] = (), **environment: str) -> None:
        """Start one more worker; ``wait_alive`` tells when it is there."""
        work = str(self.folder / name)
        size = ("--cores", "1", "--memory", "1g", "--work-dir", work)
        address, kind = next(self._addresses), "worker.Worker"
        self._workers[name] = self._daemon(
            name, address, kind, *size, self.url, prefix=prefix, environment=environment
        )

    def kill_worker(self, name: str) -> None:
        """Its machine is gone, with its executors."""
        self._workers.pop(name).kill()

    def wait_alive(self, count: int) -> None:
        """Return when the master knows exactly so many workers."""
        until(lambda: self._alive() == count, f"{count} workers", self._master)

    def start(self, job: str, environment: dict[str, str] | None = None, **options: Any) -> Driver:
        """Start a driver with one of the functions of ``jobs.py``."""
        name = f"driver-{len(self._drivers)}"
        folder = self.folder / name
        folder.mkdir()
        result = folder / "result"
        call = json.dumps({"master": self.url, **options})
        command = [sys.executable, "-m", "tests.cluster.jobs", job, call, str(result)]
        made = self._environment(folder) | (environment or {})
        driver = Driver(Process(command, folder / "log", made), result)
        self._drivers.append(driver)
        return driver

    def run(self, job: str, environment: dict[str, str] | None = None, **options: Any) -> Any:
        """Run a driver to its end."""
        return self.start(job, environment, **options).result()

    def close(self) -> None:
        for driver in self._drivers:
            driver.process.kill()
        for worker in self._workers.values():
            worker.kill()
        self._master.kill()

    def _daemon(
        self,
        name: str,
        address: str,
        kind: str,
        *arguments: str,
        prefix: Sequence[str] = (),
        environment: dict[str, str] | None = None,
    ) -> Process:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        main = (f"org.apache.spark.deploy.{kind}", "--host", address, "--webui-port", "0")
        command = [*prefix, f"{self._home}/bin/spark-class", *main, *arguments]
        made = self._environment(folder) | _DAEMON | {"SPARK_LOCAL_IP": address}
        return Process(command, folder / "log", made | (environment or {}))

    def _environment(self, folder: Path) -> dict[str, str]:
        """Ours, with this package and these tests wherever they are installed, and one Spark."""
        kept = {name: text for name, text in os.environ.items() if "SPARK" not in name}
        path = f"{Path(strandline.__path__[0]).parent}{os.pathsep}{ROOT}"
        return kept | {
            "PYTHONPATH": path,
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "JAVA_TOOL_OPTIONS": _SHORT_LIVED,
        }

    def _told_by_master(self) -> tuple[str, str]:
        found: list[str] = []

        def has_told() -> bool:
            text = self._master.log.read_text(encoding="utf-8")
            found[:] = re.findall(r"Spark master at (\S+)|MasterWebUI.*? at (\S+)", text)
            return len(found) == 2

        until(has_told, "the master", self._master)
        return "".join(found[0]), "".join(found[1])

    def _alive(self) -> int:
        with urllib.request.urlopen(f"{self._page}/json/", timeout=WAIT_S_MAX) as page:
            return int(json.load(page)["aliveworkers"])


@contextmanager
def running(folder: Path, workers: int) -> Iterator[Cluster]:
    """A cluster for a while."""
    cluster = Cluster(folder)
    try:
        for number in range(workers):
            cluster.start_worker(f"worker-{number}")
        cluster.wait_alive(workers)
        yield cluster
    finally:
        cluster.close()


def until(reached: Callable[[], bool], what: str, process: Process) -> None:
    """Poll until it is so; fail when the process ends or time is up."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not reached():
        assert not process.has_ended(), f"no {what}, and nobody to wait for:\n{process.said()}"
        assert time.monotonic() < deadline, f"no {what} in time:\n{process.said()}"
        time.sleep(POLL_S)


def _make_home(folder: Path) -> Path:
    """Spark's home without its Python package: that is a zip, compiled anew by each process that
    imports it. Without it workers find the installed one."""
    folder.mkdir()
    for name in ("bin", "jars"):
        (folder / name).symlink_to(Path(pyspark.__path__[0], name))
    return folder
