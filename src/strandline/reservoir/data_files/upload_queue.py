"""Full files on their way into the object store: a few at once, a few waiting, no more.

Whoever has a file to send reserves a place first, and waits for one when the object store is slow:
that bounds memory. A file that could not be stored stays here, in its place, and is tried again by
the next who wants a place and by ``finish``; that one is told of the failure. Files are tried again
by one thread at a time, so that ``finish`` does not miss the one that another is trying.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait

from strandline.errors import Closed
from strandline.platform.thread_pool import ThreadPool
from strandline.reservoir.data_files.data_file_builder import Blob


class Uploads:
    """Safe from many threads. ``store`` puts one file into the object store; repeating is safe.

    Two locks: ``_retrying`` while files are tried again; inside it, for moments, ``_lock``.
    """

    def __init__(self, store: Callable[[Blob], None], *, waiting_max: int, at_once: int) -> None:
        self._store = store
        self._places = threading.Semaphore(waiting_max)
        self._threads = ThreadPool(at_once, "strandline-upload")
        self._retrying = threading.Lock()
        self._lock = threading.RLock()  # a pool may run the work in the thread that submits it
        self._closed = False
        self._running: set[Future[None]] = set()
        self._failed: list[Blob] = []

    def reserve(self) -> None:
        """Wait for a place. Raises when a file that waits still cannot be stored."""
        while not self._places.acquire(timeout=0.05):
            self._check_open()
            self._retry()

    def release(self) -> None:
        """Give a place back that was not needed."""
        self._places.release()

    def send(self, blob: Blob) -> None:
        """Store it in the background, in the place that was reserved."""
        self._check_open()
        future = self._threads.submit(self._send, blob)  # here when there is no thread for it
        with self._lock:
            self._running.add(future)
        future.add_done_callback(self._ended)

    def finish(self) -> None:
        """Return when every file that was sent is stored; else raise, and those go on waiting."""
        with self._lock:
            running = set(self._running)
        wait(running)
        self._retry()

    def close(self) -> None:
        """Let those under way end; the others fail, and whoever waits for them is told."""
        with self._lock:
            self._closed = True
        self._threads.shutdown(wait=True)

    def _send(self, blob: Blob) -> None:
        try:
            self._check_open()
            self._store(blob)
        except BaseException:
            with self._lock:
                self._failed.append(blob)
            raise
        self._places.release()

    def _ended(self, future: Future[None]) -> None:
        with self._lock:
            self._running.discard(future)

    def _retry(self) -> None:
        """Try in the caller's thread what failed before."""
        with self._retrying:
            while True:
                with self._lock:
                    if not self._failed:
                        return
                    blob = self._failed.pop(0)
                self._send(blob)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("this reservoir is closed: open it again")
