"""Where a command works: a directory here, or a server. The first that is given counts.

    flags           --context NAME, --store DIR, --url URL
    environment     STRANDLINE_CONTEXT, STRANDLINE_STORE, STRANDLINE_URL
    the context     that `strandline context use` has chosen
    the default     ./strandline-data

The token of a server: ``--token-file``; then the one of a context that was named; then
``STRANDLINE_TOKEN``; then the one of the current context. It is read when a connection is made,
and printed nowhere.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from strandline.cli import context_file
from strandline.cli.context_file import Context
from strandline.errors import Invalid

DEFAULT_STORE = "./strandline-data"
TOKEN_VARIABLE = "STRANDLINE_TOKEN"  # noqa: S105 - the name of a variable
_TOKEN_SIZE_MAX = 10_000


class Place(NamedTuple):
    """A directory, or a server with the ways to its token, the first that gives one."""

    store: str = ""
    url: str = ""
    said_by: str = ""
    """What named it, for messages."""
    tokens: tuple[Context, ...] = ()

    def token(self) -> str | None:
        """The text of the token, None where nobody says one."""
        for each in self.tokens:
            found = _token_of(each)
            if found:
                return found
        return None


def place_of(
    *,
    context: str | None = None,
    store: str | None = None,
    url: str | None = None,
    token_file: str | None = None,
) -> Place:
    """The place that flags, environment and contexts name."""
    given = Context(token_file=token_file or "")
    flags = {"--context": context, "--store": store, "--url": url}
    found = _said(flags, given)
    if found is None:
        names = ("STRANDLINE_CONTEXT", "STRANDLINE_STORE", "STRANDLINE_URL")
        found = _said({name: os.environ.get(name) or None for name in names}, given)
    if found is None:
        known = context_file.load()
        if known.current:
            ways = (given, Context(token_env=TOKEN_VARIABLE))
            found = _of_context(known.named(known.current), f"context {known.current!r}", ways)
    found = found or Place(store=DEFAULT_STORE, said_by="the default")
    if found.store and token_file:
        raise Invalid(f"--token-file is for a server, and {found.said_by} names a directory")
    return found


def _said(named: dict[str, str | None], given: Context) -> Place | None:
    """What one source says: a context, a directory or a URL, and not two of them."""
    said = {name: value for name, value in named.items() if value is not None}
    if len(said) > 1:
        error = Invalid(f"{' and '.join(said)} both say where to work: one of them is enough")
        error.add_note("a flag counts for more than a variable of the environment")
        raise error
    for name, value in said.items():
        if not value:
            raise Invalid(f"{name} is empty")
        kind = name.lower().rpartition("_")[2].removeprefix("--")
        if kind == "store":
            return Place(store=value, said_by=name)
        by_variable = Context(token_env=TOKEN_VARIABLE)
        if kind == "url":
            return Place(url=value, said_by=name, tokens=(given, by_variable))
        found = context_file.load().named(value)
        place = _of_context(found, f"context {value!r}", (given,))
        return place._replace(tokens=(*place.tokens, by_variable)) if place.url else place
    return None


def _of_context(context: Context, said_by: str, before: tuple[Context, ...]) -> Place:
    if context.url:
        return Place(url=context.url, said_by=said_by, tokens=(*before, context))
    return Place(store=context.store, said_by=said_by)


def _token_of(way: Context) -> str | None:
    if way.token_file:
        return _token_in(way.token_file)
    if way.token_env:
        found = os.environ.get(way.token_env, "").strip()
        if not found and way.token_env != TOKEN_VARIABLE:
            raise Invalid(f"the variable {way.token_env} should hold the token, and is not set")
        return found or None
    return way.token or None


def _token_in(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(_TOKEN_SIZE_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise Invalid(f"cannot read the token in {path}: {reason}") from None
    if not text:
        raise Invalid(f"there is no token in {path}: the file is empty")
    return text
