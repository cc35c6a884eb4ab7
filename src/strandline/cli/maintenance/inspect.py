"""``strandline inspect``: the content of a store, or of one file of its log.

A table shows the facts first and truncates long lists; JSON has everything.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence

from strandline.cli.open_store import retry_missing_file
from strandline.cli.options import TARGET, Target
from strandline.cli.output import formatting
from strandline.cli.output.formatting import OutputRow, PreparedRow, row_of
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
from strandline.log.wal.recovery import LogDamage
from strandline.platform.disk import OsDisk

_CHUNK = 1000


def inspect(*, wal: str | None = None, target: Target = TARGET) -> None:
    """Show checkpoints, log files, segments and topics of a store.

    Works while another process writes.

    Parameters
    ----------
    wal
        List the frames of this WAL file instead.
    """
    if wal is not None:
        _inspect_wal(wal, target)
        return
    path = os.path.abspath(target.store)
    summary = retry_missing_file(lambda: inspect_store(OsDisk(), path))
    lists: dict[str, Sequence[OutputRow]] = {
        "checkpoints": [_checkpoint_row(each) for each in summary.checkpoints],
        "log files": [
            _wal_row(file, shard.shard) for shard in summary.shards for file in shard.files
        ],
        "segments": [_segment_row(each) for each in summary.segments],
        "topics": [_topic_row(each) for each in summary.topics],
        "complaints": [
            PreparedRow({}, {"complaint": formatting.plain(each)}) for each in summary.complaints
        ],
    }
    print_report(target.output, row_of(summary, _summary(summary)), lists)


def _inspect_wal(path: str, target: Target) -> None:
    """Print the frames of one file, and the damage between them."""
    if not os.path.isfile(path):
        raise Invalid(f"{path} is not a file: `strandline inspect` lists the log files of a store")
    path = os.path.abspath(path)
    store_id = None
    try:
        store_id = system_file.read(
            OsDisk(), os.path.dirname(os.path.dirname(os.path.dirname(path)))
        )
    except (NotAStore, Corrupt):
        pass  # the file is outside of its store: only its own header is known
    out = output(target.output)
    parts: Iterable[FrameSummary | LogDamage] = wal_frames(OsDisk(), path, store_id)
    for damaged, group in itertools.groupby(parts, lambda each: isinstance(each, LogDamage)):
        while chunk := list(itertools.islice(group, _CHUNK)):
            if damaged:
                for each in chunk:
                    out.notice(_damage_row(each))
            else:
                out.rows([_frame_row(each) for each in chunk])
    out.end()


def _summary(summary: StoreSummary) -> dict[str, str]:
    files = [file for shard in summary.shards for file in shard.files]
    used = sum(file.used_bytes for file in files)
    segments = sum(each.info.file_size for each in summary.segments)
    cold = [each.cold for each in summary.topics if each.cold is not None]
    return {
        "store": formatting.plain(summary.path),
        "id": summary.store_id,
        "format": str(summary.format),
        "created": formatting.time_text(summary.created_us),
        "last writer": f"term {summary.term}, {'closed' if summary.clean else 'not closed'}",
        "shards": str(summary.wal_shards or "unknown"),
        "log": f"{len(files)} files, {formatting.size(used)} used",
        "segments": f"{len(summary.segments)} files, {formatting.size(segments)}",
        "lake": f"{sum(each.files for each in cold)} files, "
        f"{formatting.size(sum(each.size for each in cold))}",
        "topics": f"{len(summary.topics)} with {sum(it.count for it in summary.topics)} records",
        "damage": str(sum(len(shard.damage) for shard in summary.shards) + len(summary.complaints)),
    }


def _checkpoint_row(checkpoint: CheckpointSummary) -> OutputRow:
    return PreparedRow(
        {},
        {
            "number": str(checkpoint.number),
            "topics": str(checkpoint.topics),
            "segments": str(checkpoint.segments),
            "replay from": ", ".join(map(str, checkpoint.replay_lsns.values())) or "-",
            "size": formatting.size(checkpoint.size),
            "problem": formatting.plain(checkpoint.problem) or None,
        },
    )


def _wal_row(file: WalFileSummary, shard: int) -> OutputRow:
    return PreparedRow(
        {},
        {
            "file": formatting.plain(os.path.basename(file.path)),
            "shard": str(shard),
            "term": str(file.term),
            "frames": str(file.frames),
            "used": formatting.size(file.used_bytes),
            "size": formatting.size(file.size),
            "state": file.state,
        },
    )


def _segment_row(segment: SegmentSummary) -> OutputRow:
    info = segment.info
    return PreparedRow(
        {},
        {
            "file": formatting.plain(info.name()),
            "topic": formatting.plain(segment.topic) or "(shared)",
            "seqs": f"{info.first_seq} to {info.last_seq}" if segment.topic else "-",
            "records": str(info.record_count),
            "size": formatting.size(info.file_size),
        },
    )


def _topic_row(topic: TopicSummary) -> OutputRow:
    gaps = sum(gap.last_seq - gap.first_seq + 1 for gap in topic.gaps)
    return PreparedRow(
        {},
        {
            "id": str(topic.id),
            "topic": topic.name,
            "records": str(topic.count),
            "earliest": str(topic.earliest_seq),
            "head": str(topic.head_seq),
            "size": formatting.size(topic.payload_bytes),
            "in segments": str(topic.runs),
            "in the log": str(topic.tail_frames),
            "in the lake": _cold(topic.cold),
            "lost": str(gaps) if gaps else None,
        },
    )


def _cold(cold: ColdSummary | None) -> str | None:
    if cold is None:
        return None
    return f"{cold.files} files, seqs {cold.first_seq} to {cold.last_seq}"


def _frame_row(frame: FrameSummary | LogDamage) -> OutputRow:
    assert isinstance(frame, FrameSummary)
    return row_of(
        frame,
        {
            "offset": str(frame.offset),
            "lsn": str(frame.lsn),
            "size": str(frame.size),
            "kind": frame.kind,
            "term": str(frame.term),
            "time": formatting.time_text(frame.ts),
            "synced": str(frame.durable_upto),
            "what": "; ".join(map(_block_text, frame.blocks)),
        },
    )


def _block_text(block: BlockSummary) -> str:
    if block.message is not None:
        fields = formatting.jsonable(block.message)
        assert isinstance(fields, dict)
        kind = fields.pop("type")
        return f"topic {block.topic_id}: {kind} {formatting.text(fields)}".removesuffix(" -")
    last = block.first_seq + block.count - 1
    seqs = f"seq {last}" if block.count == 1 else f"seqs {block.first_seq} to {last}"
    return f"topic {block.topic_id}: {seqs}, {block.payload_bytes} B"


def _damage_row(damage: FrameSummary | LogDamage) -> OutputRow:
    assert isinstance(damage, LogDamage)
    text = f"{damage.reason} at byte {damage.offset} (lsn {damage.lsn})"
    return PreparedRow({"damage": formatting.jsonable(damage)}, {"notice": text})
