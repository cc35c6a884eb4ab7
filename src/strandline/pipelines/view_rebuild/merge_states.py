"""The states of all ranges as one, in pages as the store's reservoir takes them.

Ranges are in the order of their keys, so their maps follow each other and are grafted page by page.
One that is in another order (the agenda of a key-value view) is put together entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from pyroaring import BitMap64

from strandline.ingest import staged_files, view_handoff_codec
from strandline.ingest.delivery_codec import Staged
from strandline.pipelines.view_rebuild.partitioning import recipe_of
from strandline.pipelines.view_rebuild.reduce_task import Folded
from strandline.platform.disk import Buffer
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir.btree.btree_map import PagedMap
from strandline.reservoir.btree.bulk_concat import Graft
from strandline.views.kv import merge_states as kv
from strandline.views.series import merge_states as series


def joined_state(kind: str, folded: Sequence[Folded], dead: BitMap64) -> bytes:
    """What is saved besides pages."""
    states = [each.state for each in folded]
    if kind == "kv":
        return kv.join(states, dead)
    return series.join(states) if kind == "series" else states[0]


def join(lake: Objects, attempt: str, kind: str, folded: Sequence[Folded]) -> tuple[Staged, ...]:
    """Stage the pages of all ranges as those of one view."""
    if len(folded) == 1:
        return folded[0].files
    batches = view_handoff_codec.batches_of(_pages(lake, kind, folded))
    return staged_files.stage(
        lake, lambda part: view_handoff_codec.staged_key(attempt, part), batches
    )


def _pages(lake: Objects, kind: str, folded: Sequence[Folded]) -> Iterator[tuple[int, bytes]]:
    """The pages of all maps of a view, as in space 0."""
    grafts = [Graft() for _ in range(recipe_of(kind).maps)]
    loose = _Loaded()
    unordered = [PagedMap(loose, space=number) for number in recipe_of(kind).unordered]
    for each in folded:
        pages = _Loaded.of(lake, each.files)
        for number, grafting in enumerate(grafts):
            if number not in recipe_of(kind).unordered:
                for n, page in grafting.add(partial(pages.read_from, number)):
                    yield number << 32 | n, page
        for number, target in zip(recipe_of(kind).unordered, unordered, strict=True):
            target.put_many(PagedMap(pages, space=number, ram_bytes=1 << 40).range())
    for number, grafting in enumerate(grafts):
        if number not in recipe_of(kind).unordered:
            for n, page in grafting.end():
                yield number << 32 | n, page
    for target in unordered:
        target.save()
    yield from loose.pages.items()


class _Loaded:
    """Pages in memory."""

    def __init__(self) -> None:
        self.pages: dict[int, bytes] = {}

    @classmethod
    def of(cls, lake: Objects, files: Sequence[Staged]) -> _Loaded:
        """The pages of one range."""
        made = cls()
        for file in files:
            for batch in staged_files.read_chunks(lake, file):
                numbers, data = view_handoff_codec.pages_of(batch, f"{lake.name}/{file.key}")
                made.pages.update(zip(numbers, data, strict=True))
        return made

    def read_from(self, space: int, n: int) -> bytes | None:
        return self.pages.get(space << 32 | n)

    def read(self, page_id: int) -> bytes | None:
        return self.pages.get(page_id)

    def write(self, page_id: int, data: Buffer) -> None:
        self.pages[page_id] = bytes(data)

    def delete(self, page_id: int) -> None:
        self.pages.pop(page_id, None)

    def commit(self) -> None:
        """Nothing is kept."""
