"""Salvages a damaged place of the log: intact blocks, and which records were lost. Pure.

A place is from the first byte without an intact frame to the next header that checks. Its own
header, if that checks, identifies the frame although its body is damaged. The blocks of a batch
check one by one: intact ones are salvaged, even without the frame's header. Of everything else only
the number of bytes is known, and so the largest possible number of records (a record in a batch
takes at least its offset of four bytes).
"""

from __future__ import annotations

import struct

import msgspec

from strandline.log.wal import block, codec
from strandline.log.wal.codec import HEADER_SIZE
from strandline.log.wal.log_files import BLOCK_AT, MASKED_BLOCK_AT

RECORD_SIZE_MIN = 4
_TRAILER_SIZE = 8


class LogLoss(msgspec.Struct, frozen=True, kw_only=True):
    """Records, or a control message (seqs 0), that were in a damaged place."""

    topic_id: int
    first_seq: int
    last_seq: int
    size: int
    """Its bytes in the log."""
    certain: bool
    """Whether the header that describes it is verified; if not, that may be damaged, too."""


class SalvageResult:
    """The result: losses, intact blocks with their locations, number of unidentified bytes."""

    def __init__(self, location: int) -> None:
        self.location = location
        self.losses: list[LogLoss] = []
        self.blocks: list[tuple[int, memoryview]] = []
        self.unknown_size = 0
        self.ts = 0


def examine(place: memoryview, location: int, seed: int, header_seed: int) -> SalvageResult:
    """Salvage a damaged place that begins at a location."""
    salvaged = SalvageResult(location)
    if len(place) < HEADER_SIZE:
        salvaged.unknown_size = len(place)
        return salvaged
    size, check, kind, mask, count, _, _, _, ts, body_check, topic_id, seq, _ = (
        codec.HEADER.unpack_from(place)
    )
    checked = HEADER_SIZE < size <= len(place) and codec.header_ok(
        check, place[8:HEADER_SIZE], header_seed, size
    )
    if not checked:
        size = len(place)
    body = place[HEADER_SIZE:size]
    salvaged.unknown_size = len(place) - size
    if checked:
        salvaged.ts = ts
    if kind == codec.SINGLE and (checked or _is_body(body, mask, body_check, seed)):
        salvaged.losses.append(
            LogLoss(topic_id=topic_id, first_seq=seq, last_seq=seq, size=size, certain=checked)
        )
    else:
        at = location + HEADER_SIZE
        _examine_blocks(salvaged, body, at, mask, count if checked else None, seed)
    return salvaged


def _examine_blocks(
    salvaged: SalvageResult,
    body: memoryview,
    location: int,
    mask: int,
    count: int | None,
    seed: int,
) -> None:
    """Examine block after block; without a count they must fill the place to its last byte."""
    masks = (mask,) if count is not None or not mask else (mask, 0)
    plain, used_mask = max(
        ((text, used) for used in masks for text in [_unmasked(body, used)]),
        key=lambda option: _is_intact(option[0], 0, seed),
    )
    location |= MASKED_BLOCK_AT if used_mask else BLOCK_AT
    start = done = 0
    while start + block.HEADER_SIZE <= len(plain) - _TRAILER_SIZE and done != count:
        size = struct.unpack_from("<I", plain, start + 8)[0]
        if size < block.HEADER_SIZE or size % 8 or start + size > len(plain) - _TRAILER_SIZE:
            break
        view = plain[start : start + size]
        if block.verify(view, seed):
            salvaged.blocks.append((location + start, view))
        elif (loss := _loss_of(block.Block(view))) is not None:
            salvaged.losses.append(loss)
        else:
            salvaged.unknown_size += size
        start += size
        done += 1
    ended = done == count if count is not None else start == len(plain) - _TRAILER_SIZE
    if not ended:
        salvaged.unknown_size += len(plain) - start


def _loss_of(damaged: block.Block) -> LogLoss | None:
    """The loss that the header of a damaged block describes; None when it is implausible."""
    first_seq, count = damaged.first_seq, damaged.count
    records = damaged.kind == block.RECORDS and first_seq > 0 and count > 0
    if not records and (damaged.kind != block.CONTROL or first_seq or count):
        return None
    if block.HEADER_SIZE + RECORD_SIZE_MIN * count > damaged.size:
        return None
    return LogLoss(
        topic_id=damaged.topic_id,
        first_seq=first_seq,
        last_seq=damaged.last_seq if records else 0,
        size=damaged.size,
        certain=False,
    )


def _is_body(body: memoryview, mask: int, check: int, seed: int) -> bool:
    return len(body) > 0 and codec.body_ok(_unmasked(body, mask), check, seed)


def _is_intact(body: memoryview, start: int, seed: int) -> bool:
    return block.verify(body[start:], seed)


def _unmasked(body: memoryview, mask: int) -> memoryview:
    if not mask or len(body) % 8 or len(body) < _TRAILER_SIZE:
        return body
    return memoryview(codec.masked(body[:-8], mask) + bytes(body[-8:]))
