"""One position for all relations of a query: now, or a requested one.

Now. Heads of topics only rise. So when two reads of all heads return the same, there was a moment
between the reads at which all topics had these heads: that is the position. No writer waits for it.
Views that have only their present state are locked meanwhile, each folded up to its head, and
copied or pinned before they are unlocked (locks in the order of kind and name; no other code locks
two views).

As of. A map of topics to seqs, a position as ``strandline.pipelines.position`` returns it, or a
time: then every topic is read up to its last record of that time. This works for topics, tables,
maps and series. It does not for queues and metrics: their folds have no past states.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from strandline.errors import Invalid, Unavailable
from strandline.log.topic.topic import Topic
from strandline.query.language.times import parse_time
from strandline.query.sql.relations.metrics import MetricsSource
from strandline.query.sql.relations.queue import QueueSource
from strandline.query.sql.relations.relation import Position, Relation, RelationSource, SqlStore
from strandline.views.view_runner import ViewRunner

_ATTEMPTS_MAX = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class _Offset(msgspec.Struct, frozen=True):
    epoch: int
    seq: int


class _Offsets(msgspec.Struct, frozen=True):
    """A position as text: the store, and the epoch and seq of each topic."""

    store: str
    topics: dict[str, _Offset]


def pin(store: SqlStore, sources: Sequence[RelationSource], as_of: object) -> list[Relation]:
    """All sources at one position."""
    topics = {topic.name: topic for source in sources for topic in source.topics}
    hosts = {(host.kind, host.name): host for source in sources for host in source.held}
    past = None if as_of is None else past_of(store, as_of, topics)
    if past is not None:
        _check_have_past(sources)
    with contextlib.ExitStack() as held:
        for _, host in sorted(hosts.items()):
            held.enter_context(host.lock)
        position = now(topics, list(hosts.values())) if past is None else past
        if past is not None:
            for host in hosts.values():
                host.catch_up()
        return [source.at(position) for source in sources]


def now(topics: Mapping[str, Topic], hosts: Sequence[ViewRunner[Any]] = ()) -> Position:
    """A position that all topics, and these views, had at one moment."""
    for _ in range(_ATTEMPTS_MAX):
        for host in hosts:
            host.catch_up()
        heads = _heads(topics)
        if heads == _heads(topics) and all(_is_at(host, heads) for host in hosts):
            return Position(heads=heads)
    raise Unavailable(
        f"{', '.join(topics)}: no common position found, too much is appended; try again"
    )


def _heads(topics: Mapping[str, Topic]) -> dict[str, int]:
    return {name: topic.head_seq for name, topic in topics.items()}


def _is_at(host: ViewRunner[Any], heads: Mapping[str, int]) -> bool:
    return host.applied == [heads[topic.name] for topic in host.topics]


def past_of(store: SqlStore, as_of: object, topics: Mapping[str, Topic]) -> Position:
    """The position of an ``as_of``."""
    if hasattr(as_of, "encode") and not isinstance(as_of, str):
        as_of = as_of.encode()  # a position of pipelines
    if isinstance(as_of, str) and as_of.lstrip().startswith("{"):
        return Position(heads=_offsets(store, as_of, topics), past=True)
    if isinstance(as_of, Mapping):
        return Position(heads=_seqs(as_of, topics), past=True)
    moment_us = _moment(as_of)
    heads = {name: topic.cursor_at(moment_us + 1) for name, topic in topics.items()}
    return Position(heads=heads, moment_us=moment_us, past=True)


def _seqs(as_of: Mapping[Any, Any], topics: Mapping[str, Topic]) -> dict[str, int]:
    missing = sorted(topics.keys() - as_of.keys())
    if missing:
        raise Invalid(
            f"as_of has no seq of {', '.join(missing)}: pass the seq of every topic of "
            "the query, or a time"
        )
    seqs = {name: as_of[name] for name in topics}
    for name, seq in seqs.items():
        if isinstance(seq, bool) or not isinstance(seq, int) or seq < 0:
            raise Invalid(f"as_of: the seq of {name} must be a whole number >= 0, not {seq!r}")
        if seq > topics[name].head_seq:
            raise Invalid(
                f"as_of: {name} has no seq {seq} yet: its newest is {topics[name].head_seq}"
            )
    return seqs


def _offsets(store: SqlStore, text: str, topics: Mapping[str, Topic]) -> dict[str, int]:
    try:
        position = msgspec.json.decode(text, type=_Offsets)
    except msgspec.MsgspecError as error:
        raise Invalid(
            f"as_of: {text[:80]!r} is not a position ({error}): use a time, seqs of topics, or the "
            "result of position(...)"
        ) from error
    if position.store != store.id:
        raise Invalid(
            f"as_of is a position of store {position.store[:8]}…, this is store {store.id[:8]}…"
        )
    for name, topic in topics.items():
        if name in position.topics and position.topics[name].epoch != topic.epoch:
            raise Invalid(
                f"as_of is of another epoch of topic {name!r}: the topic was created again or lost "
                "its tail; use a newer position"
            )
    return _seqs({name: offset.seq for name, offset in position.topics.items()}, topics)


def _moment(as_of: object) -> int:
    if isinstance(as_of, datetime):
        aware = as_of if as_of.tzinfo is not None else as_of.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MICROSECOND
    if isinstance(as_of, (str, int, float)) and not isinstance(as_of, bool):
        return parse_time(as_of)
    raise Invalid(
        f"as_of must be a time, a map of topics to seqs, or a position, not {type(as_of).__name__}"
    )


def _check_have_past(sources: Sequence[RelationSource]) -> None:
    for source in sources:
        if isinstance(source, (QueueSource, MetricsSource)):
            kind = "queue" if isinstance(source, QueueSource) else "metrics"
            name = source.topics[0].name
            raise Invalid(
                f"{kind} {name!r} cannot be queried as of the past: it has only its present; as_of "
                f'is for topics, tables, maps and series (log."{name}" has the records)'
            )
