"""``strandline group``: shows, moves and alters consumer groups.

It shows the stored state. Members and their deliveries are known only to the process that has the
store open for writing.
"""

from __future__ import annotations

import difflib
from typing import Annotated, Literal, cast

import msgspec
from cyclopts import App, Parameter

from strandline.cli.open_store import find_topic
from strandline.cli.open_view import open_to_write, run_query
from strandline.cli.options import VIEW_TARGET, ViewTarget, microseconds, milliseconds
from strandline.cli.output.formatting import Json, OutputRow, fact_row
from strandline.cli.output.output import output
from strandline.errors import Invalid
from strandline.store import Store
from strandline.views.groups.group_registry import DEAD, OFFSETS

app = App(name="group")

Topic = Annotated[str, Parameter(metavar="TOPIC", help="Name of the topic.")]
Group = Annotated[str, Parameter(metavar="GROUP", help="Name of the group.")]


@app.command(name="ls", alias="list")
def list_groups(topic: str | None = None, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """List the groups of a topic, or of all topics, with their lag.

    Parameters
    ----------
    topic
        Name of the topic.
    """
    out = output(target.output)
    out.rows(run_query(target, lambda store: _all_rows(store, topic)))
    out.end()


@app.command
def show(topic: Topic, group: Group, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Show the position and the lag of a group."""
    output(target.output).one(run_query(target, lambda store: _existing_row(store, topic, group)))


@app.command
def seek(
    topic: Topic,
    group: Group,
    /,
    *,
    to: str | None = None,
    at: str | None = None,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Move a group: it delivers all records from there on again, and none before.

    Parameters
    ----------
    to
        Continue at this seq, at the `earliest` record, or after the `latest`.
    at
        Continue with records of this time or later: 2026-03-28T14:05:00Z, or microseconds.
    """
    if (to is None) == (at is None):
        raise Invalid("name a position: --to SEQ, --to earliest, --to latest, or --at TIME")
    position = None if to is None else _position(to)
    ts = None if at is None else microseconds(at)
    with open_to_write(target) as store:
        _must_exist(store, topic, group)
        store.group(topic, group).seek(position, ts=ts)
        output(target.output).one(_row(store, topic, group))


@app.command
def alter(
    topic: Topic,
    group: Group,
    /,
    *,
    mode: Literal["shared", "exclusive", "key_shared"] | None = None,
    lease: str | None = None,
    deliveries_max: int | None = None,
    window: int | None = None,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Change the options of a group. Its members are notified and join again.

    Parameters
    ----------
    mode
        Receiver of a record: any member, the member that joined first, or the member of its key.
    lease
        Lease of a delivery: 30s, 15m.
    deliveries_max
        Failed deliveries before a record is a dead letter; 0: no limit.
    window
        Maximum of records in flight, or read and waiting.
    """
    lease_s = None if lease is None else milliseconds(lease) / 1000
    given = {"mode": mode, "lease_s": lease_s, "deliveries_max": deliveries_max, "window": window}
    changes: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise Invalid("name an option to change: --mode, --lease, --deliveries-max or --window")
    with open_to_write(target) as store:
        _must_exist(store, topic, group)
        options = store.groups.alter(topic, group, **changes)
        facts: Json = {"topic": topic, "group": group, **msgspec.structs.asdict(options)}
        output(target.output).one(fact_row(facts))


def _position(text: str) -> int | Literal["earliest", "latest"]:
    if text in ("earliest", "latest"):
        return cast("Literal['earliest', 'latest']", text)
    if not text.isdigit():
        near = difflib.get_close_matches(text, ["earliest", "latest"], n=1)
        error = Invalid(f"--to {text!r} is not a position: give a seq, earliest or latest")
        if near:
            error.add_note(f"did you mean {near[0]!r}?")
        raise error
    return int(text)


def _all_rows(store: Store, topic: str | None) -> list[OutputRow]:
    if topic is not None:
        find_topic(store, topic)
        return [_row(store, topic, name) for name in _names(store, topic)]
    topics = [name.removesuffix(OFFSETS) for name in store.topics() if name.endswith(OFFSETS)]
    return [_row(store, each, name) for each in topics for name in _names(store, each)]


def _existing_row(store: Store, topic: str, group: str) -> OutputRow:
    _must_exist(store, topic, group)
    return _row(store, topic, group)


def _must_exist(store: Store, topic: str, group: str) -> None:
    find_topic(store, topic)
    names = _names(store, topic)
    if group in names:
        return
    missing = Invalid(f"topic {topic!r} has no group {group!r}")
    near = difflib.get_close_matches(group, names, n=1)
    if near:
        missing.add_note(f"did you mean {near[0]!r}?")
    elif names:
        missing.add_note(f"`strandline group ls {topic}` lists its groups")
    else:
        missing.add_note("it has no groups: a group is created when its first member joins")
    raise missing


def _names(store: Store, topic: str) -> list[str]:
    exists = topic in store.topics(topic) and topic + OFFSETS in store.topics(topic)
    return store.groups.names(topic) if exists else []


def _row(store: Store, topic: str, group: str) -> OutputRow:
    numbers = store.groups.open(topic, group, {}).statistics()
    letters = f"{topic}:{group}{DEAD}"
    exists = letters in store.topics(letters)
    json: Json = {
        "topic": topic,
        "group": group,
        "done_through": numbers.floor,
        "head_seq": store.existing_topic(topic).head_seq,
        "lag": numbers.lag,
        "lost": numbers.lost,
        "deleted": numbers.deleted,
        "dead_letters": store.existing_topic(letters).statistics().count if exists else 0,
    }
    return fact_row(json)
