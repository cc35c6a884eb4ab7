"""``strandline context``: names for stores and servers, instead of a path in each command."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from strandline.cli import context_file
from strandline.cli.context_file import ContextEntry, ContextFile
from strandline.cli.options import DEFAULT_OUTPUT, Flag, OutputOptions
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, OutputRow, PreparedRow
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
    printed: OutputOptions = DEFAULT_OUTPUT,
) -> None:
    """Name a store or a server. The first context becomes the current one.

    Parameters
    ----------
    store
        Directory of a store.
    url
        A server: http://HOST:PORT, https://HOST or http+unix:/PATH.
    token_file
        File with the token; it is read at each connection.
    token_env
        Environment variable with the token.
    keep_token
        Read the token from stdin, or from --token-file, and store it in the contexts file.
    replace
        Replace a context of the same name.
    use
        Make it the current context.
    """
    context_file.check_name(name)
    contexts = context_file.load()
    if name in contexts.contexts and not replace:
        exists = Invalid(f"there is a context {name!r} already")
        exists.add_note("give another name, or --replace")
        raise exists
    context = _context(store, url, token_file, token_env, keep_token=keep_token)
    current = name if use or not contexts.current else contexts.current
    entries = {**contexts.contexts, name: context}
    context_file.save(ContextFile(current=current, contexts=entries))
    output(printed.output).one(_row(name, context, current=current))


@app.command
def use(name: Name, /, *, printed: OutputOptions = DEFAULT_OUTPUT) -> None:
    """Make a context the current one, for commands that name no store or server."""
    contexts = context_file.load()
    context = contexts.find(name)
    context_file.save(msgspec.structs.replace(contexts, current=name))
    output(printed.output).one(_row(name, context, current=name))


@app.command(name="ls", alias="list")
def list_contexts(*, printed: OutputOptions = DEFAULT_OUTPUT) -> None:
    """List the contexts; a star marks the current one."""
    contexts = context_file.load()
    out = output(printed.output)
    listed = sorted(contexts.contexts.items())
    out.rows([_row(name, each, current=contexts.current) for name, each in listed])
    out.end()


@app.command
def show(name: str | None = None, /, *, printed: OutputOptions = DEFAULT_OUTPUT) -> None:
    """Show a context and the source of its token, without the token.

    Parameters
    ----------
    name
        Name of the context. Default: the current one.
    """
    contexts = context_file.load()
    if name is None and not contexts.current:
        missing = Invalid("there is no current context")
        missing.add_note("`strandline context use NAME` chooses one, `context add` adds one")
        raise missing
    chosen = name or contexts.current
    output(printed.output).one(_row(chosen, contexts.find(chosen), current=contexts.current))


@app.command(name="rm")
def remove(name: Name, /, *, printed: OutputOptions = DEFAULT_OUTPUT) -> None:
    """Remove a context. Its store or server is not changed."""
    contexts = context_file.load()
    removed = contexts.find(name)
    rest = {each: it for each, it in contexts.contexts.items() if each != name}
    current = "" if contexts.current == name else contexts.current
    context_file.save(ContextFile(current=current, contexts=rest))
    output(printed.output).one(_row(name, removed, current=current))


def _context(
    store: str, url: str, token_file: str, token_env: str, *, keep_token: bool
) -> ContextEntry:
    if bool(store) == bool(url):
        raise Invalid("a context is a directory or a server: give --store DIR or --url URL")
    if store:
        if token_file or token_env or keep_token:
            raise Invalid("a directory needs no token: leave out --token-… and --keep-token")
        return ContextEntry(store=os.path.abspath(store))
    address_of(url)
    if token_env and (token_file or keep_token):
        raise Invalid("the token is in a file or in a variable: give one of them")
    if token_env:
        return ContextEntry(url=url, token_env=token_env)
    if keep_token:
        return ContextEntry(url=url, token=_token(token_file))
    return ContextEntry(url=url, token_file=os.path.abspath(token_file) if token_file else "")


def _token(file: str) -> str:
    """The token to store. It is never an argument, because shells store command lines."""
    if file:
        with open(file, encoding="ascii") as opened:
            text = opened.read()
    elif sys.stdin.isatty():
        raise Invalid("pipe the token to stdin, or name its file with --token-file")
    else:
        text = sys.stdin.read()
    return checked_token(text.strip()) or ""


def _row(name: str, context: ContextEntry, *, current: str) -> OutputRow:
    json: Json = {
        "name": name,
        "current": name == current,
        "store": context.store or None,
        "url": context.url or None,
        "token": context.token_source or None,
    }
    location = context.url or context.store
    return PreparedRow(
        json,
        {
            "used": "*" if name == current else "",
            "name": name,
            "place": formatting.plain(location),
            "token": formatting.plain(context.token_source) if context.token_source else None,
        },
    )
