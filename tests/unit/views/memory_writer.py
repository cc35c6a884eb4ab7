"""A process that writes through a view and watches its own memory. Prints what it saw as JSON.

What counts is RSS beyond what the process had with everything imported and the store and the view
open: records, pages and caches, buffers of jobs, what an allocator keeps of them, and pages of
libraries that are only now needed. Not: the operating system's cache of files.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
from collections.abc import Iterator

import strandline
from strandline.config.settings import Settings, ViewSettings
from strandline.views.kv.values import Put

VALUE_BYTES = 8_000
BATCH = 250
SAMPLE_S = 0.005


def rss_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Watch:
    """The highest RSS since it began, looked at again and again."""

    def __init__(self) -> None:
        gc.collect()
        self.baseline = self.highest = rss_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> int:
        """The growth."""
        self._done.set()
        self._thread.join()
        return max(self.highest, rss_bytes()) - self.baseline

    def _look(self) -> None:
        while not self._done.wait(SAMPLE_S):
            self.highest = max(self.highest, rss_bytes())


def values(size: int) -> Iterator[list[bytes]]:
    """Batches of values that differ and do not compress, of so many bytes together."""
    noise = os.urandom(2 * VALUE_BYTES)
    for first in range(0, size // VALUE_BYTES, BATCH):
        yield [
            noise[(first + n) % VALUE_BYTES :][: VALUE_BYTES - 8] + (first + n).to_bytes(8, "big")
            for n in range(BATCH)
        ]


def main(kind: str, folder: str, budget_bytes: int, written_bytes: int) -> None:
    settings = Settings(views=ViewSettings(memory_bytes=budget_bytes))
    with strandline.open(folder, settings=settings) as store:
        kv = store.kv("view") if kind == "kv" else None
        queue = store.queue("view") if kind == "queue" else None
        watch = Watch()
        written = 0
        for batch in values(written_bytes):
            if kv is not None:
                kv.batch([Put(b"key-%s" % value[-8:].hex().encode(), value) for value in batch])
            if queue is not None:
                queue.put_many(batch)
            written += sum(map(len, batch))
        growth = watch.end()
    print(json.dumps({"written": written, "growth": growth}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
