"""One position for all relations of a question: now, or one that was asked for.

Now. Heads of topics only rise. So when they are read twice, and are the same both times, there was
a moment in between at which all of them were just there: that is the position. No writer waits for
it. Views that know nothing but the present are held meanwhile, each folded up to its head, and
copied or pinned before they are let go (locks in the order of kind and name; nobody else holds two
views).

As of. A map of topics to seqs, a position as ``strandline.pipelines.position`` tells it, or a time:
then every topic counts up to its last record of that time. Topics, tables, maps and series can be
asked so. A queue and metrics cannot: their folds keep no past.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from strandline.errors import Invalid, Unavailable
from strandline.log.topic.topic import Topic
from strandline.query.language.times import moment
from strandline.query.sql.relations.metrics import MetricsSource
from strandline.query.sql.relations.queue import QueueSource
from strandline.query.sql.relations.relation import Position, Relation, Source, Store
from strandline.views.view_runner import Host

_LOOKS_MAX = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class _Offset(msgspec.Struct, frozen=True):
    epoch: int
    seq: int


class _Offsets(msgspec.Struct, frozen=True):
    """A position as text: which store, and how far each topic had come in which life."""

    store: str
    topics: dict[str, _Offset]


def pin(store: Store, sources: Sequence[Source], as_of: object) -> list[Relation]:
    """All sources at one position."""
    topics = {topic.name: topic for source in sources for topic in source.topics}
    hosts = {(host.kind, host.name): host for source in sources for host in source.held}
    past = None if as_of is None else past_of(store, as_of, topics)
    if past is not None:
        _check_pasts(sources)
    with contextlib.ExitStack() as held:
        for _, host in sorted(hosts.items()):
            held.enter_context(host.lock)
        position = now(topics, list(hosts.values())) if past is None else past
        if past is not None:
            for host in hosts.values():
                host.catch_up()
        return [source.at(position) for source in sources]


def now(topics: Mapping[str, Topic], hosts: Sequence[Host[Any]] = ()) -> Position:
    """A moment at which all topics were just there, and these views with them."""
    for _ in range(_LOOKS_MAX):
        for host in hosts:
            host.catch_up()
        heads = _heads(topics)
        if heads == _heads(topics) and all(_is_at(host, heads) for host in hosts):
            return Position(heads=heads)
    raise Unavailable(
        f"{', '.join(topics)}: so much is appended that no moment could be caught; try again"
    )


def _heads(topics: Mapping[str, Topic]) -> dict[str, int]:
    return {name: topic.head_seq for name, topic in topics.items()}


def _is_at(host: Host[Any], heads: Mapping[str, int]) -> bool:
    return host.applied == [heads[topic.name] for topic in host.topics]


def past_of(store: Store, as_of: object, topics: Mapping[str, Topic]) -> Position:
    """The position that somebody asks for."""
    if hasattr(as_of, "encode") and not isinstance(as_of, str):
        as_of = as_of.encode()  # offsets of pipelines
    if isinstance(as_of, str) and as_of.lstrip().startswith("{"):
        return Position(heads=_offsets(store, as_of, topics), past=True)
    if isinstance(as_of, Mapping):
        return Position(heads=_seqs(as_of, topics), past=True)
    moment_us = _moment(as_of)
    heads = {name: topic.cursor_at(moment_us + 1) for name, topic in topics.items()}
    return Position(heads=heads, moment_us=moment_us, past=True)


def _seqs(given: Mapping[Any, Any], topics: Mapping[str, Topic]) -> dict[str, int]:
    missing = sorted(topics.keys() - given.keys())
    if missing:
        raise Invalid(
            f"as_of does not say where {', '.join(missing)} was: give the seq of every topic of "
            "the question, or a time"
        )
    found = {name: given[name] for name in topics}
    for name, seq in found.items():
        if isinstance(seq, bool) or not isinstance(seq, int) or seq < 0:
            raise Invalid(f"as_of: {name} was at a seq, a whole number from 0 up, not {seq!r}")
        if seq > topics[name].head_seq:
            raise Invalid(
                f"as_of: {name} was never at seq {seq}: its newest is {topics[name].head_seq}"
            )
    return found


def _offsets(store: Store, text: str, topics: Mapping[str, Topic]) -> dict[str, int]:
    try:
        told = msgspec.json.decode(text, type=_Offsets)
    except msgspec.MsgspecError as error:
        raise Invalid(
            f"as_of: {text[:80]!r} is no position ({error}): use a time, seqs of topics, or what "
            "position(...) tells"
        ) from error
    if told.store != store.id:
        raise Invalid(
            f"as_of is a position of store {told.store[:8]}…, this is store {store.id[:8]}…"
        )
    for name, topic in topics.items():
        if name in told.topics and told.topics[name].epoch != topic.epoch:
            raise Invalid(
                f"as_of is of another life of topic {name!r}: it was made anew or lost its tail "
                "since; take another position"
            )
    return _seqs({name: offset.seq for name, offset in told.topics.items()}, topics)


def _moment(given: object) -> int:
    if isinstance(given, datetime):
        aware = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MICROSECOND
    if isinstance(given, (str, int, float)) and not isinstance(given, bool):
        return moment(given)
    raise Invalid(
        f"as_of is a time, a map of topics to seqs, or a position, not {type(given).__name__}"
    )


def _check_pasts(sources: Sequence[Source]) -> None:
    for source in sources:
        if isinstance(source, (QueueSource, MetricsSource)):
            what = "queue" if isinstance(source, QueueSource) else "metrics"
            name = source.topics[0].name
            raise Invalid(
                f"{what} {name!r} cannot be asked as of the past: it keeps none; as_of is for "
                f'topics, tables, maps and series (log."{name}" has the records)'
            )
