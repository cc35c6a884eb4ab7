"""What a damaged place of the log held, as far as its bytes still tell. Pure.

A place reaches from the first byte that is no whole frame to the next header that checks. Its own
header, when that checks, says what the frame was although its body is damaged; a batch's blocks
check one by one, so those that are whole are rescued, and the frame's header is not even needed for
that. What fits neither is unknown: then all that can be said is how many bytes there were, and so
how many records at most (a record in a batch takes at least its offset of four bytes).
"""

from __future__ import annotations

import struct

import msgspec

from strandline.log.wal import block, codec
from strandline.log.wal.codec import HEADER_SIZE
from strandline.log.wal.log_files import BLOCK_AT, MASKED_BLOCK_AT

RECORD_SIZE_MIN = 4
_TRAILER_SIZE = 8


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Records, or a control message (seqs 0), that a damaged place held."""

    topic_id: int
    first_seq: int
    last_seq: int
    size: int
    """Bytes of the log that it took."""
    certain: bool
    """Whether the bytes that say so are checked; else they may be part of the damage."""


class Wreck:
    """What was found: losses, whole blocks with their locations, bytes that say nothing."""

    def __init__(self, location: int) -> None:
        self.location = location
        self.losses: list[Loss] = []
        self.blocks: list[tuple[int, memoryview]] = []
        self.unknown_size = 0
        self.ts = 0


def examine(place: memoryview, location: int, seed: int, header_seed: int) -> Wreck:
    """Look through the bytes of a damaged place that begins at a location."""
    found = Wreck(location)
    if len(place) < HEADER_SIZE:
        found.unknown_size = len(place)
        return found
    size, check, kind, mask, count, _, _, _, ts, body_check, topic_id, seq, _ = (
        codec.HEADER.unpack_from(place)
    )
    checked = HEADER_SIZE < size <= len(place) and codec.header_ok(
        check, place[8:HEADER_SIZE], header_seed, size
    )
    if not checked:
        size = len(place)
    body = place[HEADER_SIZE:size]
    found.unknown_size = len(place) - size
    if checked:
        found.ts = ts
    if kind == codec.SINGLE and (checked or _is_body(body, mask, body_check, seed)):
        found.losses.append(
            Loss(topic_id=topic_id, first_seq=seq, last_seq=seq, size=size, certain=checked)
        )
    else:
        at = location + HEADER_SIZE
        _examine_blocks(found, body, at, mask, count if checked else None, seed)
    return found


def _examine_blocks(
    found: Wreck, body: memoryview, location: int, mask: int, count: int | None, seed: int
) -> None:
    """Go from block to block; without a count they must fill the place to its last byte."""
    masks = (mask,) if count is not None or not mask else (mask, 0)
    plain, used = max(
        ((text, worn) for worn in masks for text in [_unmasked(body, worn)]),
        key=lambda option: _is_whole(option[0], 0, seed),
    )
    location |= MASKED_BLOCK_AT if used else BLOCK_AT
    start = done = 0
    while start + block.HEADER_SIZE <= len(plain) - _TRAILER_SIZE and done != count:
        size = struct.unpack_from("<I", plain, start + 8)[0]
        if size < block.HEADER_SIZE or size % 8 or start + size > len(plain) - _TRAILER_SIZE:
            break
        view = plain[start : start + size]
        if block.verify(view, seed):
            found.blocks.append((location + start, view))
        elif (loss := _claimed(block.Block(view))) is not None:
            found.losses.append(loss)
        else:
            found.unknown_size += size
        start += size
        done += 1
    ended = done == count if count is not None else start == len(plain) - _TRAILER_SIZE
    if not ended:
        found.unknown_size += len(plain) - start


def _claimed(damaged: block.Block) -> Loss | None:
    """What the header of a damaged block says, true or not; None when it makes no sense."""
    first_seq, count = damaged.first_seq, damaged.count
    records = damaged.kind == block.RECORDS and first_seq > 0 and count > 0
    if not records and (damaged.kind != block.CONTROL or first_seq or count):
        return None
    if block.HEADER_SIZE + RECORD_SIZE_MIN * count > damaged.size:
        return None
    return Loss(
        topic_id=damaged.topic_id,
        first_seq=first_seq,
        last_seq=damaged.last_seq if records else 0,
        size=damaged.size,
        certain=False,
    )


def _is_body(body: memoryview, mask: int, check: int, seed: int) -> bool:
    return len(body) > 0 and codec.body_ok(_unmasked(body, mask), check, seed)


def _is_whole(body: memoryview, start: int, seed: int) -> bool:
    return block.verify(body[start:], seed)


def _unmasked(body: memoryview, mask: int) -> memoryview:
    if not mask or len(body) % 8 or len(body) < _TRAILER_SIZE:
        return body
    return memoryview(codec.masked(body[:-8], mask) + bytes(body[-8:]))
