"""The fold of a metrics view: records in, points by series and time out.

    record ─▶ batches ─▶ tail ─▶ run ─▶ merged run         points
                 └─▶ catalogue                             names, kinds, series
                 └─▶ log references                        which records are still needed
    rule, floor, progress ─▶ progress of rules, floors

    space + 0    pages of blocks (views/metrics/storage/block_pages.py)
    space + 1    the index of blocks (views/metrics/storage/block_index.py)
    space + 2    metadata (views/metrics/storage/metadata.py)

Points become a run when the tail is full, before a save, and when memory is short. None of that
changes the result of a query: the digest is of points, names, rules and floors.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import msgspec
import numpy as np

from strandline.config.memory_budget import MemoryShare
from strandline.config.view_config import MetricsConfig
from strandline.reservoir.btree.btree_map import PagedMap
from strandline.reservoir.session import Session
from strandline.views.metrics.ingest.batch import PointRow, PointTable, with_rows
from strandline.views.metrics.ingest.record_codec import FloorRecord, WrittenPoints, decode_record
from strandline.views.metrics.rule_progress import RuleProgress
from strandline.views.metrics.rules import Progress, RuleState
from strandline.views.metrics.storage.block_index import BlockIndex
from strandline.views.metrics.storage.block_pages import BlockPages
from strandline.views.metrics.storage.catalog import Measurement, MetricsCatalog
from strandline.views.metrics.storage.digest import digest_of, parts_of
from strandline.views.metrics.storage.log_references import LogReferences
from strandline.views.metrics.storage.merge_runs import Merge, RunMerger
from strandline.views.metrics.storage.metadata import Metadata
from strandline.views.metrics.storage.point_reader import PointReader
from strandline.views.metrics.storage.runs import PointRun, PointRuns, by_field
from strandline.views.metrics.storage.tail import FIELD_SHIFT, Tail
from strandline.views.metrics.value_types import INT64_MIN, Ints, ValueKind
from strandline.views.view import FoldColumns, FoldContext, VisibleItem

TAIL_POINTS_MAX = 1 << 16
TAIL_POINTS_MIN = 1 << 10
MAP_PAGE_BYTES = 8 * 1024
"""Small, because a save changes few bytes in many places."""
MERGE_FACTOR = 4
"""Points that are merged for each new point: more than the sizes of runs require."""
MERGE_POINTS_MIN = 1 << 16

_TAIL_POINT_BYTES = 24
_SERIES_BYTES = 400
"""Estimated memory of a new series, until it is measured."""


class MetricsCounts(msgspec.Struct):
    """Counts of skipped input. Not part of the digest: a replay may not read the same records."""

    ignored: int = 0
    """Records that have no content for this view."""
    other_kind: int = 0
    """Points of plain records whose field has another kind."""
    below_floor: int = 0
    """Points that arrived when their time was already below the floor."""


class _State(msgspec.Struct):
    next_page: int = 1
    next_run: int = 1
    order: list[int] = []
    merge: Merge | None = None
    standings: list[RuleState] = []
    counts: MetricsCounts = msgspec.field(default_factory=MetricsCounts)


class _Meter:
    """Charges the memory of a fold to its share, until the fold is garbage-collected."""

    def __init__(self, share: MemoryShare) -> None:
        self._share = share
        self._charged = 0

    def set(self, size: int) -> None:
        if size > self._charged:
            self._share.charge(size - self._charged)
        elif size < self._charged:
            self._share.release(self._charged - size)
        self._charged = size


class MetricsFold:
    """Measurements, folded from records. Owned by the thread that holds the lock of its host."""

    def __init__(self, config: MetricsConfig, world: FoldContext) -> None:
        self.catalogue = MetricsCatalog()
        self.standings = RuleProgress()
        self.counts = MetricsCounts()
        self._config = config
        self._world = world
        self._meter = _Meter(world.share)
        weakref.finalize(self, self._meter.set, 0).atexit = False
        size = min(TAIL_POINTS_MAX, max(TAIL_POINTS_MIN, world.ram_bytes // 4 // _TAIL_POINT_BYTES))
        self._tail = Tail(size)
        self._loaded = False

    def load(self, session: Session, space: int, state: bytes) -> None:
        """Start from the saved state, or empty if the state is empty."""
        saved = msgspec.msgpack.decode(state, type=_State) if state else _State()
        ram, spill = self._world.ram_bytes, self._world.spill
        self._pages = BlockPages(
            session, space, next_number=saved.next_page, spill=spill, ram_bytes=ram // 2
        )
        maps = [
            PagedMap(session, space=n, page_bytes=MAP_PAGE_BYTES, ram_bytes=ram // 4, spill=spill)
            for n in (space + 1, space + 2)
        ]
        self._index, self._facts = BlockIndex(maps[0]), Metadata(maps[1])
        self._runs = PointRuns(
            self._index,
            self._pages,
            next_number=saved.next_run,
            block_points=self._config.block_points,
        )
        self._merging = RunMerger(self._runs, self._kind_of, self._floor_of)
        self.reader = PointReader(self._runs, self._tail)
        self.log_references = LogReferences(self._facts)
        self.counts = saved.counts
        self.catalogue.load(self._facts)
        by_number = {run.number: run for _, run in self._facts.all("u", kind=PointRun)}
        self._runs.runs = [by_number[number] for number in saved.order]
        self._runs_saved = set(saved.order)
        self._merging.resume(saved.merge)
        floors = {each.name: each.floor for each in self.catalogue.measurements}
        self.standings.load(saved.standings, floors)
        self._loaded = True
        self._measure()

    def save(self, session: Session) -> bytes:
        """Write to the session what has changed since the last save."""
        self.flush()
        self.catalogue.save(self._facts)
        self.log_references.save()
        self._save_runs()
        self._pages.save()
        self._index.map.save()
        self._facts.map.save()
        self._measure()
        state = _State(
            next_page=self._pages.next_number,
            next_run=self._runs.next_number,
            order=[run.number for run in self._runs.runs],
            merge=self._merging.current,
            standings=self.standings.dump(),
            counts=self.counts,
        )
        return msgspec.msgpack.encode(state)

    def apply(self, source: int, rows: FoldColumns) -> None:
        """Apply records to the state."""
        assert source == 0, "a metrics view has one topic"
        for seq, ts, meta, data in zip(rows.seqs, rows.stamps, rows.metas, rows.data, strict=True):
            content = decode_record(meta, data, ts)
            if isinstance(content, PointRow):
                self._add_row(content, seq)
            elif isinstance(content, WrittenPoints):
                self._add_tables(content.tables, seq)
                if content.progress is not None:
                    self._advance(content.progress, seq)
                elif not content.tables:
                    self.counts.ignored += 1
            elif isinstance(content, FloorRecord):
                self._raise_floor(content, seq)
            elif content is None:
                self.counts.ignored += 1
            else:
                for replaced in self.standings.put(content, seq):
                    self.log_references.mark_replaced(replaced)
        self._meter.set(self._ram())

    def digest(self) -> bytes:
        """A checksum of all points, names, rules and floors."""
        return digest_of(self.catalogue, self.standings, self.reader)

    def visible_items(
        self, first: bytes | None = None, next: bytes | None = None
    ) -> Iterator[VisibleItem]:
        """Columns of points, names, rules and floors."""
        parts = parts_of(self.catalogue, self.standings, self.reader)
        for name in sorted(parts):
            if (first is None or name >= first) and (next is None or name < next):
                yield VisibleItem(name, parts[name])

    def flush(self) -> None:
        """Sort the tail into a run, and do some merge work."""
        if self._tail.count:
            count = self._flush_tail()
            self._merging.work(max(MERGE_POINTS_MIN, MERGE_FACTOR * count))
        self._measure()

    def _flush_tail(self) -> int:
        """Sort the tail into a run and clear it, after the run is complete; return its points."""
        columns, at, bits = self._tail.all()
        live = at >= self.catalogue.floors()[columns >> FIELD_SHIFT]
        if not live.all():
            columns, at, bits = columns[live], at[live], bits[live]
        if len(at):
            self._write_run(columns, at, bits)
        self._tail.clear()
        return len(at)

    def _write_run(self, columns: Ints, at: Ints, bits: Ints) -> None:
        run = self._runs.new_run()
        for number, points in by_field(columns, at, bits):
            field = self.catalogue.fields[number]
            self._runs.write(run, number, field.kind, points)
            ends = np.flatnonzero(np.append(points.series[1:] != points.series[:-1], True))
            table = self.catalogue.measurements[field.measurement].series
            table.record_last_points(points.series[ends], points.at[ends])
        self._runs.runs.append(run)

    def evict(self, size: int) -> int:
        """Free memory if possible; return how many bytes. A failure must not lose points: the
        caller cannot report that the fold has to be replaced."""
        if not self._loaded:
            return 0  # the pages could not be read: the fold is about to be replaced
        before = self._ram()
        if self._tail.count:
            self._flush_tail()
        self._pages.shrink(max(0, self._pages.ram - size))
        self._measure()
        return max(0, before - self._ram())

    def live_series(self, measurement: Measurement) -> Ints:
        """The series that have a point at or above the floor."""
        numbers = measurement.series.numbers()
        if measurement.floor == INT64_MIN:
            return numbers
        live = measurement.series.last_at(numbers) >= measurement.floor
        for field in measurement.fields.values():
            tail = self._tail.points(field.number)
            newest = np.unique(tail.series[tail.at >= measurement.floor])
            live[numbers.searchsorted(newest)] = True
        return numbers[live]

    def required_records(self) -> set[int]:
        """Seqs of records that must stay in the log, even when all their points are gone."""
        return {field.defined_by for field in self.catalogue.fields} | self.standings.seqs()

    def statistics(self) -> dict[str, int]:
        """Numbers of points, runs and blocks, and the memory in use."""
        runs = self._runs.runs
        return {
            "tail_points": self._tail.count,
            "runs": len(runs),
            "run_points": sum(run.points for run in runs),
            "blocks": sum(span.blocks for run in runs for span in run.spans.values()),
            "ram_bytes": self._ram(),
        }

    def _add_tables(self, tables: list[PointTable], seq: int) -> None:
        """Add points to the tail, in the order in which they were written."""
        ordered: list[tuple[Ints, Ints, Ints, Ints]] = []
        for table in tables:
            for columns, at, bits, order in self._columns(table, seq):
                if order is None:
                    self._add(columns, at, bits)
                else:
                    ordered.append((columns, at, bits, order))
        if ordered:
            columns, at, bits, order = map(np.concatenate, zip(*ordered, strict=True))
            positions = np.argsort(order, kind="stable")
            self._add(columns[positions], at[positions], bits[positions])

    def _add_row(self, row: PointRow, seq: int) -> None:
        """Add the points of one row to the tail, without building columns."""
        at, catalogue = row.at, self.catalogue
        measurement = catalogue.measurement(row.measurement)
        self.log_references.add(seq, measurement.number, at)
        fields = [catalogue.field(measurement, name, kind, seq) for name, kind in row.fields]
        if at < measurement.floor:
            self.counts.below_floor += len(fields)
            return
        if None in fields:
            self.counts.other_kind += fields.count(None)
            if not any(fields):
                return
        self.standings.mark_stale(measurement.name, at, at)
        series = catalogue.number_of(measurement, row.series)
        for field, bits in zip(fields, row.bits, strict=True):
            if field is not None:
                if not self._tail.room:
                    self.flush()
                self._tail.add_one(field.number << FIELD_SHIFT | series, at, bits)

    def _columns(
        self, table: PointTable, seq: int
    ) -> Iterator[tuple[Ints, Ints, Ints, Ints | None]]:
        """The points of a batch to add, field by field: columns, times, bits, order."""
        measurement = self.catalogue.measurement(table.measurement)
        fields = [self.catalogue.field(measurement, name, kind, seq) for name, kind in table.fields]
        self.log_references.add(seq, measurement.number, int(table.at.max()))
        at, order = table.at, table.order
        if int(at.min()) < measurement.floor:
            live = at >= measurement.floor
            self.counts.below_floor += (len(at) - int(live.sum())) * len(fields)
            table = with_rows(table, np.flatnonzero(live))
            at, order = table.at, table.order
            if not len(at):
                return
        self.counts.other_kind += fields.count(None) * len(at)
        if not any(fields):
            return
        self.standings.mark_stale(measurement.name, at, int(at.min()))
        numbers = self.catalogue.numbers_of(measurement, table.series)
        rows = numbers if table.rows is None else numbers[table.rows]
        for field, bits in zip(fields, table.columns, strict=True):
            if field is None:
                continue
            columns = rows + (field.number << FIELD_SHIFT)
            yield np.broadcast_to(columns, len(at)), at, bits, order

    def _add(self, columns: Ints, at: Ints, bits: Ints) -> None:
        first = 0
        while first < len(at):
            if not self._tail.room:
                self.flush()
            after = first + self._tail.room
            self._tail.add(columns[first:after], at[first:after], bits[first:after])
            first = after

    def _advance(self, progress: Progress, seq: int) -> None:
        """Record the progress of a rule whose result the points are."""
        target = self.catalogue.measurement(progress.into)
        self.log_references.add(
            seq, target.number, max(progress.redone, default=progress.until - 1)
        )
        self.standings.advance(progress, seq)

    def _raise_floor(self, record: FloorRecord, seq: int) -> None:
        measurement = self.catalogue.measurement(record.measurement)
        if record.floor <= measurement.floor:
            self.log_references.mark_replaced(seq)
            return
        before = self.catalogue.raise_floor(measurement, record.floor, seq)
        if before:
            self.log_references.mark_replaced(before)
        for field in measurement.fields.values():
            self._runs.drop_below(field.number, record.floor)
        self._runs.prune(keep=self._merging.inputs())
        live = self.live_series(measurement)
        numbers = measurement.series.numbers()
        self.catalogue.forget(measurement, np.setdiff1d(numbers, live, assume_unique=True))
        self.standings.drop_stale_below(measurement.name, record.floor)

    def _save_runs(self) -> None:
        runs = {run.number: run for run in self._runs.runs}
        for number in self._runs_saved - runs.keys():
            self._facts.delete("u", number)
        for number, run in runs.items():
            encoded = msgspec.msgpack.encode(run)
            if self._facts.raw("u", number) != encoded:
                self._facts.put("u", number, fact=run)
        self._runs_saved = set(runs)

    def _kind_of(self, field: int) -> ValueKind:
        return self.catalogue.fields[field].kind

    def _floor_of(self, field: int) -> int:
        return self.catalogue.measurements[self.catalogue.fields[field].measurement].floor

    def _measure(self) -> None:
        """Measure all memory, including the parts that are slow to measure."""
        maps = self._index.map.statistics().ram_bytes + self._facts.map.statistics().ram_bytes
        self._ram_measured = maps + self.catalogue.ram
        self._series_measured = self.catalogue.series_count
        self._meter.set(self._ram())

    def _ram(self) -> int:
        grown = self.catalogue.series_count - self._series_measured
        return self._ram_measured + grown * _SERIES_BYTES + self._tail.ram + self._pages.ram
