"""The scrub job: reads every segment and every lake file again, and mends what another copy allows.

One round after another, at the pace of the settings, remembering nothing on disk. A file is bad
when it is so twice, and is still in use then.

    a bad or missing segment    its records are read from good blocks and from the lake, and written
                                to a new segment in its place
    a bad or missing lake file  the same the other way round: a new file, committed in its place
    a manifest                  a full one is committed, when the newest version is still known here
    no good copy is left        the range is fenced off: reading it raises Corrupt, health is yellow
                                and names it until the file is good again or out of use; everything
                                else goes on

A segment for which the lake had to stand in for a reader is looked at first, in whatever round.
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
from strandline.lake.lake_writer import Intake
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.log.catalog import Catalog
from strandline.log.checkpoint.relocator import Relocator
from strandline.log.checkpoint.sealer import Sealer
from strandline.log.read.intact_blocks import good_parts, losses, rows_of
from strandline.log.repair.verify_segment import check_segment, walk_segment
from strandline.log.segments import codec
from strandline.log.segments.reader import Segment
from strandline.log.segments.rows import Rows
from strandline.log.segments.segment_set import Library
from strandline.log.state.topic_state import Run, TopicState
from strandline.platform.clock import Clock
from strandline.platform.objectstore.protocol import Objects

_BURST_S = 2.0  # of reading that may be caught up with at once
_KEPT_MAX = 100  # findings that are over and still told

_Item = Callable[[], Iterator[int]]
"""Checks one thing: yields how many bytes it has read."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was not as it was written."""

    path: str
    reason: str
    outcome: Literal["restored", "fenced"]
    """Whether another copy made up for it."""
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
    """How far the scrub job is."""

    rounds: int = 0
    """Rounds that are finished."""
    files: int = 0
    files_total: int = 0
    """Of this round, about: files come and go."""
    bytes_read: int = 0
    findings: list[Finding] = []
    """What is fenced off, and what was restored since the store was opened, the newest last."""


