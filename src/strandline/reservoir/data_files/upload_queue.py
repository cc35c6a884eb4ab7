"""Upload queue for full files: a bounded number of running and waiting uploads.

A caller reserves a slot before it sends a file, and waits for one when the object store is slow:
that bounds memory. A file that could not be stored keeps its slot, and is tried again by the next
``reserve`` that waits and by ``finish``, which raise if it fails again. One thread at a time
retries, so that ``finish`` does not miss a file that another thread retries.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait

from strandline.errors import Closed
from strandline.platform.thread_pool import ThreadPool
from strandline.reservoir.data_files.data_file_builder import DataFile


class UploadQueue:
    """Uploads files. Safe from many threads. ``store`` uploads one file and can be repeated.

    Two locks: ``_retry_lock`` during retries; inside it, briefly, ``_lock``.
    """

    def __init__(
        self, store: Callable[[DataFile], None], *, waiting_max: int, at_once: int
    ) -> None:
        self._store = store
        self._slots = threading.Semaphore(waiting_max)
        self._threads = ThreadPool(at_once, "strandline-upload")
        self._retry_lock = threading.Lock()
        self._lock = threading.RLock()  # a pool may run the work in the thread that submits it
        self._closed = False
        self._running: set[Future[None]] = set()
        self._failed: list[DataFile] = []

    def reserve(self) -> None:
        """Wait for a slot. Raises when a failed file still cannot be stored."""
        while not self._slots.acquire(timeout=0.05):
            self._check_open()
            self._retry()

    def release(self) -> None:
        """Return a slot that was not used."""
        self._slots.release()

    def send(self, blob: DataFile) -> None:
        """Upload a file in the background, in the reserved slot."""
        self._check_open()
        future = self._threads.submit(self._send, blob)  # runs in this thread if there is no other
        with self._lock:
            self._running.add(future)
        future.add_done_callback(self._remove_finished)

    def finish(self) -> None:
        """Wait until every sent file is stored; raise on failure, and failed files stay here."""
        with self._lock:
            running = set(self._running)
        wait(running)
        self._retry()

    def close(self) -> None:
        """Wait for running uploads; the others fail, and their waiting callers raise ``Closed``."""
        with self._lock:
            self._closed = True
        self._threads.shutdown(wait=True)

    def _send(self, blob: DataFile) -> None:
        try:
            self._check_open()
            self._store(blob)
        except BaseException:
            with self._lock:
                self._failed.append(blob)
            raise
        self._slots.release()

    def _remove_finished(self, future: Future[None]) -> None:
        with self._lock:
            self._running.discard(future)

    def _retry(self) -> None:
        """Retry failed uploads in the caller's thread."""
        with self._retry_lock:
            while True:
                with self._lock:
                    if not self._failed:
                        return
                    blob = self._failed.pop(0)
                self._send(blob)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("this reservoir is closed: open it again")
