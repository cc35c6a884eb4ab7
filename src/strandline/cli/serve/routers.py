"""``strandline router``: what forwards records from topic to topic.

A router works whenever some process has the store open for writing; what it has not forwarded when
that process ends is forwarded by the next.
"""

from __future__ import annotations

import dataclasses
import difflib
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from strandline.cli.open_store import is_served
from strandline.cli.open_view import look, writing
from strandline.cli.options import VIEW_TARGET, ViewTarget
from strandline.cli.output.formatting import Json, Row, fact_row
from strandline.cli.output.output import output
from strandline.errors import Invalid
from strandline.routers.routers import RouterStatistics
from strandline.store import Store

app = App(name="router")


@Parameter(name="*", group="How it forwards")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Manner:
    """What a router keeps, and makes."""

    preserve_tag: Annotated[bool, Parameter(help="Keep the records' tags.")] = True
    preserve_node: Annotated[bool, Parameter(help="Keep the records' nodes.")] = True
    create_dest: Annotated[bool, Parameter(help="Make the destination if there is none.")] = True
    allow_cycle: Annotated[
        bool, Parameter(help="Let routers form a circle: a record makes eight hops at most.")
    ] = False


_MANNER = Manner()

Name = Annotated[str, Parameter(metavar="ROUTER", help="Name of the router.")]


@app.command
def put(
    name: Name,
    source: str,
    dest: str,
    /,
    *,
    tag: str | None = None,
    exactly_once: bool = False,
    from_start: bool = False,
    manner: Manner = _MANNER,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Make a router, or change one.

    Parameters
    ----------
    source
        Topic whose records are forwarded.
    dest
        Topic that they are forwarded into.
    tag
        Only records with this tag; `eu*` for tags that begin so.
    exactly_once
        Forward no record twice, also after a crash.
    from_start
        Begin with the records that are there already.
    """
    with writing(target) as store:
        store.routers.put(
            name,
            source=source,
            dest=dest,
            filter=tag,
            guarantee="exactly_once" if exactly_once else "at_least_once",
            start="earliest" if from_start else "latest",
            **dataclasses.asdict(manner),
        )
        if not is_served(store):  # a server's routers run by themselves
            store.routers.run_once()
        output(target.output).one(_row(store.routers.get(name)))


@app.command
def ls(
    prefix: str = "",
    /,
    *,
    source: str | None = None,
    dest: str | None = None,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """List the routers, with how far behind they are.

    Parameters
    ----------
    prefix
        Only routers whose names begin so.
    source
        Only routers of this topic.
    dest
        Only routers into this topic.
    """
    out = output(target.output)
    found = look(target, lambda store: store.routers.list(prefix, source=source, dest=dest))
    out.rows([_row(each) for each in found])
    out.end()


@app.command
def show(name: Name, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Show a router and how far it has come."""
    output(target.output).one(look(target, lambda store: _row(_existing(store, name))))


@app.command
def rm(name: Name, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Delete a router; what it has forwarded stays."""
    with writing(target) as store:
        _existing(store, name)
        store.routers.delete(name)


def _existing(store: Store, name: str) -> RouterStatistics:
    found = {each.router.name: each for each in store.routers.list()}
    if name in found:
        return found[name]
    missing = Invalid(f"there is no router {name!r}")
    near = difflib.get_close_matches(name, found, n=1)
    if near:
        missing.add_note(f"did you mean {near[0]!r}?")
    elif found:
        missing.add_note("`strandline router ls` shows the routers")
    raise missing


def _row(found: RouterStatistics) -> Row:
    router = found.router
    json: Json = {
        "router": router.name,
        "source": router.source,
        "dest": router.dest,
        "filter": msgspec.to_builtins(router.filter),
        "guarantee": router.guarantee,
        "forwarded": found.forwarded_total,
        "lag": found.lag,
        "held": found.held,
    }
    return fact_row(json)
