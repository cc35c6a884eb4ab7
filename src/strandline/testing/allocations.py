"""Injects failures of large allocations, as on a system without memory.

Large buffers are allocated where bytes are read, written, compressed or converted to columns: in
the calls of the disk and the functions in ``CODECS``. Each call is one allocation, and the nth
raises MemoryError before it has an effect. docs/decisions/0040-injected-failures.md.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

CODECS = (
    "strandline.log.wal.block:draft",
    "strandline.log.wal.block:Draft.finish",
    "strandline.log.segments.codec:encode_footer",
    "strandline.log.segments.codec:decode_footer",
    "strandline.log.segments.codec:block_checksum",
    "strandline.log.segments.rows:RecordRows.draft",
    "strandline.log.files.checkpoint_codec:encode",
    "strandline.log.files.checkpoint_codec:decode",
    "strandline.reservoir.data_files.page_compression:pack",
    "strandline.reservoir.data_files.page_compression:unpack",
)
"""``module:function`` of functions that allocate in proportion to their arguments."""


class Allocations:
    """Counts allocations and makes the nth fail, or all from the nth on. Owned by one thread."""

    def __init__(self, nth: int, *, once: bool) -> None:
        self.count = 0
        self.fired = 0
        self._nth = nth
        self._once = once

    def on_call(self, operation: str, path: str) -> None:
        """A hook for a simulated disk."""
        if operation not in ("sync", "sync_dir", "abandon", "lock"):  # those allocate nothing
            self.allocate(f"{operation} {path}")

    def allocate(self, what: str) -> None:
        """One allocation: it succeeds, or raises MemoryError."""
        self.count += 1
        if self.count == self._nth or (self.count > self._nth and not self._once):
            self.fired += 1
            raise MemoryError(what)

    @contextmanager
    def in_codecs(self) -> Iterator[None]:
        """Count the codecs' allocations inside the block."""
        patches = [self._patch(name) for name in CODECS]
        for each in patches:
            each.start()
        try:
            yield
        finally:
            for each in patches:
                each.stop()

    def _patch(self, name: str) -> Any:
        module_name, _, path = name.partition(":")
        owner: Any = importlib.import_module(module_name)
        *classes, function = path.split(".")
        for part in classes:
            owner = getattr(owner, part)
        return patch.object(owner, function, self._counted(name, getattr(owner, function)))

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.allocate(name)
            return function(*args, **kwargs)

        return counted
