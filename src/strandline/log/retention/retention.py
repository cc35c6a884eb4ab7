"""Retention: which records caps and ttl remove, and how far the floor rises.

A rule is applied before a read, a delete or statistics, when an append would be rejected although
records have expired, and once a second by the job, always for all records that are due; no other
append pays for it. The floor is a function of log, configuration and clock, so a restart computes
the same one. It is logged before a change after which the function would return another one: a
delete, an alteration, a step of the clock.
"""

from __future__ import annotations

import bisect

import numpy as np

from strandline.log.append.detach_copies import detaching_copies
from strandline.log.state.locator import TopicReader
from strandline.log.state.topic_state import TopicState, spans


def is_limited(state: TopicState) -> bool:
    """Whether retention applies to the topic. The limits of a queue remove single jobs; the queue
    applies them itself."""
    config = state.config
    return not config.views and bool(config.ttl_ms or config.cap_records or config.cap_bytes)


def enforce(state: TopicState, pieces: TopicReader, now_us: int) -> bool:
    """Raise the evict floor as the rules require. Maintenance lock held; True if it rose."""
    old = state.evict_floor
    floor = state.floor
    by_ttl = _ttl_floor(state, pieces, floor, now_us)
    by_count = by_bytes = 1
    if state.config.discard == "old":  # the other kind of cap rejects appends instead
        by_count = _count_floor(state, floor)
        by_bytes = _bytes_floor(state, pieces, max(floor, by_ttl, by_count))
    raise_floor(state, pieces, max(by_ttl, by_count, by_bytes), _reason(by_ttl, by_count, by_bytes))
    return state.evict_floor > old


def raise_floor(state: TopicState, pieces: TopicReader, floor: int, reason: str) -> None:
    """Evict every record below a floor."""
    if floor <= state.evict_floor or floor <= state.floor:
        return
    gone = pieces.payload_between(state.floor, floor)
    if state.evict_reason not in ("", reason):
        reason = "mixed"
    with detaching_copies(state, floor), state.guard:
        state.gone_payload += gone
        state.evict_reason = reason
        state.evict_floor = floor


def _reason(by_ttl: int, by_count: int, by_bytes: int) -> str:
    by_cap = max(by_count, by_bytes)
    if by_ttl > 1 and by_cap > 1:
        return "ttl" if by_ttl > by_cap else "cap"
    return "ttl" if by_ttl > 1 else "cap"


def _count_floor(state: TopicState, floor: int) -> int:
    cap = state.config.cap_records
    excess = state.live_count - cap if cap else 0
    if excess <= 0:
        return 1
    for low, last_seq in spans(state, floor):
        seq = low
        while excess > 0 and seq <= last_seq:
            step = min(excess, last_seq - seq + 1)
            live = step
            if state.deleted:
                live -= state.deleted.range_cardinality(seq, seq + step)
            excess -= live
            seq += step
        if excess <= 0:
            return seq
    return state.head_seq + 1


def _bytes_floor(state: TopicState, pieces: TopicReader, floor: int) -> int:
    cap = state.config.cap_bytes
    if not cap:
        return 1
    excess = state.live_payload - cap
    if floor > state.floor:
        excess -= pieces.payload_between(state.floor, floor)
    if excess <= 0:
        return 1
    cold, hot_seq = state.cold, state.hot_seq
    if cold is not None and floor < hot_seq:
        # Cold records are evicted by whole files: the topic may exceed the cap by part of a file.
        for place in range(bisect.bisect_left(cold.lasts, floor), len(cold)):
            if cold.firsts[place] >= hot_seq:
                break
            counted = cold.counted(place)
            if excess < counted:
                return max(floor, cold.firsts[place])
            excess -= counted
        if excess <= 0:
            return hot_seq
        floor = hot_seq
    for low, last_seq in spans(state, floor):
        seq = low
        while seq <= last_seq:
            first, sizes = pieces.sizes(seq)
            totals = np.cumsum(sizes[seq - first : last_seq - first + 1])
            if totals[-1] >= excess:
                return seq + int(np.searchsorted(totals, excess)) + 1
            excess -= int(totals[-1])
            seq += len(totals)
    return state.head_seq + 1


def _ttl_floor(state: TopicState, pieces: TopicReader, floor: int, now_us: int) -> int:
    ttl_us = state.config.ttl_ms * 1000
    if not ttl_us:
        return 1
    cutoff = now_us - ttl_us  # strictly older records have expired
    if state.last_ts < cutoff:
        return state.head_seq + 1
    cold, hot_seq = state.cold, state.hot_seq
    if cold is not None and floor < hot_seq:
        # By whole files here; a read that finds expired rows of one raises the floor exactly.
        place = cold.first_reaching(cutoff, floor)
        if place < len(cold) and cold.firsts[place] < hot_seq:
            straddles = cold.lasts[place] >= hot_seq
            if not straddles or not _is_older(pieces, hot_seq, cutoff):
                return max(floor, cold.firsts[place])
        floor = hot_seq
    for low, last_seq in spans(state, floor):
        seq = low
        while seq <= last_seq:
            sealed = pieces.newest_in_segment(seq)
            if sealed is not None and sealed[1] < cutoff:
                seq = sealed[0] + 1
                continue
            first, stamps = pieces.stamps(seq)
            expired = int(np.searchsorted(stamps[seq - first :], np.int64(cutoff)))
            if seq - first + expired < len(stamps):
                return seq + expired
            seq = first + len(stamps)
    return state.head_seq + 1


def _is_older(pieces: TopicReader, seq: int, cutoff: int) -> bool:
    """Whether a record, and so all before it, is older: the newest ts may be of a later one."""
    first, stamps = pieces.stamps(seq)
    return bool(stamps[seq - first] < cutoff)
