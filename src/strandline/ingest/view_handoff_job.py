"""Writer job that installs view state computed by other processes.

    1 read a handoff, and check every staged file before any of it is used
    2 write its pages into the reservoir, beside those in use (``views/view_registry.py``)
    3 switch the view to them, apply newer records, save
    4 delete the handoff, then its staged files

A crash before the end of 3 leaves the view unchanged, and the handoff is processed again; a crash
after it installs the same state again, which has no visible effect. A handoff that cannot be
installed (other options, a re-created topic, damaged bytes) is moved to ``views-refused`` with the
reason, which is reported until the sender has read it or for a week; the view stays unchanged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from strandline.errors import Conflict, Corrupt, Invalid, NotFound, StrandlineError
from strandline.ingest import delivery_codec as delivery
from strandline.ingest import rejected
from strandline.ingest import view_handoff_codec as handoffs
from strandline.ingest.delivery_codec import StagedFile
from strandline.ingest.staged_files import read_chunks
from strandline.ingest.view_handoff_codec import RollupHandoff, ViewHandoff
from strandline.platform.clock import Clock
from strandline.platform.objectstore.protocol import Objects
from strandline.views.open_view import Views
from strandline.views.rollup_windows import RollupWindows
from strandline.views.view import ViewAppend
from strandline.views.view_registry import Facade, Pages


class ViewHandoffJob:
    """Installs view handoffs. Safe from many threads; one run at a time."""

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
        """``relocate`` releases trimmed records in the lake."""
        self._folder = folder
        self._staged = staged
        self._clock = clock
        self._store_id = store_id
        self._views = views
        self._relocate = relocate
        self._run_lock = threading.Lock()

    def run_once(self) -> int:
        """Install all handoffs; return their number."""
        installed = 0
        with self._run_lock:
            for info in list(self._folder.list(handoffs.WAITING)):
                installed += self._process(info.key)
        return installed

    def problems(self) -> list[str]:
        """The rejected handoffs that are still stored: their senders have ended."""
        try:
            return [message for _, message in rejected.views(self._folder)]
        except StrandlineError as error:
            return [f"view handoffs cannot be read: {error}"]

    def _process(self, key: str) -> int:
        try:
            data = self._folder.get(key)
        except NotFound:
            return 0
        name = ""
        try:
            handoff = handoffs.decode(data, f"{self._folder.name}/{key}")
            name = handoff.name
            self._check(handoff)
            self._install(handoff)
        except (Corrupt, Invalid, Conflict, NotFound) as error:
            self._reject(key, name, error)
            return 0
        self._folder.delete([key])
        self._staged.delete([file.key for file in handoff.files])
        return 1

    def _install(self, handoff: ViewHandoff) -> None:
        view = self._views.spec(handoff.kind, handoff.name)  # it must exist: none is created
        if handoff.saved is not None:
            self._views.registry.adopt(view, handoff.saved, self._pages(handoff))
            return
        facade = self._views.open(handoff.kind, handoff.name, {})
        if handoff.rolled is not None:
            self._accept_windows(facade, handoff, handoff.rolled)
        else:
            self._maintain(facade)

    def _accept_windows(self, facade: Any, handoff: ViewHandoff, rolled: RollupHandoff) -> None:
        """Accept windows in their order, until one is outdated: then the later ones are, too."""
        files = iter(handoff.files)
        for windows in rolled.windows:
            data, metas = self._records(list(islice(files, windows.files)))
            windows_made = RollupWindows(
                source=rolled.source,
                into=rolled.into,
                version=rolled.version,
                after=windows.after,
                first=windows.first,
                until=windows.until,
                position=windows.position,
            )
            if not facade.accept(windows_made, ViewAppend(0, data, metas=metas)):
                return

    def _records(self, files: Sequence[StagedFile]) -> tuple[list[bytes], list[bytes | None]]:
        data: list[bytes] = []
        metas: list[bytes | None] = []
        for file in files:
            for batch in read_chunks(self._staged, file):
                data += batch.column("data").to_pylist()
                metas += batch.column("meta").to_pylist()
        return data, metas

    def _maintain(self, facade: Facade) -> None:
        """Run twice: what the first run appends and saves lets the second release more records."""
        for _ in range(2):
            self._views.registry.save()
            facade.maintain()
        self._relocate()

    def _check(self, handoff: ViewHandoff) -> None:
        if handoff.store_id != self._store_id:
            raise Invalid(
                f"a handoff for store {handoff.store_id[:8]}… is in store {self._store_id[:8]}…"
            )
        for file in handoff.files:  # all of them before the first page is written
            for _ in read_chunks(self._staged, file):
                pass

    def _pages(self, handoff: ViewHandoff) -> Iterator[Pages]:
        for file in handoff.files:
            for batch in read_chunks(self._staged, file):
                yield handoffs.pages_of(batch, f"{self._staged.name}/{file.key}")

    def _reject(self, key: str, topic: str, error: StrandlineError) -> None:
        name = key.rpartition("/")[2]
        refusal = delivery.encode_rejection(name, topic, error, self._clock.now_us())
        self._folder.put(f"{handoffs.REFUSED}/{name}", refusal)
        self._folder.delete([key])
        self._folder.close()  # it is open only for writing, which happens nowhere else
