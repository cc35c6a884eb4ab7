"""The content of a store as data: identity, checkpoints, log files, segments, topics, frames.

Nothing is changed and no lock is needed, so this works beside a writer. Damage is reported, not
raised, if the rest can be read.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterator

import msgspec

from strandline.config.settings import Settings, TopicConfig
from strandline.errors import Corrupt, Invalid, UnsupportedFormat
from strandline.lake.cold_index import ColdSummary
from strandline.log.files import checkpoint_codec as checkpoint_file
from strandline.log.files import store_identity, system_file
from strandline.log.files.checkpoint_codec import GapEntry
from strandline.log.files.layout import Layout
from strandline.log.recovery.recover import StoreState, recover
from strandline.log.segments.codec import SHARED
from strandline.log.segments.reader import SegmentInfo
from strandline.log.state.topic_state import TopicState
from strandline.log.wal import block, codec, control_messages
from strandline.log.wal.codec import FILE_HEADER_SIZE
from strandline.log.wal.log_files import LOCATION_LSN, first_lsn_of
from strandline.log.wal.recovery import Frame, LogDamage, ShardLog, SingleFrame
from strandline.platform.disk import Disk

_COLUMNS = {
    block.KEY: "key",
    block.TAG: "tag",
    block.NODE: "node",
    block.META: "meta",
    block.TS: "ts",
    block.IDEMPOTENCY: "idempotency",
}


class CheckpointSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint file. ``problem`` is empty when it is intact."""

    path: str
    number: int
    size: int
    problem: str = ""
    term: int = 0
    topics: int = 0
    segments: int = 0
    replay_lsns: dict[int, int] = {}
    durable_lsns: dict[int, int] = {}


class WalFileSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One WAL file: its lsns, and how it ends."""

    path: str
    first_lsn: int
    end_lsn: int
    term: int
    size: int
    used_bytes: int
    created_us: int
    frames: int
    state: str
    """``full`` (another file follows), ``closed`` (the writer stopped cleanly), ``open`` (it did
    not, or is still running) or ``damaged``."""


class ShardSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The WAL of one shard."""

    shard: int
    end_lsn: int
    durable_upto: int
    files: list[WalFileSummary]
    damage: list[LogDamage]


class SegmentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One segment that the newest checkpoint lists."""

    path: str
    topic: str
    """Empty for a shared segment."""
    info: SegmentInfo


class TopicSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One topic: floors, counts, and where its records are."""

    id: int
    name: str
    epoch: int
    head_seq: int
    earliest_seq: int
    evict_floor: int
    delete_floor: int
    count: int
    payload_bytes: int
    ceiling: int
    last_ts: int
    gaps: list[GapEntry]
    runs: int
    """Runs of blocks in segments."""
    tail_frames: int
    """Frames in the WAL that are not in segments yet."""
    cold: ColdSummary | None
    """The part of the topic in the lake, None when there is none."""
    config: TopicConfig


class StoreSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Everything in a store except its records."""

    path: str
    store_id: str
    format: int
    created_us: int
    wal_shards: int
    """Of the last opening for writing; 0 when SYSTEM does not have it."""
    term: int
    clean: bool
    """Whether the last writer stopped cleanly."""
    checkpoints: list[CheckpointSummary]
    shards: list[ShardSummary]
    segments: list[SegmentSummary]
    topics: list[TopicSummary]
    complaints: list[str]


class BlockSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One block of a batch, or the record of a single."""

    topic_id: int
    first_seq: int
    count: int
    payload_bytes: int
    ts: int
    columns: list[str] = []
    message: control_messages.Message | None = None
    """The message of a control block."""


class FrameSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One commit in a WAL file."""

    offset: int
    lsn: int
    size: int
    kind: str
    term: int
    ts: int
    durable_upto: int
    mask: int
    blocks: list[BlockSummary]


def inspect_store(disk: Disk, path: str, settings: Settings | None = None) -> StoreSummary:
    """A summary of the store, as of now."""
    layout = Layout(path)
    settings = settings or Settings()
    complaints = []
    try:
        system = system_file.describe(disk, path)
        store_id = bytes.fromhex(system.store_id)
        store_identity.check(disk, layout, store_id)
    except Corrupt as error:
        complaints.append(str(error))
        store_id = store_identity.id_from_other_files(disk, layout)
        system = system_file.System(format=0, store_id=store_id.hex(), created_us=0)
    store = recover(disk, layout, store_id, settings, tolerate=True)
    try:
        return StoreSummary(
            path=path,
            store_id=store_id.hex(),
            format=system.format,
            created_us=system.created_us,
            wal_shards=system.shards,
            term=store.term,
            clean=store.clean,
            checkpoints=_checkpoints(disk, layout, store_id),
            shards=[_shard(disk, layout, store, shard) for shard in sorted(store.logs)],
            segments=_segments(layout, store),
            topics=[_topic(state) for state in store.catalog.states()],
            complaints=complaints + store.complaints,
        )
    finally:
        store.close()


def wal_frames(
    disk: Disk, path: str, store_id: bytes | None = None
) -> Iterator[FrameSummary | LogDamage]:
    """Every frame of one WAL file, and the damaged places between them.

    ``store_id`` is needed only if the header of the file is damaged.
    """
    directory, name = os.path.split(path)
    if first_lsn_of(name) is None:
        raise Invalid(f"{path} is not named like a WAL file (wal-<lsn>.log)")
    content = memoryview(disk.read(path))
    header = codec.decode_file_header(bytes(content[:FILE_HEADER_SIZE]))
    if isinstance(header, int):
        raise UnsupportedFormat(f"{path} has WAL format {header}: upgrade to read it")
    if header is None and store_id is None:
        raise Corrupt("the header of a WAL file is damaged", path=path)
    shard = header.shard if header is not None else _shard_of(directory)
    known = store_id or (header.store_id if header is not None else b"")
    log = ShardLog(disk, directory, shard, known, tolerate=True, names=[name])
    try:
        reported = 0
        for place, file_header in enumerate(log.headers):
            base = file_header.first_lsn - FILE_HEADER_SIZE
            for frame in log.scan(place, file_header.first_lsn):
                yield from log.damage[reported:]
                reported = len(log.damage)
                if not reported or frame.location & LOCATION_LSN >= log.damage[-1].end_lsn:
                    yield _frame(content, frame, base)  # others were salvaged from damaged places
        yield from log.damage[reported:]
    finally:
        log.files.close()


def _checkpoints(disk: Disk, layout: Layout, store_id: bytes) -> list[CheckpointSummary]:
    summaries = []
    for number in checkpoint_file.numbers_in(disk, layout.meta):
        path = checkpoint_file.path_of(layout.meta, number)
        content = disk.read(path)
        try:
            root = checkpoint_file.decode(content, path)
            checkpoint_file.check_identity(root, number, store_id, path)
        except Corrupt as error:
            summaries.append(
                CheckpointSummary(path=path, number=number, size=len(content), problem=error.reason)
            )
            continue
        summaries.append(
            CheckpointSummary(
                path=path,
                number=number,
                size=len(content),
                term=root.term,
                topics=len(root.topics),
                segments=len(root.segments),
                replay_lsns={entry.shard: entry.replay_lsn for entry in root.shards},
                durable_lsns={entry.shard: entry.durable_lsn for entry in root.shards},
            )
        )
    return summaries


def _shard(disk: Disk, layout: Layout, store: StoreState, shard: int) -> ShardSummary:
    """The files of a shard, read from their first frame on."""
    log = ShardLog(disk, layout.shard(shard), shard, store.store_id, tolerate=True)
    log.durable_upto = store.durable.get(shard, 0)
    files = []
    try:
        place = 0
        while place < len(log.headers):
            files.append(_wal_file(log, place))
            place += 1
    finally:
        log.files.close()
    return ShardSummary(
        shard=shard,
        end_lsn=max(log.end_lsn, store.logs[shard].end_lsn),
        durable_upto=log.durable_upto,
        files=files,
        damage=log.damage,
    )


def _wal_file(log: ShardLog, place: int) -> WalFileSummary:
    entry, header = log.files.entries[place], log.headers[place]
    frames = 0
    last: Frame | None = None
    for frame in log.scan(place, entry.first_lsn):
        last = frame
        frames += 1
    if any(damage.path == entry.path for damage in log.damage):
        state = "damaged"
    elif log.files.end_of(place) is not None:
        state = "full"
    else:
        state = "closed" if last is not None and _is_clean_close(last) else "open"
    return WalFileSummary(
        path=entry.path,
        first_lsn=entry.first_lsn,
        end_lsn=log.end_lsn,
        term=entry.term,
        size=entry.size,
        used_bytes=FILE_HEADER_SIZE + log.end_lsn - entry.first_lsn,
        created_us=header.created_us,
        frames=frames,
        state=state,
    )


def _is_clean_close(frame: Frame) -> bool:
    if isinstance(frame, SingleFrame):
        return False
    last = block.Block(frame.blocks[-1][1])
    return last.kind == block.CONTROL and isinstance(
        control_messages.decode(last.control_payload()), control_messages.ClosedCleanly
    )


def _segments(layout: Layout, store: StoreState) -> list[SegmentSummary]:
    summaries = []
    for info in store.root.segments:
        state = store.catalog.by_id(info.topic_id)
        name = state.name if state is not None else f"topic {info.topic_id} (deleted)"
        summaries.append(
            SegmentSummary(
                path=f"{layout.segments}/{info.name()}",
                topic="" if info.topic_id == SHARED else name,
                info=info,
            )
        )
    return summaries


def _topic(state: TopicState) -> TopicSummary:
    return TopicSummary(
        id=state.id,
        name=state.name,
        epoch=state.epoch,
        head_seq=state.head_seq,
        earliest_seq=state.earliest_seq,
        evict_floor=state.evict_floor,
        delete_floor=state.delete_floor,
        count=state.live_count,
        payload_bytes=state.live_payload,
        ceiling=state.ceiling,
        last_ts=state.last_ts,
        gaps=[GapEntry(gap.first_seq, gap.last_seq, gap.reason) for gap in state.gaps],
        runs=len(state.runs),
        tail_frames=len(state.tail.locations),
        cold=None if state.cold is None else state.cold.summary(),
        config=state.config,
    )


def _shard_of(directory: str) -> int:
    digits = os.path.basename(directory).removeprefix("shard-")
    return int(digits) if digits.isdigit() else 0


def _frame(content: memoryview, frame: Frame, base: int) -> FrameSummary:
    lsn = frame.location & LOCATION_LSN
    offset = lsn - base
    size, _, _, mask, _, term, _, durable, ts, *_ = codec.HEADER.unpack_from(content, offset)
    if isinstance(frame, SingleFrame):
        fields, data = codec.split_single(frame.sizes, frame.body)
        payload = len(data) + sum(len(field) for field in fields if field is not None)
        blocks = [
            BlockSummary(
                topic_id=frame.topic_id, first_seq=frame.seq, count=1, payload_bytes=payload, ts=ts
            )
        ]
    else:
        blocks = [_block(block.Block(view)) for _, view in frame.blocks]
    return FrameSummary(
        offset=offset,
        lsn=lsn,
        size=size,
        kind="single" if isinstance(frame, SingleFrame) else "batch",
        term=term,
        ts=ts,
        durable_upto=durable,
        mask=mask,
        blocks=blocks,
    )


def _block(source: block.Block) -> BlockSummary:
    is_control = source.kind == block.CONTROL
    return BlockSummary(
        topic_id=source.topic_id,
        first_seq=source.first_seq,
        count=source.count,
        payload_bytes=source.payload_size,
        ts=source.ts,
        columns=[name for column, name in _COLUMNS.items() if source.columns & column],
        message=control_messages.decode(source.control_payload()) if is_control else None,
    )
