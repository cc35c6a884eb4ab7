"""``strandline view``: lists, creates, alters and rebuilds the views of a store, of any kind.

A view is derived from the log, so ``rebuild`` loses nothing and repairs any damage of a saved
view.
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
    ReadOnlyView,
    check_view_exists,
    open_to_read,
    open_to_write,
    reject_owned,
    run_query,
)
from strandline.cli.options import VIEW_TARGET, Flag, ViewTarget
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, OutputRow, PreparedRow, fact_row
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
        help="An option of the view, as in history=20; repeatable.",
    ),
]


@app.command(name="ls", alias="list")
def list_views(*, target: ViewTarget = VIEW_TARGET) -> None:
    """List the views of a store."""
    out = output(target.output)
    with open_to_read(target) as store:
        out.rows([_list_row(store, cast("Kind", kind), name) for kind, name in store.views.names()])
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
    """Create a view of a topic, and the topic and the store if they do not exist.

    The view is built from the records of the topic. From then on the topic keeps all records that
    the view needs: deletes, ttl and caps of the topic are rejected.

    Parameters
    ----------
    kind
        kv, queue, series, metrics or table.
    name
        Name of the topic, and of the view.
    durability
        Of a new topic: ephemeral, memory, disk (the default) or fsync.
    """
    options = _options(kind, option or [])
    if durability is not None:
        options["durability"] = durability
    with open_to_write(target, create=True) as store:
        with contextlib.suppress(UnknownTopic):
            reject_owned(name, store.existing_topic(name).config.views)
        view = _opened(store, kind, name, options)
        output(target.output).one(_facts(_details(store, kind, name, view)))


@app.command
def show(kind: Kind, name: str, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Show a view: its options, its saved position and its statistics.

    Parameters
    ----------
    kind
        kv, queue, series, metrics or table.
    name
        Name of the view.
    """
    with _view(kind, name, target) as reader:
        json = reader.run(lambda view: _details(reader.store, kind, name, view))
    notes = json["notes"]
    assert isinstance(notes, list)
    listed: list[OutputRow] = [PreparedRow({}, {"note": formatting.text(note)}) for note in notes]
    print_report(target.output, _facts(json), {"notes": listed})


@app.command
def alter(
    kind: Kind, name: str, /, *, option: Options = None, target: ViewTarget = VIEW_TARGET
) -> None:
    """Change options of a view, which rebuilds it.

    Parameters
    ----------
    kind
        kv, queue, series, metrics or table.
    name
        Name of the view.
    """
    options = _options(kind, option or [])
    if not options:
        known = ", ".join(load_kinds()[kind].config.__struct_fields__)
        raise Invalid(f"name an option to alter: --option NAME=VALUE, with one of {known}")
    with open_to_write(target) as store:
        check_view_exists(store, kind, name)
        store.views.alter(kind, name, **options)
        _save(store)
        output(target.output).one(_list_row(store, kind, name))


