"""A process that has a store open for writing, and one that delivers to it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import strandline
from strandline.ingest import delivery_codec as letters
from strandline.ingest import staged_files
from strandline.ingest.delivery_codec import StagedFile
from strandline.pipelines.delivery_client import lake_of
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.cloud import open_objects
from tests.unit.ingest.deliveries import names_in, rows
from tests.unit.store.world import payloads

WAIT_S_MAX = 60.0
_OWNER = """
import sys, strandline
from strandline.store import Store
with Store(sys.argv[1], start_jobs=sys.argv[2] == "jobs"):
    print("open", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def owner(path: str, *, jobs: bool = True) -> Iterator[None]:
    """Another process has the store open for writing; without jobs it takes no delivery."""
    package = str(Path(strandline.__path__[0]).parent)
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER, path, "jobs" if jobs else "idle"],
        env=os.environ | {"PYTHONPATH": package},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"open\n"
            yield
        finally:
            process.communicate(timeout=WAIT_S_MAX)
        assert process.returncode == 0


def made_store(path: str, *topics: str, **options: object) -> None:
    with strandline.open(path) as store:
        for topic in topics or ("t",):
            store.create_topic(topic, **options)


def stage(path: str, *data: bytes, number: int = 1, part: int = 0, lake: str = "") -> StagedFile:
    """One file of rows, as a task leaves it."""
    key = letters.staged_key("p", number, OsDisk().random_id().hex(), part)
    with contextlib.closing(open_objects(lake_of(path, lake))) as objects:
        (staged,) = staged_files.stage(objects, lambda _: key, [rows(*data)])
    return staged


def contents(path: str, topic: str = "t") -> list[bytes]:
    with strandline.open(path, readonly=True) as store:
        return payloads(store.existing_topic(topic)) if topic in store.topics() else []


def staged_in(path: str) -> list[str]:
    return names_in(open_objects(lake_of(path)), "incoming")


def delivered_in(path: str, folder: str = "pending") -> list[str]:
    return names_in(open_objects(f"{path}/incoming"), folder)
