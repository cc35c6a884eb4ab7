"""``strandline inspect``: what is in a store, or in one file of its log.

A table shows the facts first and long lists cut short; JSON has everything.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence

from strandline.cli.open_store import look_again
from strandline.cli.options import TARGET, Target
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Made, Row, row_of
from strandline.cli.output.output import output, print_report
from strandline.errors import Corrupt, Invalid, NotAStore
from strandline.lake.cold_index import ColdSummary
from strandline.log.files import system_file
from strandline.log.repair.inspect import (
    BlockSummary,
    CheckpointSummary,
    FrameSummary,
    SegmentSummary,
    StoreSummary,
    TopicSummary,
    WalFileSummary,
    inspect_store,
    wal_frames,
)
from strandline.log.wal.recovery import Damage
from strandline.platform.disk import OsDisk

_FRAMES_AT_ONCE = 1000


def inspect(*, wal: str | None = None, target: Target = TARGET) -> None:
    """Show checkpoints, log files, segments and topics of a store.

    Works beside a process that writes.

    Parameters
    ----------
    wal
        List the frames of this WAL file instead.
    """
    if wal is not None:
        _inspect_wal(wal, target)
        return
    path = os.path.abspath(target.store)
    found = look_again(lambda: inspect_store(OsDisk(), path))
    lists: dict[str, Sequence[Row]] = {
        "checkpoints": [_checkpoint_row(each) for each in found.checkpoints],
        "log files": [
            _wal_row(file, shard.shard) for shard in found.shards for file in shard.files
        ],
        "segments": [_segment_row(each) for each in found.segments],
        "topics": [_topic_row(each) for each in found.topics],
        "complaints": [
            Made({}, {"complaint": formatting.plain(each)}) for each in found.complaints
        ],
    }
    print_report(target.output, row_of(found, _summary(found)), lists)


def _inspect_wal(path: str, target: Target) -> None:
    """The frames of one file, and the damaged places between them."""
    if not os.path.isfile(path):
        raise Invalid(f"{path} is not a file: `strandline inspect` lists the log files of a store")
    path = os.path.abspath(path)
    store_id = None
    try:
        store_id = system_file.read(
            OsDisk(), os.path.dirname(os.path.dirname(os.path.dirname(path)))
        )
    except (NotAStore, Corrupt):
        pass  # the file has been taken out of its store, and its own header must do
    out = output(target.output)
    found: Iterable[FrameSummary | Damage] = wal_frames(OsDisk(), path, store_id)
    for damaged, group in itertools.groupby(found, lambda each: isinstance(each, Damage)):
        while some := list(itertools.islice(group, _FRAMES_AT_ONCE)):
            if damaged:
                for each in some:
                    out.notice(_damage_row(each))
            else:
                out.rows([_frame_row(each) for each in some])
    out.end()


def _summary(found: StoreSummary) -> dict[str, str]:
    files = [file for shard in found.shards for file in shard.files]
    used = sum(file.used_bytes for file in files)
    segments = sum(each.info.file_size for each in found.segments)
    cold = [each.cold for each in found.topics if each.cold is not None]
    return {
        "store": formatting.plain(found.path),
        "id": found.store_id,
        "format": str(found.format),
        "created": formatting.moment(found.created_us),
        "last writer": f"term {found.term}, {'closed' if found.clean else 'not closed'}",
        "shards": str(found.wal_shards or "unknown"),
        "log": f"{len(files)} files, {formatting.size(used)} used",
        "segments": f"{len(found.segments)} files, {formatting.size(segments)}",
        "lake": f"{sum(each.files for each in cold)} files, "
        f"{formatting.size(sum(each.size for each in cold))}",
        "topics": f"{len(found.topics)} with {sum(each.count for each in found.topics)} records",
        "damage": str(sum(len(shard.damage) for shard in found.shards) + len(found.complaints)),
    }


def _checkpoint_row(found: CheckpointSummary) -> Row:
    return Made(
        {},
        {
            "number": str(found.number),
            "topics": str(found.topics),
            "segments": str(found.segments),
            "replay from": ", ".join(map(str, found.replay_lsns.values())) or "-",
            "size": formatting.size(found.size),
            "problem": formatting.plain(found.problem) or None,
        },
    )


def _wal_row(found: WalFileSummary, shard: int) -> Row:
    return Made(
        {},
        {
            "file": formatting.plain(os.path.basename(found.path)),
            "shard": str(shard),
            "term": str(found.term),
            "frames": str(found.frames),
            "used": formatting.size(found.used_bytes),
            "size": formatting.size(found.size),
            "state": found.state,
        },
    )


def _segment_row(found: SegmentSummary) -> Row:
    info = found.info
    return Made(
        {},
        {
            "file": formatting.plain(info.name()),
            "topic": formatting.plain(found.topic) or "(shared)",
            "seqs": f"{info.first_seq} to {info.last_seq}" if found.topic else "-",
            "records": str(info.record_count),
            "size": formatting.size(info.file_size),
        },
    )


def _topic_row(found: TopicSummary) -> Row:
    gaps = sum(gap.last_seq - gap.first_seq + 1 for gap in found.gaps)
    return Made(
        {},
        {
            "id": str(found.id),
            "topic": found.name,
            "records": str(found.count),
            "earliest": str(found.earliest_seq),
            "head": str(found.head_seq),
            "size": formatting.size(found.payload_bytes),
            "in segments": str(found.runs),
            "in the log": str(found.tail_frames),
            "in the lake": _cold(found.cold),
            "lost": str(gaps) if gaps else None,
        },
    )


def _cold(found: ColdSummary | None) -> str | None:
    if found is None:
        return None
    return f"{found.files} files, seqs {found.first_seq} to {found.last_seq}"


def _frame_row(found: FrameSummary | Damage) -> Row:
    assert isinstance(found, FrameSummary)
    return row_of(
        found,
        {
            "offset": str(found.offset),
            "lsn": str(found.lsn),
            "size": str(found.size),
            "kind": found.kind,
            "term": str(found.term),
            "time": formatting.moment(found.ts),
            "synced": str(found.durable_upto),
            "what": "; ".join(map(_block_text, found.blocks)),
        },
    )


def _block_text(found: BlockSummary) -> str:
    if found.message is not None:
        words = formatting.jsonable(found.message)
        assert isinstance(words, dict)
        kind = words.pop("type")
        return f"topic {found.topic_id}: {kind} {formatting.text(words)}".removesuffix(" -")
    last = found.first_seq + found.count - 1
    seqs = f"seq {last}" if found.count == 1 else f"seqs {found.first_seq} to {last}"
    return f"topic {found.topic_id}: {seqs}, {found.payload_bytes} B"


def _damage_row(found: FrameSummary | Damage) -> Row:
    assert isinstance(found, Damage)
    text = f"{found.reason} at byte {found.offset} (lsn {found.lsn})"
    return Made({"damage": formatting.jsonable(found)}, {"notice": text})
