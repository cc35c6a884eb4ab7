"""Merges the states of all ranges into one, as pages for the store's reservoir.

Ranges are in the order of their keys, so their maps are concatenated page by page. A map in another
order (the agenda of a key-value view) is merged entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from pyroaring import BitMap64

from strandline.ingest import staged_files, view_handoff_codec
from strandline.ingest.delivery_codec import StagedFile
from strandline.pipelines.view_rebuild.partitioning import partitioning_of
from strandline.pipelines.view_rebuild.reduce_task import ReduceResult
from strandline.platform.disk import Buffer
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir.btree.btree_map import PagedMap
from strandline.reservoir.btree.bulk_concat import TreeConcat
from strandline.views.kv import merge_states as kv
from strandline.views.series import merge_states as series


def merged_state(kind: str, folded: Sequence[ReduceResult], dead: BitMap64) -> bytes:
    """The state of a view besides its pages."""
    states = [each.state for each in folded]
    if kind == "kv":
        return kv.join(states, dead)
    return series.join(states) if kind == "series" else states[0]


def merge_pages(
    lake: Objects, attempt: str, kind: str, folded: Sequence[ReduceResult]
) -> tuple[StagedFile, ...]:
    """Stage the pages of all ranges as those of one view."""
    if len(folded) == 1:
        return folded[0].files
    batches = view_handoff_codec.batches_of(_pages(lake, kind, folded))
    return staged_files.stage(
        lake, lambda part: view_handoff_codec.staged_key(attempt, part), batches
    )


def _pages(lake: Objects, kind: str, folded: Sequence[ReduceResult]) -> Iterator[tuple[int, bytes]]:
    """The pages of all maps of a view, numbered as in space 0."""
    concats = [TreeConcat() for _ in range(partitioning_of(kind).maps)]
    merged_pages = _MemoryPages()
    unordered = [PagedMap(merged_pages, space=number) for number in partitioning_of(kind).unordered]
    for each in folded:
        pages = _MemoryPages.of(lake, each.files)
        for number, concat in enumerate(concats):
            if number not in partitioning_of(kind).unordered:
                for n, page in concat.add(partial(pages.read_from, number)):
                    yield number << 32 | n, page
        for number, target in zip(partitioning_of(kind).unordered, unordered, strict=True):
            target.put_many(PagedMap(pages, space=number, ram_bytes=1 << 40).range())
    for number, concat in enumerate(concats):
        if number not in partitioning_of(kind).unordered:
            for n, page in concat.end():
                yield number << 32 | n, page
    for target in unordered:
        target.save()
    yield from merged_pages.pages.items()


class _MemoryPages:
    """Pages in memory."""

    def __init__(self) -> None:
        self.pages: dict[int, bytes] = {}

    @classmethod
    def of(cls, lake: Objects, files: Sequence[StagedFile]) -> _MemoryPages:
        """The pages of one range."""
        loaded = cls()
        for file in files:
            for batch in staged_files.read_chunks(lake, file):
                numbers, data = view_handoff_codec.pages_of(batch, f"{lake.name}/{file.key}")
                loaded.pages.update(zip(numbers, data, strict=True))
        return loaded

    def read_from(self, space: int, n: int) -> bytes | None:
        return self.pages.get(space << 32 | n)

    def read(self, page_id: int) -> bytes | None:
        return self.pages.get(page_id)

    def write(self, page_id: int, data: Buffer) -> None:
        self.pages[page_id] = bytes(data)

    def delete(self, page_id: int) -> None:
        self.pages.pop(page_id, None)

    def commit(self) -> None:
        """Does nothing: pages are only in memory."""
