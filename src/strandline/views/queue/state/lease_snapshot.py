"""Surveys: snapshots of the lease state in the log, so that older lease records can be deleted.

A survey is a series of records in the topic of leases. Each covers a range of seqs; together they
cover 1 to the newest job at the start of the survey. A record contains which jobs of its range are
live, and the state of those that were claimed at least once. It holds at its own position: other
records may come in between.

A fold that starts at the first record of a survey has the same state after its last record,
whatever the state was before:

- a job of the range that is not live has ended, even if its own record is still in the log;
- a job that was claimed has exactly the state in the survey, others are as they were put;
- a job after the last range is newer, so all lease records about it are after the start.

An incomplete survey is only a repetition: nothing is deleted before its last record is durable.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from strandline.views.queue.codec import Seqs
from strandline.views.queue.state.job_chunk import BLOCKED, DYING, HELD, LAPSED, JobChunk, Rows
from strandline.views.queue.state.job_table import JobTable
from strandline.views.queue.state.leases import Leases, LeaseTerms

ROWS_MAX = 4096
"""Claimed jobs in one record."""
CHUNKS_MAX = 64
"""Chunks in one record."""

WAITING, IN_FLIGHT, BURIED = range(3)
"""Activities of a job that was claimed; the last is the move to the dead letters."""


class SurveyRecord(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """One record of a survey."""

    begin: int
    """Seq of the survey's first record; 0 in that one."""
    last: bool
    first: int
    following: int
    """It covers the range of seqs ``[first, following)``."""
    live: bytes
    """The jobs of the range that are live, as a Roaring bitmap."""
    seqs: bytes
    """The seqs of those that were claimed; the next fields are columns for them."""
    doings: bytes
    deliveries: bytes
    not_before: bytes
    leases: bytes
    grants: bytes
    terms: list[tuple[int, int, int]]
    """Their grants: number, index of the worker, lease in ms."""
    workers: list[bytes]
    paused: bool = False
    """Only in the first record, like the next fields."""
    burial: int = 0
    """Number of the burial in progress, 0 for none."""
    buried: bytes = b""
    """The seqs of its jobs."""


class ClaimColumns(NamedTuple):
    """Columns of a statement, as numbers."""

    seqs: Seqs
    doings: NDArray[np.uint8]
    deliveries: NDArray[np.uint16]
    not_before: NDArray[np.int64]
    leases: NDArray[np.int64]
    grants: NDArray[np.int64]


def encode(statement: SurveyRecord) -> bytes:
    return msgspec.msgpack.encode(statement)


def decode(data: bytes) -> SurveyRecord | None:
    """A statement, None if the bytes are not a valid one."""
    try:
        statement = msgspec.msgpack.decode(data, type=SurveyRecord)
        live_of(statement)
        columns = claim_columns(statement)
        grants = set(terms_of(statement)) | {0}
    except (msgspec.DecodeError, ValueError, IndexError):
        return None
    sizes = {len(getattr(columns, name)) for name in ClaimColumns._fields}
    valid = 0 < statement.first <= statement.following and len(statement.buried) % 8 == 0
    valid = valid and len(sizes) == 1 and grants >= set(columns.grants.tolist())
    return statement if valid and (np.diff(columns.seqs) > 0).all() else None


def live_of(statement: SurveyRecord) -> BitMap64:
    """The jobs that are live."""
    return BitMap64.deserialize(statement.live)


def claim_columns(statement: SurveyRecord) -> ClaimColumns:
    """The columns of the jobs that were claimed."""
    return ClaimColumns(
        np.frombuffer(statement.seqs, dtype="<i8"),
        np.frombuffer(statement.doings, dtype="u1"),
        np.frombuffer(statement.deliveries, dtype="<u2"),
        np.frombuffer(statement.not_before, dtype="<i8"),
        np.frombuffer(statement.leases, dtype="<i8"),
        np.frombuffer(statement.grants, dtype="<i8"),
    )


def terms_of(statement: SurveyRecord) -> dict[int, LeaseTerms]:
    """The grants in a statement, by number."""
    return {
        number: LeaseTerms(statement.workers[worker], lease_ms)
        for number, worker, lease_ms in statement.terms
    }


