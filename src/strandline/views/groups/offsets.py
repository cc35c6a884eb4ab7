"""Offsets of a group: a floor, and the done seqs above it. Pure.

All seqs up to the floor are done. Above it are the seqs that were acked before an earlier one, as a
roaring bitmap: consecutive seqs take a few bytes, however many they are. Records that are gone from
the topic count as done once the group has found that. Failures are counted per record, so that it
becomes a dead letter in time also after a restart.

As bytes, a MessagePack array:

    format       1
    generation   the opening of the group that wrote it: an older one must not write any more
    topic        the id of the topic: a topic that is created again with its name has a new one
    floor        every seq up to it is done
    done         roaring bitmap (64 bit, portable format) of seqs above the floor; empty for none
    failures     map from seq to the number of failed deliveries; has no seq that is done
    lost         seqs that were lost from the topic before the group was done with them
    deleted      seqs that were deleted from the topic before that
    moves        number of seeks: a record may become a dead letter again after a seek
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from pyroaring import BitMap64

from strandline.errors import Corrupt, UnsupportedFormat

FORMAT = 1


class Offsets:
    """The offsets of a group. Owned by one thread."""

    __slots__ = ("deleted", "done", "failures", "floor", "lost", "moves")

    def __init__(
        self,
        floor: int = 0,
        done: BitMap64 | None = None,
        failures: dict[int, int] | None = None,
        *,
        lost: int = 0,
        deleted: int = 0,
        moves: int = 0,
    ) -> None:
        self.floor = floor
        self.done = BitMap64() if done is None else done
        self.failures: dict[int, int] = {} if failures is None else failures
        self.lost = lost
        self.deleted = deleted
        self.moves = moves

    def __contains__(self, seq: int) -> bool:
        return seq <= self.floor or seq in self.done

    def __repr__(self) -> str:
        return f"Offsets(floor={self.floor}, done={len(self.done)} above it)"

    def copy(self) -> Offsets:
        return Offsets(
            self.floor,
            self.done.copy(),
            dict(self.failures),
            lost=self.lost,
            deleted=self.deleted,
            moves=self.moves,
        )

    def moved(self, floor: int) -> Offsets:
        """Offsets after a seek: all seqs up to ``floor`` are done, and none after it."""
        return Offsets(floor, lost=self.lost, deleted=self.deleted, moves=self.moves + 1)

    def mark_done(self, seqs: Iterable[int]) -> None:
        """Mark seqs as done."""
        done, failures = self.done, self.failures
        for seq in seqs:
            if seq > self.floor:
                done.add(seq)
                if failures:
                    failures.pop(seq, None)
        self._raise_floor()

    def mark_range_done(self, first: int, last: int) -> int:
        """Mark all seqs from first to last as done; return how many were not done before."""
        first = max(first, self.floor + 1)
        if first > last:
            return 0
        count = last - first + 1 - self.done.range_cardinality(first, last + 1)
        if first == self.floor + 1:  # keeps a long range out of the bitmap
            self.floor = last
            self.done.remove_range(0, last + 1)
        else:
            self.done.add_range(first, last + 1)
        for seq in [seq for seq in self.failures if first <= seq <= last]:
            del self.failures[seq]
        self._raise_floor()
        return count

    def fail(self, seq: int) -> int:
        """Count a failed delivery; return the count. A seq that is done is not counted."""
        if seq in self:
            return 0
        self.failures[seq] = count = self.failures.get(seq, 0) + 1
        return count

    def merge(self, other: Offsets) -> None:
        """Add other offsets: what either has as done is done."""
        self.done |= other.done
        self.floor = max(self.floor, other.floor)
        self.done.remove_range(0, self.floor + 1)
        self._raise_floor()
        both = self.failures | other.failures
        self.failures = {
            seq: max(self.failures.get(seq, 0), other.failures.get(seq, 0))
            for seq in both
            if seq not in self
        }
        self.lost = max(self.lost, other.lost)
        self.deleted = max(self.deleted, other.deleted)
        self.moves = max(self.moves, other.moves)

    def next_open(self, seq: int) -> int:
        """The first seq from ``seq`` on that is not done."""
        seq = max(seq, self.floor + 1)
        return first_absent(self.done, seq) if seq in self.done else seq

    def truncate(self, head_seq: int) -> None:
        """Remove seqs above the head: they will be assigned to other records."""
        self.floor = min(self.floor, head_seq)
        self.done &= BitMap64(range(self.floor + 1, head_seq + 1))
        self.failures = {seq: n for seq, n in self.failures.items() if seq <= head_seq}

    def _raise_floor(self) -> None:
        if self.floor + 1 in self.done:
            self.floor = first_absent(self.done, self.floor + 1) - 1
            self.done.remove_range(0, self.floor + 1)


def first_absent(seqs: BitMap64, start: int) -> int:
    """The first seq from ``start`` on that is not in the set."""
    step = 1
    while seqs.contains_range(start, start + step):
        start += step
        step *= 2
    while step > 1:
        step //= 2
        if seqs.contains_range(start, start + step):
            start += step
    return start


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    format: int
    generation: int
    topic: int
    floor: int
    done: bytes
    failures: dict[int, int]
    lost: int
    deleted: int
    moves: int


class _Format(msgspec.Struct, frozen=True, array_like=True):
    """Only the first field, for bytes of a newer format with other fields."""

    format: int


class OffsetsEntry(msgspec.Struct, frozen=True):
    """The entry of a group in the kv map."""

    generation: int
    topic: int
    offsets: Offsets


def encode(entry: OffsetsEntry) -> bytes:
    offsets = entry.offsets
    offsets.done.run_optimize()
    return msgspec.msgpack.encode(
        _Stored(
            format=FORMAT,
            generation=entry.generation,
            topic=entry.topic,
            floor=offsets.floor,
            done=offsets.done.serialize() if offsets.done else b"",
            failures=offsets.failures,
            lost=offsets.lost,
            deleted=offsets.deleted,
            moves=offsets.moves,
        )
    )


def decode(stored: bytes, where: str) -> OffsetsEntry:
    """The entry in these bytes; ``where`` is for the error if they are not one."""
    try:
        if msgspec.msgpack.decode(stored, type=_Format).format > FORMAT:
            raise UnsupportedFormat(f"{where} was written by a newer Strandline: upgrade to use it")
        fields = msgspec.msgpack.decode(stored, type=_Stored)
        done = BitMap64.deserialize(fields.done) if fields.done else BitMap64()
    except (msgspec.MsgspecError, ValueError) as error:
        raise Corrupt(f"the offsets of a group cannot be decoded ({error})", path=where) from error
    offsets = Offsets(
        fields.floor,
        done,
        fields.failures,
        lost=fields.lost,
        deleted=fields.deleted,
        moves=fields.moves,
    )
    return OffsetsEntry(fields.generation, fields.topic, offsets)
