"""``strandline context``: names for stores and servers, so that commands need not repeat them."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from strandline.cli import context_file
from strandline.cli.context_file import Context, Contexts
from strandline.cli.options import PRINTED, Flag, Printed
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, Made, Row
from strandline.cli.output.output import output
from strandline.client.address import address_of
from strandline.client.credentials import checked_token
from strandline.errors import Invalid

app = App(name="context")

Name = Annotated[str, Parameter(metavar="NAME", help="Name of the context.")]


@app.command
def add(
    name: Name,
    /,
    *,
    store: Annotated[str, Parameter(metavar="DIR")] = "",
    url: Annotated[str, Parameter(metavar="URL")] = "",
    token_file: Annotated[str, Parameter(metavar="FILE")] = "",
    token_env: Annotated[str, Parameter(metavar="VARIABLE")] = "",
    keep_token: Flag = False,
    replace: Flag = False,
    use: Flag = False,
    printed: Printed = PRINTED,
) -> None:
    """Name a store or a server. The first one is used from then on.

    Parameters
    ----------
    store
        Directory of a store.
    url
        A server: http://HOST:PORT, https://HOST or http+unix:/PATH.
    token_file
        The file in which the token for it is found, every time.
    token_env
        The variable of the environment in which it is found.
    keep_token
        Read the token from stdin, or from --token-file, and keep it with the context.
    replace
        Give the name to this one, also when another has it.
    use
        Use it from now on.
    """
    context_file.check_name(name)
    known = context_file.load()
    if name in known.contexts and not replace:
        taken = Invalid(f"there is a context {name!r} already")
        taken.add_note("give another name, or --replace")
        raise taken
    made = _context(store, url, token_file, token_env, keep_token=keep_token)
    current = name if use or not known.current else known.current
    all_of_them = {**known.contexts, name: made}
    context_file.save(Contexts(current=current, contexts=all_of_them))
    output(printed.output).one(_row(name, made, current=current))


@app.command
def use(name: Name, /, *, printed: Printed = PRINTED) -> None:
    """Choose the context of all commands that name no other place."""
    known = context_file.load()
    found = known.named(name)
    context_file.save(msgspec.structs.replace(known, current=name))
    output(printed.output).one(_row(name, found, current=name))


@app.command(name="ls", alias="list")
def list_contexts(*, printed: Printed = PRINTED) -> None:
    """List the contexts; a star is at the one that is used."""
    known = context_file.load()
    out = output(printed.output)
    listed = sorted(known.contexts.items())
    out.rows([_row(name, each, current=known.current) for name, each in listed])
    out.end()


@app.command
def show(name: str | None = None, /, *, printed: Printed = PRINTED) -> None:
    """Show a context; where its token is, and never the token.

    Parameters
    ----------
    name
        Name of the context; without it the one that is used.
    """
    known = context_file.load()
    if name is None and not known.current:
        unused = Invalid("no context is used")
        unused.add_note("`strandline context use NAME` chooses one, `context add` makes one")
        raise unused
    wanted = name or known.current
    output(printed.output).one(_row(wanted, known.named(wanted), current=known.current))


@app.command(name="rm")
def remove(name: Name, /, *, printed: Printed = PRINTED) -> None:
    """Forget a context. What it named stays as it is."""
    known = context_file.load()
    gone = known.named(name)
    rest = {each: it for each, it in known.contexts.items() if each != name}
    current = "" if known.current == name else known.current
    context_file.save(Contexts(current=current, contexts=rest))
    output(printed.output).one(_row(name, gone, current=current))


def _context(store: str, url: str, token_file: str, token_env: str, *, keep_token: bool) -> Context:
    if bool(store) == bool(url):
        raise Invalid("a context is a directory or a server: give --store DIR or --url URL")
    if store:
        if token_file or token_env or keep_token:
            raise Invalid("a directory needs no token: leave out --token-… and --keep-token")
        return Context(store=os.path.abspath(store))
    address_of(url)
    if token_env and (token_file or keep_token):
        raise Invalid("a token is in a file or in a variable: give one of them")
    if token_env:
        return Context(url=url, token_env=token_env)
    if keep_token:
        return Context(url=url, token=_token(token_file))
    return Context(url=url, token_file=os.path.abspath(token_file) if token_file else "")


def _token(file: str) -> str:
    """A token to keep, which never stands on a command line: shells remember those."""
    if file:
        with open(file, encoding="ascii") as opened:
            text = opened.read()
    elif sys.stdin.isatty():
        raise Invalid("pipe the token to stdin, or name its file with --token-file")
    else:
        text = sys.stdin.read()
    return checked_token(text.strip()) or ""


def _row(name: str, context: Context, *, current: str) -> Row:
    json: Json = {
        "name": name,
        "current": name == current,
        "store": context.store or None,
        "url": context.url or None,
        "token": context.token_place or None,
    }
    place = context.url or context.store
    return Made(
        json,
        {
            "used": "*" if name == current else "",
            "name": name,
            "place": formatting.plain(place),
            "token": formatting.plain(context.token_place) if context.token_place else None,
        },
    )