@app.command
def rebuild(
    kind: Kind | None = None,
    name: str | None = None,
    /,
    *,
    everything: Annotated[Flag, Parameter(name=["--all", "-a"])] = False,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Discard the saved state of a view, rebuild it from the log, and save it.

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
        raise Invalid("name the view to rebuild: KIND NAME, or --all")
    out = output(target.output)
    with open_to_write(target) as store:
        views = store.views.names() if everything else [(str(kind), str(name))]
        out.rows([_rebuild(store, cast("Kind", each), of) for each, of in views])
        _save(store)
    out.end()


@app.command
def digest(kind: Kind, name: str, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Print a checksum of the content of a view. A rebuild does not change it.

    Parameters
    ----------
    kind
        kv, queue, series, metrics or table.
    name
        Name of the view.
    """
    with _view(kind, name, target) as reader:
        json = reader.run(
            lambda _: {
                "kind": kind,
                "name": name,
                "head_seq": reader.store.existing_topic(name).head_seq,
                "digest": reader.store.views.digest(kind, name),
            }
        )
    output(target.output).one(fact_row(json))


@app.command
def memory(*, target: ViewTarget = VIEW_TARGET) -> None:
    """Open every view, and show how much of the memory budget they use.

    A process that opens fewer views uses less; one that writes may use more.
    """
    out = output(target.output)
    out.rows([_share_row(each) for each in run_query(target, _memory_of_all).values()])
    out.end()


def _memory_of_all(store: Store) -> dict[str, ShareUse]:
    if is_served(store):
        return store.views.memory()
    for kind, name in store.views.names():
        store.views.open(load_kinds()[kind], name, {})
    return store.views.memory()


def _view(kind: Kind, name: str, target: ViewTarget) -> ReadOnlyView[object]:
    def open_view(store: Store, name: str) -> object:
        return _opened(store, kind, name, {})

    return ReadOnlyView(target, kind, name, open_view)


def _opened(store: Store, kind: Kind, name: str, options: dict[str, object]) -> object:
    if is_served(store):
        return getattr(store, kind)(name, **options)
    return store.views.open(load_kinds()[kind], name, options)


def _save(store: Store) -> None:
    if not is_served(store):  # a server saves its views itself
        store.views.registry.save()


def _options(kind: Kind, texts: Sequence[str]) -> dict[str, object]:
    """Options from texts such as ``history=20``: a value is JSON if it parses, else text."""
    known = load_kinds()[kind].config.__struct_fields__
    options: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in known or name in options:
            wrong = Invalid(f"--option {text!r}: write each option once, as NAME=VALUE")
            wrong.add_note(f"a {kind} view has the options {', '.join(known)}")
            raise wrong
        try:
            options[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            options[name] = value.strip()
    return options


def _list_row(store: Store, kind: Kind, name: str) -> OutputRow:
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
    return PreparedRow(json, columns)


def _details(store: Store, kind: Kind, name: str, view: object) -> Json:
    if is_served(store):
        return _details_of_server(store, kind, name, view)
    runner = store.views.registry.host(kind, store.existing_topic(name))
    runner.catch_up()
    numbers = _statistics(view)
    return {
        "kind": kind,
        "name": name,
        "topics": [topic.name for topic in runner.topics],
        "records": [topic.statistics().count for topic in runner.topics],
        "head_seqs": [topic.head_seq for topic in runner.topics],
        "saved_seqs": list(runner.saved.applied),
        "options": formatting.jsonable(getattr(runner.topics[0].config.views, kind)),
        **numbers,
        "notes": list(store.views.registry.problems),
    }


def _details_of_server(store: Store, kind: Kind, name: str, view: object) -> Json:
    """A view of a server, which does not return its saved position."""
    topic = store.existing_topic(name).statistics()
    return {
        "kind": kind,
        "name": name,
        "topics": [name],
        "records": [topic.count],
        "head_seqs": [topic.head_seq],
        "options": formatting.jsonable(getattr(topic.config.views, kind)),
        **_statistics(view),
        "notes": [],
    }


def _statistics(view: object) -> Json:
    """The statistics of a view, if it has any."""
    statistics = getattr(view, "statistics", None)
    if statistics is None:
        return {}
    numbers = formatting.jsonable(statistics())
    assert isinstance(numbers, dict)
    return numbers


def _rebuild(store: Store, kind: Kind, name: str) -> OutputRow:
    check_view_exists(store, kind, name)
    started_at = time.monotonic()
    store.rebuild(kind, name)
    seconds = round(time.monotonic() - started_at, 3)
    json: Json = {
        "kind": kind,
        "name": name,
        "records": store.existing_topic(name).statistics().count,
        "seconds": seconds,
        "digest": store.views.digest(kind, name),
    }
    return fact_row(json)


def _share_row(use: ShareUse) -> OutputRow:
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


def _facts(json: Json) -> OutputRow:
    without_notes = {name: value for name, value in json.items() if name != "notes"}
    return PreparedRow(json, fact_row(without_notes).cells)
