"""Pages in memory for tests of the map: what is written, committed and durable, and a crash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from strandline.errors import Unavailable
from strandline.platform.disk import Buffer


class MemoryPages:
    """A session and its reservoir in one: the simplest that keeps the promises of both."""

    def __init__(self) -> None:
        self.pages: dict[int, bytes] = {}
        self.committed: dict[int, bytes] = {}
        self.durable: dict[int, bytes] = {}
        self.metas: list[bytes] = []
        self.calls: Counter[str] = Counter()
        self.on_call: Callable[[str, int], None] | None = None

    def read(self, page_id: int) -> bytes | None:
        self._enter("read", page_id)
        return self.pages.get(page_id)

    def write(self, page_id: int, data: Buffer) -> None:
        assert 0 < page_id < 1 << 63
        self._enter("write", page_id)
        self.pages[page_id] = bytes(data)

    def delete(self, page_id: int) -> None:
        self._enter("delete", page_id)
        self.pages.pop(page_id, None)

    def commit(self) -> None:
        self._enter("commit", 0)
        self.committed = dict(self.pages)

    def checkpoint(self, meta: bytes = b"") -> int:
        self._enter("checkpoint", 0)
        self.durable = dict(self.committed)
        self.metas.append(meta)
        return len(self.metas)

    def crash(self) -> None:
        """Back to the last checkpoint."""
        self.pages = dict(self.durable)
        self.committed = dict(self.durable)

    def fail(self, operation: str, nth: int) -> None:
        """Make the nth such call from now fail, once."""
        rest = nth

        def count(called: str, page_id: int) -> None:
            nonlocal rest
            rest -= called == operation
            if rest == 0:
                self.on_call = None
                raise Unavailable(f"{called} of page {page_id} fails")

        self.on_call = count

    def _enter(self, operation: str, page_id: int) -> None:
        self.calls[operation] += 1
        if self.on_call is not None:
            self.on_call(operation, page_id)
