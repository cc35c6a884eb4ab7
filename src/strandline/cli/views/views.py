"""``strandline view``: the views of a store, whatever their kind.

A view can always be thrown away and folded again from the log. So ``rebuild`` loses nothing, and
is the cure for all that may be wrong with saved views.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Annotated, cast

import msgspec
from cyclopts import App, Parameter

from strandline.cli.open_store import is_served
from strandline.cli.open_view import (
    Kind,
    Looking,
    look,
    must_have,
    open_to_read,
    refuse_owned,
    writing,
)
from strandline.cli.options import VIEW_TARGET, Flag, ViewTarget
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, Made, Row, fact_row
from strandline.cli.output.output import output, print_report
from strandline.config.memory_budget import RESERVE, ShareUse
from strandline.config.settings import Durability
from strandline.errors import Invalid, UnknownTopic
from strandline.store import Store
from strandline.views.lazy import load_kinds

app = App(name="view")

Options = Annotated[
    list[str] | None,
    Parameter(
        name="--option",
        metavar="NAME=VALUE",
        negative="",
        help="An option of the view, as history=20; one for each.",
    ),
]


@app.command(name="ls", alias="list")
def list_views(*, target: ViewTarget = VIEW_TARGET) -> None:
    """List the views of a store."""
    out = output(target.output)
    with open_to_read(target) as store:
        out.rows([_listed(store, cast("Kind", kind), name) for kind, name in store.views.names()])
    out.end()


@app.command
def create(
    kind: Kind,
    name: str,
    /,
    *,
    option: Options = None,
    durability: Durability | None = None,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Give a topic a view, and make the topic and the store if there are none.

    What a topic has is folded in. From then on it keeps all records that the view needs: its own
    deletes, ttl and caps are refused.

    Parameters
    ----------
    kind
        kv, queue, series, metrics or table.
    name
        Name of the topic, which is the view's name, too.
    durability
        For a topic that is new: ephemeral, memory, disk (the default) or fsync.
    """
    given = _options(kind, option or [])
    if durability is not None:
        given["durability"] = durability
    with writing(target, create=True) as store:
        with contextlib.suppress(UnknownTopic):
            refuse_owned(name, store.existing_topic(name).config.views)
        view = _opened(store, kind, name, given)
        output(target.output).one(_facts(_shown(store, kind, name, view)))


