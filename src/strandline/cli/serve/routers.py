"""``strandline router``: manages routers, which forward records from topic to topic.

A router runs while a process has the store open for writing. Records that it has not forwarded when
that process ends are forwarded by the next.
"""

from __future__ import annotations

import dataclasses
import difflib
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from strandline.cli.open_store import is_served
from strandline.cli.open_view import open_to_write, run_query
from strandline.cli.options import VIEW_TARGET, ViewTarget
from strandline.cli.output.formatting import Json, OutputRow, fact_row
from strandline.cli.output.output import output
from strandline.errors import Invalid
from strandline.routers.routers import RouterStatistics
from strandline.store import Store

app = App(name="router")


@Parameter(name="*", group="How it forwards")
@dataclasses.dataclass(frozen=True, kw_only=True)
class _RouterOptions:
    """Options of a router."""

    preserve_tag: Annotated[bool, Parameter(help="Keep the records' tags.")] = True
    preserve_node: Annotated[bool, Parameter(help="Keep the records' nodes.")] = True
    create_dest: Annotated[bool, Parameter(help="Create the destination if it does not exist.")] = (
        True
    )
    allow_cycle: Annotated[
        bool, Parameter(help="Let routers form a cycle: a record is forwarded at most eight times.")
    ] = False


_OPTIONS = _RouterOptions()

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
    manner: _RouterOptions = _OPTIONS,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Create a router, or change one.

    Parameters
    ----------
    source
        Topic whose records are forwarded.
    dest
        Topic that they are forwarded into.
    tag
        Only records with this tag; `eu*` for tags with this prefix.
    exactly_once
        Forward each record exactly once, also after a crash.
    from_start
        Start with the oldest record instead of the next one.
    """
    with open_to_write(target) as store:
        store.routers.put(
            name,
            source=source,
            dest=dest,
            filter=tag,
            guarantee="exactly_once" if exactly_once else "at_least_once",
            start="earliest" if from_start else "latest",
            **dataclasses.asdict(manner),
        )
        if not is_served(store):  # a server runs its routers itself
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
    """List the routers with their lag.

    Parameters
    ----------
    prefix
        Only routers whose name begins with this.
    source
        Only routers from this topic.
    dest
        Only routers into this topic.
    """
    out = output(target.output)
    routers = run_query(target, lambda store: store.routers.list(prefix, source=source, dest=dest))
    out.rows([_row(each) for each in routers])
    out.end()


@app.command
def show(name: Name, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Show a router and its progress."""
    output(target.output).one(run_query(target, lambda store: _row(_existing(store, name))))


@app.command
def rm(name: Name, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Delete a router; records that it has forwarded stay."""
    with open_to_write(target) as store:
        _existing(store, name)
        store.routers.delete(name)


def _existing(store: Store, name: str) -> RouterStatistics:
    by_name = {each.router.name: each for each in store.routers.list()}
    if name in by_name:
        return by_name[name]
    missing = Invalid(f"there is no router {name!r}")
    near = difflib.get_close_matches(name, by_name, n=1)
    if near:
        missing.add_note(f"did you mean {near[0]!r}?")
    elif by_name:
        missing.add_note("`strandline router ls` lists the routers")
    raise missing


def _row(statistics: RouterStatistics) -> OutputRow:
    router = statistics.router
    json: Json = {
        "router": router.name,
        "source": router.source,
        "dest": router.dest,
        "filter": msgspec.to_builtins(router.filter),
        "guarantee": router.guarantee,
        "forwarded": statistics.forwarded_total,
        "lag": statistics.lag,
        "held": statistics.held,
    }
    return fact_row(json)