def first_record(
    statement: SurveyRecord, *, paused: bool, burial: int, buried: Seqs
) -> SurveyRecord:
    """The first record of a survey: it also has the state of the queue as a whole."""
    return msgspec.structs.replace(
        statement, paused=paused, burial=burial, buried=buried.astype("<i8").tobytes()
    )


class SurveyRange(NamedTuple):
    """The part of a survey that a statement covers."""

    begin: int
    first: int
    end: int
    """The survey ends before this seq."""


def survey_record(
    board: JobTable, leases: Leases, span: SurveyRange, rows_max: int = ROWS_MAX
) -> SurveyRecord:
    """The statement about the jobs from the first of a span on, as many as fit."""
    chunks = board.between(span.first, span.end)
    following = span.end if len(chunks) <= CHUNKS_MAX else chunks[CHUNKS_MAX].base
    chunks = chunks[:CHUNKS_MAX]
    touched = [_touched(chunk, span.first, following) for chunk in chunks]
    if sum(map(len, touched)) > rows_max:
        seqs = np.concatenate([c.seqs(rows) for c, rows in zip(chunks, touched, strict=True)])
        following = int(seqs[rows_max])
        touched = [_touched(chunk, span.first, following) for chunk in chunks]
    parts = [_claimed(chunk, rows) for chunk, rows in zip(chunks, touched, strict=True)]
    columns = [b"".join(column) for column in zip(*parts, strict=True)] or [b""] * 6
    live = BitMap64()
    for chunk in chunks:
        _add_live(live, chunk, span.first, following)
    workers, terms = _terms(leases, columns[5])
    return SurveyRecord(
        begin=span.begin,
        last=following >= span.end,
        first=span.first,
        following=following,
        live=live.serialize(),
        seqs=columns[0],
        doings=columns[1],
        deliveries=columns[2],
        not_before=columns[3],
        leases=columns[4],
        grants=columns[5],
        terms=terms,
        workers=workers,
    )


def _touched(chunk: JobChunk, first: int, following: int) -> Rows:
    """Rows of live jobs that were claimed or are being buried."""
    touched = (chunk.deliveries > 0) | (chunk.state == DYING)
    rows = ((chunk.state >= BLOCKED) & touched).nonzero()[0]
    seqs = chunk.seqs(rows)
    inside: Rows = rows[(seqs >= first) & (seqs < following)]
    return inside


def _claimed(chunk: JobChunk, rows: Rows) -> tuple[bytes, ...]:
    states = chunk.state[rows]
    doings = np.full(len(rows), WAITING, dtype=np.uint8)
    doings[(states == HELD) | (states == LAPSED)] = IN_FLIGHT
    doings[states == DYING] = BURIED
    return (
        chunk.seqs(rows).astype("<i8").tobytes(),
        doings.tobytes(),
        chunk.deliveries[rows].astype("<u2").tobytes(),
        chunk.values("not_before", rows).astype("<i8").tobytes(),
        chunk.values("lease", rows).astype("<i8").tobytes(),
        chunk.values("grant", rows).astype("<i8").tobytes(),
    )


def _add_live(live: BitMap64, chunk: JobChunk, first: int, following: int) -> None:
    seqs = chunk.seqs((chunk.state >= BLOCKED).nonzero()[0])
    seqs = seqs[(seqs >= first) & (seqs < following)]
    if len(seqs) and seqs[-1] - seqs[0] + 1 == len(seqs):
        live.add_range(int(seqs[0]), int(seqs[-1]) + 1)
    else:
        live.update(seqs.tolist())


def _terms(leases: Leases, grants: bytes) -> tuple[list[bytes], list[tuple[int, int, int]]]:
    indexes: dict[bytes, int] = {}
    terms = []
    for number in np.unique(np.frombuffer(grants, dtype="<i8")).tolist():
        if number:
            worker, lease_ms = leases.terms(number)
            terms.append((number, indexes.setdefault(worker, len(indexes)), lease_ms))
    return list(indexes), terms