@app.command
def show(kind: Kind, name: str, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Show a view: its options, how far it is saved, and its numbers.

    Parameters
    ----------
    kind
        kv, queue, series, metrics or table.
    name
        Name of the view.
    """
    with _looking(kind, name, target) as looking:
        json = looking.ask(lambda view: _shown(looking.store, kind, name, view))
    notes = json["notes"]
    assert isinstance(notes, list)
    listed: list[Row] = [Made({}, {"note": formatting.text(note)}) for note in notes]
    print_report(target.output, _facts(json), {"notes": listed})


@app.command
def alter(
    kind: Kind, name: str, /, *, option: Options = None, target: ViewTarget = VIEW_TARGET
) -> None:
    """Change options of a view; it is folded again with them.

    Parameters
    ----------
    kind
        kv, queue, series, metrics or table.
    name
        Name of the view.
    """
    given = _options(kind, option or [])
    if not given:
        known = ", ".join(load_kinds()[kind].config.__struct_fields__)
        raise Invalid(f"say what to alter: --option NAME=VALUE, with one of {known}")
    with writing(target) as store:
        must_have(store, kind, name)
        store.views.alter(kind, name, **given)
        _save(store)
        output(target.output).one(_listed(store, kind, name))


@app.command
def rebuild(
    kind: Kind | None = None,
    name: str | None = None,
    /,
    *,
    everything: Annotated[Flag, Parameter(name=["--all", "-a"])] = False,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Throw the saved state of a view away, fold the log again, and save it.

    Parameters
    ----------
    kind
        kv, queue, series, metrics or table.
    name
        Name of the view.
    everything
        All views of the store.
    """
    if everything == (kind is not None and name is not None) or (everything and kind is not None):
        raise Invalid("say what to rebuild: KIND NAME, or --all")
    out = output(target.output)
    with writing(target) as store:
        views = store.views.names() if everything else [(str(kind), str(name))]
        out.rows([_rebuilt(store, cast("Kind", each), of) for each, of in views])
        _save(store)
    out.end()


@app.command
def digest(kind: Kind, name: str, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Print a checksum of all that can be seen of a view: the same before and after a rebuild.

    Parameters
    ----------
    kind
        kv, queue, series, metrics or table.
    name
        Name of the view.
    """
    with _looking(kind, name, target) as looking:
        json = looking.ask(
            lambda _: {
                "kind": kind,
                "name": name,
                "head_seq": looking.store.existing_topic(name).head_seq,
                "digest": looking.store.views.digest(kind, name),
            }
        )
    output(target.output).one(fact_row(json))


@app.command
def memory(*, target: ViewTarget = VIEW_TARGET) -> None:
    """Open every view, and show how much of the memory budget they take then.

    A process that uses few of them takes less, one that writes may take more.
    """
    out = output(target.output)
    out.rows([_share(each) for each in look(target, _memory_of_all).values()])
    out.end()


def _memory_of_all(store: Store) -> dict[str, ShareUse]:
    if is_served(store):
        return store.views.memory()
    for kind, name in store.views.names():
        store.views.open(load_kinds()[kind], name, {})
    return store.views.memory()


def _looking(kind: Kind, name: str, target: ViewTarget) -> Looking[object]:
    def open_view(store: Store, name: str) -> object:
        return _opened(store, kind, name, {})

    return Looking(target, kind, name, open_view)


def _opened(store: Store, kind: Kind, name: str, options: dict[str, object]) -> object:
    if is_served(store):
        return getattr(store, kind)(name, **options)
    return store.views.open(load_kinds()[kind], name, options)


def _save(store: Store) -> None:
    if not is_served(store):  # a server saves its views by itself
        store.views.shelf.save()


def _options(kind: Kind, given: Sequence[str]) -> dict[str, object]:
    """Options from texts such as ``history=20``: what reads as JSON is that, the rest is text."""
    known = load_kinds()[kind].config.__struct_fields__
    options: dict[str, object] = {}
    for text in given:
        name, sign, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or name not in known or name in options:
            wrong = Invalid(f"--option {text!r}: write each option once, as NAME=VALUE")
            wrong.add_note(f"a {kind} view has the options {', '.join(known)}")
            raise wrong
        try:
            options[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            options[name] = value.strip()
    return options


def _listed(store: Store, kind: Kind, name: str) -> Row:
    topic = store.existing_topic(name)
    statistics = topic.statistics()
    json: Json = {
        "kind": kind,
        "name": name,
        "records": statistics.count,
        "head_seq": statistics.head_seq,
        "payload_bytes": statistics.payload_bytes,
        "options": formatting.jsonable(getattr(topic.config.views, kind)),
    }
    columns = {
        "kind": kind,
        "name": name,
        "records": str(statistics.count),
        "head": str(statistics.head_seq),
        "size": formatting.size(statistics.payload_bytes),
        "options": formatting.text(json["options"]),
    }
    return Made(json, columns)


def _shown(store: Store, kind: Kind, name: str, view: object) -> Json:
    if is_served(store):
        return _shown_by_server(store, kind, name, view)
    host = store.views.shelf.host(kind, store.existing_topic(name))
    host.catch_up()
    numbers = _numbers(view)
    return {
        "kind": kind,
        "name": name,
        "topics": [topic.name for topic in host.topics],
        "records": [topic.statistics().count for topic in host.topics],
        "head_seqs": [topic.head_seq for topic in host.topics],
        "saved_seqs": list(host.saved.applied),
        "options": formatting.jsonable(getattr(host.topics[0].config.views, kind)),
        **numbers,
        "notes": list(store.views.shelf.complaints),
    }


def _shown_by_server(store: Store, kind: Kind, name: str, view: object) -> Json:
    """What a server tells: not how far it has saved the view."""
    topic = store.existing_topic(name).statistics()
    return {
        "kind": kind,
        "name": name,
        "topics": [name],
        "records": [topic.count],
        "head_seqs": [topic.head_seq],
        "options": formatting.jsonable(getattr(topic.config.views, kind)),
        **_numbers(view),
        "notes": [],
    }


def _numbers(view: object) -> Json:
    """What a view says of itself, if it does."""
    statistics = getattr(view, "statistics", None)
    if statistics is None:
        return {}
    numbers = formatting.jsonable(statistics())
    assert isinstance(numbers, dict)
    return numbers


def _rebuilt(store: Store, kind: Kind, name: str) -> Row:
    must_have(store, kind, name)
    begun = time.monotonic()
    store.rebuild(kind, name)
    seconds = round(time.monotonic() - begun, 3)
    json: Json = {
        "kind": kind,
        "name": name,
        "records": store.existing_topic(name).statistics().count,
        "seconds": seconds,
        "digest": store.views.digest(kind, name),
    }
    return fact_row(json)


def _share(use: ShareUse) -> Row:
    is_reserve = use.name == RESERVE
    columns = {
        "share": use.name,
        "limit": formatting.size(use.limit),
        "used": formatting.size(use.used),
        "borrowed": None if is_reserve or not use.borrowed else formatting.size(use.borrowed),
        "evictions": str(use.evictions) if use.evictions else None,
        "refusals": str(use.refusals) if use.refusals else None,
    }
    return formatting.row_of(use, columns)


def _facts(json: Json) -> Row:
    without_notes = {name: it for name, it in json.items() if name != "notes"}
    return Made(json, fact_row(without_notes).cells)
