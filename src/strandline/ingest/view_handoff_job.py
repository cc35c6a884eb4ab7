"""Takes what was worked out for views elsewhere: a job of the writer.

    1 read a handover, and check every staged file before any of it is used
    2 write its pages into the reservoir, beside those in use (``views/view_registry.py``)
    3 point the view at them, fold in what came since, save
    4 forget the handover, then its staged files

A crash before 3 is done leaves the view as it was, and the handover is taken again; one after it
takes the same state once more, which changes nothing that can be seen. What cannot be taken (other
options, a topic made anew, damaged bytes) is moved to ``views-refused`` with the reason, which is
told until somebody has read it or a week is over; the view stays as it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from strandline.errors import Conflict, Corrupt, Invalid, NotFound, StrandlineError
from strandline.ingest import delivery_codec as letters
from strandline.ingest import rejected
from strandline.ingest import view_handoff_codec as handovers
from strandline.ingest.delivery_codec import Staged
from strandline.ingest.staged_files import read_chunks
from strandline.ingest.view_handoff_codec import Handover, Rolled
from strandline.platform.clock import Clock
from strandline.platform.objectstore.protocol import Objects
from strandline.views.open_view import Views
from strandline.views.rollup_windows import MadeWindows
from strandline.views.view import Draft
from strandline.views.view_registry import Facade, Pages


class Adopting:
    """The taking side of handovers. Safe from many threads; one turn at a time."""

    def __init__(
        self,
        folder: Objects,
        staged: Objects,
        clock: Clock,
        *,
        store_id: str,
        views: Views,
        relocate: Callable[[], None],
    ) -> None:
        """``relocate`` tells the lake of what was let go."""
        self._folder = folder
        self._staged = staged
        self._clock = clock
        self._store_id = store_id
        self._views = views
        self._relocate = relocate
        self._turn = threading.Lock()

    def run_once(self) -> int:
        """Take every view that was handed over; how many."""
        taken = 0
        with self._turn:
            for info in list(self._folder.list(handovers.WAITING)):
                taken += self._take(info.key)
        return taken

    def complaints(self) -> list[str]:
        """What was refused and is still lying there: whoever handed it over was gone by then."""
        try:
            return [told for _, told in rejected.views(self._folder)]
        except StrandlineError as error:
            return [f"what was handed over cannot be read: {error}"]

    def _take(self, key: str) -> int:
        try:
            data = self._folder.get(key)
        except NotFound:
            return 0
        name = ""
        try:
            found = handovers.decode(data, f"{self._folder.name}/{key}")
            name = found.name
            self._check(found)
            self._act(found)
        except (Corrupt, Invalid, Conflict, NotFound) as error:
            self._refuse(key, name, error)
            return 0
        self._folder.delete([key])
        self._staged.delete([file.key for file in found.files])
        return 1

    def _act(self, found: Handover) -> None:
        view = self._views.maker(
            found.kind, found.name
        )  # which must be there: nothing is made anew
        if found.saved is not None:
            self._views.shelf.adopt(view, found.saved, self._pages(found))
            return
        facade = self._views.open(found.kind, found.name, {})
        if found.rolled is not None:
            self._accept(facade, found, found.rolled)
        else:
            self._tend(facade)

    def _accept(self, facade: Any, found: Handover, rolled: Rolled) -> None:
        """Windows in their order, until some no longer hold: those after them do not, either."""
        files = iter(found.files)
        for windows in rolled.windows:
            data, metas = self._records(list(islice(files, windows.files)))
            made = MadeWindows(
                source=rolled.source,
                into=rolled.into,
                version=rolled.version,
                after=windows.after,
                first=windows.first,
                until=windows.until,
                position=windows.position,
            )
            if not facade.accept(made, Draft(0, data, metas=metas)):
                return

    def _records(self, files: Sequence[Staged]) -> tuple[list[bytes], list[bytes | None]]:
        data: list[bytes] = []
        metas: list[bytes | None] = []
        for file in files:
            for batch in read_chunks(self._staged, file):
                data += batch.column("data").to_pylist()
                metas += batch.column("meta").to_pylist()
        return data, metas

    def _tend(self, facade: Facade) -> None:
        """Twice: what the first turn appends and saves lets the second let go of more."""
        for _ in range(2):
            self._views.shelf.save()
            facade.maintain()
        self._relocate()

    def _check(self, found: Handover) -> None:
        if found.store_id != self._store_id:
            raise Invalid(
                f"a view of store {found.store_id[:8]}… was handed to store {self._store_id[:8]}…"
            )
        for file in found.files:  # all of them before the first page is written
            for _ in read_chunks(self._staged, file):
                pass

    def _pages(self, found: Handover) -> Iterator[Pages]:
        for file in found.files:
            for batch in read_chunks(self._staged, file):
                yield handovers.pages_of(batch, f"{self._staged.name}/{file.key}")

    def _refuse(self, key: str, topic: str, error: StrandlineError) -> None:
        name = key.rpartition("/")[2]
        refusal = letters.refusal(name, topic, error, self._clock.now_us())
        self._folder.put(f"{handovers.REFUSED}/{name}", refusal)
        self._folder.delete([key])
        self._folder.close()  # it holds something only for writing, which it does nowhere else
