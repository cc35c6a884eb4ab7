"""A producer beside a simulated store: stages rows and delivers them, as a Spark driver does."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import msgspec
import pyarrow as pa

import strandline
from strandline.config.settings import Settings, SpaceSettings, WalSettings
from strandline.ingest import delivery_codec as letters
from strandline.ingest import staged_files
from strandline.ingest.delivery_codec import PENDING, REFUSED, StagedFile, TopicDelivery
from strandline.platform.objectstore.local import FolderObjects
from strandline.platform.objectstore.protocol import Objects
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from tests.unit.store.world import payloads

PATH = "/data"
ATTEMPT = "0123456789abcdef"
SETTINGS = Settings(
    wal=WalSettings(file_size_first=16 * 1024, file_size_max=64 * 1024),
    space=SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0),
)


def rows(*data: bytes, **columns: list[object]) -> pa.RecordBatch:
    """A record batch with these data, and other columns as they are given."""
    names = {"data": pa.array(data, pa.binary())}
    names |= {name: pa.array(values) for name, values in columns.items()}
    return pa.RecordBatch.from_pydict(names)


def counted(prefix: str, count: int) -> pa.RecordBatch:
    return rows(*(b"%s %d" % (prefix.encode(), place) for place in range(count)))


class Post:
    """A store on a simulated disk, its clock and its lake, and whoever delivers to it."""

    def __init__(self, objects: SimObjects | None = None, clock: SimClock | None = None) -> None:
        """Without objects the lake is a folder of the disk."""
        self.disk = SimDisk()
        self.clock = clock or SimClock()
        self.objects = objects
        self.store = self.open()

    def open(self) -> Store:
        return strandline.open(
            PATH,
            disk=self.disk,
            clock=self.clock,
            settings=SETTINGS,
            objects=self.objects,
            start_jobs=False,
        )

    def reopen(self) -> Store:
        self.store.close()
        self.store = self.open()
        return self.store

    @property
    def folder(self) -> Objects:
        return FolderObjects(f"{PATH}/incoming", self.disk)

    @property
    def lake(self) -> Objects:
        return self.objects or FolderObjects(f"{PATH}/lake", self.disk)

    def stage(
        self, *batches: pa.RecordBatch, producer: str = "p", number: int = 1, part: int = 0
    ) -> StagedFile:
        attempt = self.disk.random_id().hex()
        key = letters.staged_key(producer, number, attempt, part)
        with contextlib.closing(self.lake) as lake:
            (staged,) = staged_files.stage(lake, lambda _: key, batches)
        return staged

    def letter(self, *files: StagedFile, topic: str = "t", **changes: object) -> TopicDelivery:
        made = TopicDelivery(
            store_id=self.store.id,
            topic=topic,
            producer="p",
            number=1,
            attempt=ATTEMPT,
            made_us=self.clock.now_us(),
            files=files,
        )
        return msgspec.structs.replace(made, **changes)

    def send(self, letter: TopicDelivery, *, name: str = "") -> str:
        """Deliver; the name of the delivery."""
        key = f"{PENDING}/{name or letter.name()}"
        with contextlib.closing(self.folder) as folder:
            folder.create(key, letters.encode(letter), writer=letter.attempt)
        return key.rpartition("/")[2]

    def deliver(self, *batches: pa.RecordBatch, number: int = 1, **changes: object) -> str:
        """Stage the batches as one file and deliver it."""
        producer = str(changes.get("producer", "p"))
        staged = self.stage(*batches, producer=producer, number=number)
        return self.send(self.letter(staged, number=number, **changes))

    def take(self) -> int:
        return self.store.ingest_pending()

    def data(self, topic: str = "t") -> list[bytes]:
        if topic not in self.store.topics():
            return []
        return payloads(self.store.topic(topic))

    def pending(self) -> list[str]:
        return names_in(self.folder, PENDING)

    def refused(self) -> list[str]:
        return names_in(self.folder, REFUSED)

    def staged(self) -> list[str]:
        return names_in(self.lake, "incoming")

    def refusal(self, name: str) -> letters.Rejection:
        key = f"{REFUSED}/{name}"
        return letters.decode_rejection(self.folder.get(key), key)


def names_in(objects: Objects, folder: str) -> list[str]:
    return [info.key.rpartition("/")[2] for info in objects.list(folder)]


def data_of(batches: Sequence[pa.RecordBatch]) -> list[bytes]:
    return [value for batch in batches for value in batch.column("data").to_pylist()]