class Scrubber:
    """Owned by the scrub job; ``progress`` from any thread."""

    def __init__(  # noqa: PLR0913 - parts of a store, by name
        self,
        clock: Clock,
        catalog: Catalog,
        library: Library,
        sealer: Sealer,
        relocator: Relocator,
        intake: Intake,
        lake: Lake,
        settings: ScrubSettings,
        *,
        store_id: bytes,
        changing: threading.Lock,
        tables: Callable[[Objects, bytes], Iterator[verify.Step]],
    ) -> None:
        """``tables`` reads what event tables have in the lake."""
        self._disk = library.disk
        self._clock = clock
        self._catalog = catalog
        self._library = library
        self._sealer = sealer
        self._relocator = relocator
        self._intake = intake
        self._lake = lake
        self._settings = settings
        self._store_id = store_id
        self._tables = tables
        self._changing = changing
        """Held by whoever writes a root."""
        self._turn = threading.Lock()
        self._waiting: deque[_Item] = deque()
        self._under_way: tuple[_Item, Iterator[int]] | None = None
        self._in_round = False
        self._began_s: float | None = None
        self._budget = 0.0
        self._budget_s = clock.monotonic()
        self._looked: set[str] = set()
        self._rounds = self._files = self._files_total = self._bytes = 0
        self._fenced: dict[tuple[str, int | None], Finding] = {}
        self._met: set[tuple[str, int | None]] = set()
        self._restored: deque[Finding] = deque(maxlen=_KEPT_MAX)

    def run_once(self) -> None:
        """Read as much as the pace allows since the last turn."""
        rate = self._settings.bytes_per_s
        if rate <= 0:
            return
        with self._turn:
            now_s = self._clock.monotonic()
            earned = self._budget + (now_s - self._budget_s) * rate
            self._budget, self._budget_s = min(earned, _BURST_S * rate), now_s
            self._look_at_stand_ins()
            while self._budget > 0:
                if not self._busy and not self._begin_if_due(now_s):
                    return
                self._budget -= self._step()

    def run_all(self) -> ScrubProgress:
        """A whole round at once, whatever the pace."""
        with self._turn:
            self._waiting.clear()
            self._under_way = None
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
        return self._under_way is not None or bool(self._waiting) or self._in_round

    def _begin_if_due(self, now_s: float) -> bool:
        if self._began_s is not None and now_s - self._began_s < self._settings.cycle_s:
            return False
        self._begin(now_s)
        return True

    def _begin(self, now_s: float) -> None:
        self._began_s, self._in_round = now_s, True
        self._files = self._bytes = 0
        self._met.clear()
        numbers = sorted(self._library.segments)
        self._waiting.extend(partial(self._check_segment, number) for number in numbers)
        cold = [state for state in self._catalog.states() if state.cold is not None]
        if cold or self._lake.identity.ref is not None:
            self._waiting += [self._check_head, self._check_tables]
        self._waiting.extend(partial(self._check_versions, state) for state in cold)
        files = sum(len(state.cold) for state in cold if state.cold is not None)
        self._files_total = len(numbers) + files

    def _end(self) -> None:
        """What was fenced off and not met again is no longer in use."""
        self._fenced = {key: found for key, found in self._fenced.items() if key in self._met}
        self._in_round = False
        self._rounds += 1

    def _step(self) -> int:
        """Go on with what is under way; how many bytes were read."""
        if self._under_way is None:
            if not self._waiting:
                self._end()
                return 0
            item = self._waiting.popleft()
            self._under_way = item, item()
        item, walk = self._under_way
        try:
            size = next(walk)
        except StopIteration:
            self._under_way = None
            return 0
        except (OSError, StrandlineError) as error:
            self._under_way = None
            if isinstance(error, (OSError, Unavailable)):
                self._waiting.append(item)  # again, when there is an answer, or room
            raise
        self._bytes += size
        return size

    def _look_at_stand_ins(self) -> None:
        for path in set(self._lake.stand_ins) - self._looked:
            self._looked.add(path)
            for number, segment in list(self._library.segments.items()):
                if segment.path == path:
                    self._waiting.appendleft(partial(self._check_segment, number))

    def _check_segment(self, number: int) -> Iterator[int]:
        segment = self._library.segments.get(number)
        if segment is None:
            return
        bad = False
        for step in walk_segment(self._disk, self._library.afresh(segment)):
            if isinstance(step, int):
                yield step
            else:
                bad = True
        self._files += 1
        problems = []
        if bad:
            problems = list(check_segment(self._disk, self._library.afresh(segment)))
        if self._library.segments.get(number) is not segment:
            return
        if problems:
            self._mend_segment(segment, problems[0])
        else:
            self._is_well(segment.path)

    def _mend_segment(self, segment: Segment, problem: Corrupt | OSError) -> None:
        """Write what the segment held to new ones, as far as there are good copies."""
        reason = (
            problem.reason if isinstance(problem, Corrupt) else f"it cannot be read ({problem})"
        )
        mended: list[tuple[TopicState, Run, list[Rows]]] = []
        lost: list[tuple[TopicState, Corrupt]] = []
        for state in self._catalog.states():
            for run in state.runs:
                if run.segment is not segment:
                    continue
                try:
                    parts = good_parts(state, run.first_seq, run.last_seq)
                    rows = [rows_of(part, state.deleted) for part in parts]
                except Corrupt:
                    found = losses(state, run.first_seq, run.last_seq)
                    lost += [(state, error) for error in found]
                else:
                    mended.append((state, run, rows))
        shared = segment.info.topic_id == codec.SHARED and not lost
        with self._changing:
            still = [(state.id, run, rows) for state, run, rows in mended if run in state.runs]
            if still:
                self._sealer.replace(still, shared=shared)
        for state, run, _ in mended:
            self._tell_restored(segment.path, reason, state, run.first_seq, run.last_seq)
        for state, error in lost:
            self._fence(segment.path, error.reason, state, error.first_seq, error.last_seq)
        if not lost:
            self._is_well(segment.path)

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
        newest, _ = verify.newest_of(objects, self._store_id, state.id)
        restored = False
        if newest is None and not state.dropped:
            try:
                newest = self._intake.write_full(state.id)
                restored = True
            except Corrupt:
                pass
        for problem in problems:
            if restored:
                self._tell_restored(problem.path, problem.reason, state)
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
            self._is_well(reader.label)
        elif self._intake.load(state.id).named(file.name()) is not None:
            self._mend_file(state, file, problem.reason, reader.label)
        self._files += 1
        self._waiting.appendleft(partial(self._check_file, state, manifest, place + 1))

    def _mend_file(self, state: TopicState, file: LakeFile, reason: str, path: str) -> None:
        lost = list(losses(state, file.first_seq, file.last_seq))
        for error in lost:
            self._fence(path, reason, state, error.first_seq, error.last_seq)
        if not lost:
            try:
                self._relocator.replace_file(state, file)
            except Conflict:  # somebody else has replaced it
                return
            except Corrupt as error:  # the new file read back as other bytes: the next round again
                self._fence(path, error.reason, state, file.first_seq, file.last_seq)
                return
            self._is_well(path)
            self._tell_restored(path, reason, state, file.first_seq, file.last_seq)

    def _is_well(self, path: str) -> None:
        self._lake.stand_ins.pop(path, None)
        self._looked.discard(path)
        self._fenced = {key: found for key, found in self._fenced.items() if key[0] != path}

    def _tell_restored(
        self,
        path: str,
        reason: str,
        state: TopicState,
        first_seq: int | None = None,
        last_seq: int | None = None,
    ) -> None:
        self._restored.append(
            Finding(
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
        self._met.add((path, first_seq))
        self._fenced[path, first_seq] = Finding(
            path=path,
            reason=reason,
            outcome="fenced",
            topic=None if state is None else state.name,
            first_seq=first_seq,
            last_seq=last_seq,
        )
