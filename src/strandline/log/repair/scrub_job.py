"""The scrub job: reads every segment and every lake file again, and repairs them from other copies.

One round after another, at the rate of the settings, without state on disk. A file is bad when two
checks fail and it is still in use then.

    a bad or missing segment    its records are read from intact blocks and from the lake, and
                                written to a new segment that replaces it
    a bad or missing lake file  its records are read from intact copies, and a new file is committed
    a manifest                  a full one is committed, if the newest version is known here
    no good copy is left        the range is fenced off: reading it raises Corrupt, health is yellow
                                and names it until the file is intact again or out of use;
                                everything else continues

A segment whose lake copy was read in its place is checked first, in any round.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import msgspec

from strandline.config.settings import ScrubSettings
from strandline.errors import Conflict, Corrupt, StrandlineError, Unavailable
from strandline.lake import verify
from strandline.lake.lake import Lake
from strandline.lake.lake_writer import LakeWriter
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.log.catalog import Catalog
from strandline.log.checkpoint.relocator import Relocator
from strandline.log.checkpoint.sealer import Sealer
from strandline.log.read.intact_blocks import intact_ranges, lost_ranges, rows_of
from strandline.log.repair.verify_segment import check_segment, walk_segment
from strandline.log.segments import codec
from strandline.log.segments.reader import Segment
from strandline.log.segments.rows import RecordRows
from strandline.log.segments.segment_set import SegmentSet
from strandline.log.state.topic_state import SegmentRun, TopicState
from strandline.platform.clock import Clock
from strandline.platform.objectstore.protocol import Objects

_BURST_S = 2.0  # of reading at the configured rate that one run may do at once
_KEPT_MAX = 100  # findings of restored files that are still reported

_Item = Callable[[], Iterator[int]]
"""Checks one item: yields how many bytes it has read."""


class DamageFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was not as it was written."""

    path: str
    reason: str
    outcome: Literal["restored", "fenced"]
    """Whether it was repaired from another copy."""
    topic: str | None = None
    first_seq: int | None = None
    last_seq: int | None = None

    def __str__(self) -> str:
        where = f"{self.reason} in {self.path}"
        if self.first_seq is not None:
            where += f" (records {self.first_seq} to {self.last_seq} of topic {self.topic!r})"
        return f"{where}: " + (
            "restored" if self.outcome == "restored" else "no good copy is left here"
        )


class ScrubProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress and the findings of the scrub job."""

    rounds: int = 0
    """Rounds that are finished."""
    files: int = 0
    files_total: int = 0
    """Of this round, approximately: files are added and removed meanwhile."""
    bytes_read: int = 0
    findings: list[DamageFinding] = []
    """What is fenced off, and what was restored since the store was opened, newest last."""


class Scrubber:
    """Owned by the scrub job; ``progress`` from any thread."""

    def __init__(  # noqa: PLR0913 - parts of a store, by name
        self,
        clock: Clock,
        catalog: Catalog,
        library: SegmentSet,
        sealer: Sealer,
        relocator: Relocator,
        lake_writer: LakeWriter,
        lake: Lake,
        settings: ScrubSettings,
        *,
        store_id: bytes,
        changing: threading.Lock,
        tables: Callable[[Objects, bytes], Iterator[verify.VerifyStep]],
    ) -> None:
        """``tables`` checks the files of event tables in the lake."""
        self._disk = library.disk
        self._clock = clock
        self._catalog = catalog
        self._library = library
        self._sealer = sealer
        self._relocator = relocator
        self._lake_writer = lake_writer
        self._lake = lake
        self._settings = settings
        self._store_id = store_id
        self._tables = tables
        self._changing = changing
        """Held while a checkpoint is written."""
        self._run_lock = threading.Lock()
        self._waiting: deque[_Item] = deque()
        self._current: tuple[_Item, Iterator[int]] | None = None
        self._in_round = False
        self._began_s: float | None = None
        self._budget = 0.0
        self._budget_s = clock.monotonic()
        self._queued_stand_ins: set[str] = set()
        self._rounds = self._files = self._files_total = self._bytes = 0
        self._fenced: dict[tuple[str, int | None], DamageFinding] = {}
        self._bad: set[tuple[str, int | None]] = set()
        self._restored: deque[DamageFinding] = deque(maxlen=_KEPT_MAX)

    def run_once(self) -> None:
        """Read as much as the rate allows since the last run."""
        rate = self._settings.bytes_per_s
        if rate <= 0:
            return
        with self._run_lock:
            now_s = self._clock.monotonic()
            earned = self._budget + (now_s - self._budget_s) * rate
            self._budget, self._budget_s = min(earned, _BURST_S * rate), now_s
            self._queue_stand_ins()
            while self._budget > 0:
                if not self._busy and not self._begin_if_due(now_s):
                    return
                self._budget -= self._step()

    def run_all(self) -> ScrubProgress:
        """Run a whole round at once, at any rate."""
        with self._run_lock:
            self._waiting.clear()
            self._current = None
            self._begin(self._clock.monotonic())
            while self._busy:
                self._step()
            return self.progress()

    def progress(self) -> ScrubProgress:
        return ScrubProgress(
            rounds=self._rounds,
            files=self._files,
            files_total=self._files_total,
            bytes_read=self._bytes,
            findings=[*self._restored, *self._fenced.values()],
        )

    @property
    def _busy(self) -> bool:
        return self._current is not None or bool(self._waiting) or self._in_round

    def _begin_if_due(self, now_s: float) -> bool:
        if self._began_s is not None and now_s - self._began_s < self._settings.cycle_s:
            return False
        self._begin(now_s)
        return True

    def _begin(self, now_s: float) -> None:
        self._began_s, self._in_round = now_s, True
        self._files = self._bytes = 0
        self._bad.clear()
        numbers = sorted(self._library.segments)
        self._waiting.extend(partial(self._check_segment, number) for number in numbers)
        cold = [state for state in self._catalog.states() if state.cold is not None]
        if cold or self._lake.identity.ref is not None:
            self._waiting += [self._check_head, self._check_tables]
        self._waiting.extend(partial(self._check_versions, state) for state in cold)
        files = sum(len(state.cold) for state in cold if state.cold is not None)
        self._files_total = len(numbers) + files

    def _end(self) -> None:
        """End the round; findings that it did not confirm are of files no longer in use."""
        self._fenced = {key: found for key, found in self._fenced.items() if key in self._bad}
        self._in_round = False
        self._rounds += 1

    def _step(self) -> int:
        """Continue the current item; returns how many bytes were read."""
        if self._current is None:
            if not self._waiting:
                self._end()
                return 0
            item = self._waiting.popleft()
            self._current = item, item()
        item, steps = self._current
        try:
            size = next(steps)
        except StopIteration:
            self._current = None
            return 0
        except (OSError, StrandlineError) as error:
            self._current = None
            if isinstance(error, (OSError, Unavailable)):
                self._waiting.append(item)  # again, when the lake responds or there is space
            raise
        self._bytes += size
        return size

    def _queue_stand_ins(self) -> None:
        for path in set(self._lake.replaced_files) - self._queued_stand_ins:
            self._queued_stand_ins.add(path)
            for number, segment in list(self._library.segments.items()):
                if segment.path == path:
                    self._waiting.appendleft(partial(self._check_segment, number))

    def _check_segment(self, number: int) -> Iterator[int]:
        segment = self._library.segments.get(number)
        if segment is None:
            return
        bad = False
        for step in walk_segment(self._disk, self._library.reopen(segment)):
            if isinstance(step, int):
                yield step
            else:
                bad = True
        self._files += 1
        problems = []
        if bad:
            problems = list(check_segment(self._disk, self._library.reopen(segment)))
        if self._library.segments.get(number) is not segment:
            return
        if problems:
            self._repair_segment(segment, problems[0])
        else:
            self._mark_intact(segment.path)

    def _repair_segment(self, segment: Segment, problem: Corrupt | OSError) -> None:
        """Write the segment's records to new segments, if there are good copies."""
        reason = (
            problem.reason if isinstance(problem, Corrupt) else f"it cannot be read ({problem})"
        )
        repaired: list[tuple[TopicState, SegmentRun, list[RecordRows]]] = []
        lost: list[tuple[TopicState, Corrupt]] = []
        for state in self._catalog.states():
            for run in state.runs:
                if run.segment is not segment:
                    continue
                try:
                    parts = intact_ranges(state, run.first_seq, run.last_seq)
                    rows = [rows_of(part, state.deleted) for part in parts]
                except Corrupt:
                    errors = lost_ranges(state, run.first_seq, run.last_seq)
                    lost += [(state, error) for error in errors]
                else:
                    repaired.append((state, run, rows))
        shared = segment.info.topic_id == codec.SHARED and not lost
        with self._changing:
            current = [(state.id, run, rows) for state, run, rows in repaired if run in state.runs]
            if current:
                self._sealer.replace(current, shared=shared)
        for state, run, _ in repaired:
            self._note_restored(segment.path, reason, state, run.first_seq, run.last_seq)
        for state, error in lost:
            self._fence(segment.path, error.reason, state, error.first_seq, error.last_seq)
        if not lost:
            self._mark_intact(segment.path)

    def _check_head(self) -> Iterator[int]:
        for step in verify.check_head(self._lake.objects, self._store_id):
            if isinstance(step, int):
                yield step
            else:
                self._fence(step.path, step.reason)

    def _check_tables(self) -> Iterator[int]:
        for step in self._tables(self._lake.objects, self._store_id):
            if isinstance(step, int):
                yield step
            else:
                self._fence(step.path, step.reason)

    def _check_versions(self, state: TopicState) -> Iterator[int]:
        objects = self._lake.objects
        problems = []
        for step in verify.check_versions(objects, self._store_id, state.id):
            if isinstance(step, int):
                yield step
            else:
                problems.append(step)
        newest, _ = verify.newest_or_error(objects, self._store_id, state.id)
        restored = False
        if newest is None and not state.dropped:
            try:
                newest = self._lake_writer.write_full(state.id)
                restored = True
            except Corrupt:
                pass
        for problem in problems:
            if restored:
                self._note_restored(problem.path, problem.reason, state)
            else:
                self._fence(problem.path, problem.reason, state)
        if newest is not None:
            self._waiting.appendleft(partial(self._check_file, state, newest, 0))

    def _check_file(self, state: TopicState, manifest: Manifest, place: int) -> Iterator[int]:
        """Check the file at a place of a manifest, then the next one."""
        if place >= len(manifest.files) or state.dropped:
            return
        file = manifest.files[place]
        problem = None
        reader = self._lake.open_file(state.id, file)
        for step in verify.check_file(reader, file):
            if isinstance(step, int):
                yield step
            else:
                problem = step
        if problem is None:
            self._mark_intact(reader.label)
        elif self._lake_writer.load(state.id).find_file(file.name()) is not None:
            self._repair_file(state, file, problem.reason, reader.label)
        self._files += 1
        self._waiting.appendleft(partial(self._check_file, state, manifest, place + 1))

    def _repair_file(self, state: TopicState, file: LakeFile, reason: str, path: str) -> None:
        lost = list(lost_ranges(state, file.first_seq, file.last_seq))
        for error in lost:
            self._fence(path, reason, state, error.first_seq, error.last_seq)
        if not lost:
            try:
                self._relocator.replace_file(state, file)
            except Conflict:  # another writer has replaced it
                return
            except Corrupt as error:  # the new file was read back with other bytes: try next round
                self._fence(path, error.reason, state, file.first_seq, file.last_seq)
                return
            self._mark_intact(path)
            self._note_restored(path, reason, state, file.first_seq, file.last_seq)

    def _mark_intact(self, path: str) -> None:
        self._lake.replaced_files.pop(path, None)
        self._queued_stand_ins.discard(path)
        self._fenced = {key: found for key, found in self._fenced.items() if key[0] != path}

    def _note_restored(
        self,
        path: str,
        reason: str,
        state: TopicState,
        first_seq: int | None = None,
        last_seq: int | None = None,
    ) -> None:
        self._restored.append(
            DamageFinding(
                path=path,
                reason=reason,
                outcome="restored",
                topic=state.name,
                first_seq=first_seq,
                last_seq=last_seq,
            )
        )

    def _fence(
        self,
        path: str,
        reason: str,
        state: TopicState | None = None,
        first_seq: int | None = None,
        last_seq: int | None = None,
    ) -> None:
        self._bad.add((path, first_seq))
        self._fenced[path, first_seq] = DamageFinding(
            path=path,
            reason=reason,
            outcome="fenced",
            topic=None if state is None else state.name,
            first_seq=first_seq,
            last_seq=last_seq,
        )
