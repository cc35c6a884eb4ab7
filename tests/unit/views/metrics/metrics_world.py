"""A metrics view in a simulated store, with small blocks, and a fold without one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from strandline.config.memory_budget import MemoryShare
from strandline.config.view_config import MetricsConfig
from strandline.reservoir.reservoir import Reservoir
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_objects import SimObjects
from strandline.views.metrics.fold import MetricsFold
from strandline.views.metrics.metrics import Metrics
from strandline.views.metrics.storage.tail import Tail
from strandline.views.open_view import ViewKind
from strandline.views.view import FoldColumns, FoldContext, ViewAppend
from strandline.views.view_runner import ViewRunner

NAME = "telemetry"
SECOND = 1_000_000_000
METRICS = ViewKind(
    "metrics", MetricsConfig, "series", ("",), MetricsFold, lambda host, *_: Metrics(host)
)
SPACE = 16


def open_metrics(store: Store, *, tail: int = 64, block_points: int = 16, **options) -> Metrics:
    """A view whose tail is full, and whose blocks are, after a few points."""
    found = store._views.open(METRICS, NAME, {"block_points": block_points, **options})
    assert isinstance(found, Metrics)
    shorten(host_of(store).fold, tail)
    return found


def host_of(store: Store) -> ViewRunner[MetricsFold]:
    return store._views.registry.host("metrics", store.topic(NAME))


def rebuild(store: Store, *, tail: int = 64) -> None:
    store._views.rebuild(METRICS, NAME)
    shorten(host_of(store).fold, tail)


def digest(store: Store) -> str:
    return host_of(store).digest()


def shorten(fold: MetricsFold, size: int) -> None:
    """A tail that is full sooner."""
    fold._tail.size = max(size, fold._tail.count)


class FoldWorld:
    """A fold by itself, whose records are given by the test."""

    def __init__(self, *, tail: int = 64, block_points: int = 16, ram_bytes: int = 1 << 24) -> None:
        self.objects = SimObjects()
        self.reservoir = Reservoir(self.objects, start_jobs=False)
        self.session = self.reservoir.session()
        self.share = MemoryShare(1 << 30)
        self.world = FoldContext(SimClock(), self.share, lambda source, seqs: [], None, ram_bytes)
        self.config = MetricsConfig(block_points=block_points)
        self.tail = tail
        self.rows: list[tuple[int, bytes | None, bytes]] = []
        self.fold = self.loaded(b"")

    def loaded(self, state: bytes) -> MetricsFold:
        fold = MetricsFold(self.config, self.world)
        fold.load(self.session, SPACE, state)
        assert isinstance(fold._tail, Tail)
        shorten(fold, self.tail)
        return fold

    def apply(self, draft: ViewAppend) -> list[int]:
        """Fold records in, as the next ones of the log; their seqs."""
        metas = [None] * len(draft.data) if draft.metas is None else draft.metas
        first = len(self.rows) + 1
        self.rows += zip(range(first, first + len(draft.data)), metas, draft.data, strict=True)
        self.fold.apply(0, rows_of(self.rows[first - 1 :]))
        return [seq for seq, _, _ in self.rows[first - 1 :]]

    def lines(self, *lines: str) -> list[int]:
        """A plain record of line protocol."""
        return self.apply(ViewAppend(0, ["\n".join(lines).encode()]))

    def saved(self) -> bytes:
        state = self.fold.save(self.session)
        self.session.commit()
        return state

    def replayed(self, without: Iterable[int] = ()) -> MetricsFold:
        """Another fold of the same records, but for some that have left the log."""
        gone = set(without)
        reservoir = Reservoir(SimObjects(), start_jobs=False)
        fold = MetricsFold(self.config, self.world)
        fold.load(reservoir.session(), SPACE, b"")
        fold.apply(0, rows_of([row for row in self.rows if row[0] not in gone]))
        return fold


def rows_of(rows: Sequence[tuple[int, bytes | None, bytes]]) -> FoldColumns:
    nothing = [None] * len(rows)
    return FoldColumns(
        [seq for seq, _, _ in rows],
        [0] * len(rows),
        nothing,
        nothing,
        [meta for _, meta, _ in rows],
        [data for _, _, data in rows],
    )
