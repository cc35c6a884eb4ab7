"""Pages of blocks: written once, read often, deleted as a whole.

    page id     space << 32 | number; a number is never used again

A new page stays in memory until the next save, so a page that is dropped by a merge before is never
written. If new pages take more than ``ram_bytes``, the oldest are moved to the spill, or without a
spill, or if it is full, to the session (like pages of maps: reservoir/btree/node_store.py). Dropped
pages are deleted from the session at the save, too: a store that is open read-only never saves.
"""

from __future__ import annotations

import sys

from strandline.errors import Corrupt
from strandline.reservoir.btree.spill import Spill
from strandline.reservoir.session import Session


class BlockPages:
    """The pages of blocks of one fold. Owned by one thread."""

    def __init__(
        self,
        session: Session,
        space: int,
        *,
        next_number: int,
        spill: Spill | None,
        ram_bytes: int,
    ) -> None:
        self.next_number = next_number
        self.ram = 0
        self._session = session
        self._space = space
        self._spill = spill
        self._ram_max = ram_bytes
        self._new: dict[int, bytes] = {}
        self._spilled: set[int] = set()
        self._dropped: list[int] = []

    def put(self, page: bytes) -> int:
        """Add a page and return its number."""
        number = self.next_number
        self.next_number += 1
        self._new[number] = page
        self.ram += sys.getsizeof(page)
        if self.ram > self._ram_max:
            self.shrink(self._ram_max)
        return number

    def get(self, number: int) -> bytes:
        page = self._new.get(number)
        if page is not None:
            return page
        page_id = self._id(number)
        if number in self._spilled and self._spill is not None:
            page = self._spill.get(page_id)
        else:
            page = self._session.read(page_id)
        if page is None:
            raise Corrupt("the page is missing", path=f"page {page_id} of the metrics' blocks")
        return page

    def drop(self, number: int) -> None:
        """Delete a page."""
        page = self._new.pop(number, None)
        if page is not None:
            self.ram -= sys.getsizeof(page)
        elif number in self._spilled:
            self._unspill(number)
        else:
            self._dropped.append(number)

    def shrink(self, ram_bytes: int) -> None:
        """Move new pages out of memory, the oldest first, until they take at most ``ram_bytes``."""
        for number in list(self._new):
            if self.ram <= ram_bytes:
                return
            page = self._new[number]
            if self._spill is not None and self._spill.put(self._id(number), page):
                self._spilled.add(number)
            else:
                self._session.write(self._id(number), page)
            del self._new[number]
            self.ram -= sys.getsizeof(page)

    def save(self) -> None:
        """Write new pages to the session, and delete dropped ones from it."""
        for number in sorted(self._spilled):
            self._session.write(self._id(number), self.get(number))
            self._unspill(number)
        if self._new:
            self._session.write_many([self._id(n) for n in self._new], list(self._new.values()))
            self._new.clear()
            self.ram = 0
        for number in self._dropped:
            self._session.delete(self._id(number))
        self._dropped.clear()

    def _unspill(self, number: int) -> None:
        self._spilled.discard(number)
        if self._spill is not None:
            self._spill.drop(self._id(number))

    def _id(self, number: int) -> int:
        return self._space << 32 | number
