"""The store that a command works on: a directory, or a server. The first source counts.

    flags           --context NAME, --store DIR, --url URL
    environment     STRANDLINE_CONTEXT, STRANDLINE_STORE, STRANDLINE_URL
    the context     chosen with `strandline context use`
    the default     ./strandline-data

The token of a server: ``--token-file``; then the token of a context that is named explicitly; then
``STRANDLINE_TOKEN``; then the token of the current context. It is read when a connection is opened,
and never printed.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from strandline.cli import context_file
from strandline.cli.context_file import ContextEntry
from strandline.errors import Invalid

DEFAULT_STORE = "./strandline-data"
TOKEN_VARIABLE = "STRANDLINE_TOKEN"  # noqa: S105 - the name of a variable
_TOKEN_SIZE_MAX = 10_000


class ResolvedTarget(NamedTuple):
    """A directory, or a server with the sources of its token; the first token found is used."""

    store: str = ""
    url: str = ""
    origin: str = ""
    """The flag, variable or context that named it, for messages."""
    tokens: tuple[ContextEntry, ...] = ()

    def token(self) -> str | None:
        """The text of the token, None without one."""
        for each in self.tokens:
            text = _token_of(each)
            if text:
                return text
        return None


def resolve_target(
    *,
    context: str | None = None,
    store: str | None = None,
    url: str | None = None,
    token_file: str | None = None,
) -> ResolvedTarget:
    """The target that flags, environment and contexts name."""
    flag_token = ContextEntry(token_file=token_file or "")
    flags = {"--context": context, "--store": store, "--url": url}
    place = _named_target(flags, flag_token)
    if place is None:
        names = ("STRANDLINE_CONTEXT", "STRANDLINE_STORE", "STRANDLINE_URL")
        place = _named_target({name: os.environ.get(name) or None for name in names}, flag_token)
    if place is None:
        contexts = context_file.load()
        if contexts.current:
            tokens = (flag_token, ContextEntry(token_env=TOKEN_VARIABLE))
            place = _of_context(
                contexts.find(contexts.current), f"context {contexts.current!r}", tokens
            )
    place = place or ResolvedTarget(store=DEFAULT_STORE, origin="the default")
    if place.store and token_file:
        raise Invalid(f"--token-file is for a server, and {place.origin} names a directory")
    return place


def _named_target(
    by_name: dict[str, str | None], flag_token: ContextEntry
) -> ResolvedTarget | None:
    """The target that one source names: a context, a directory or a URL; two are rejected."""
    values = {name: value for name, value in by_name.items() if value is not None}
    if len(values) > 1:
        error = Invalid(f"{' and '.join(values)} both name a target: give one of them")
        error.add_note("a flag takes precedence over an environment variable")
        raise error
    for name, value in values.items():
        if not value:
            raise Invalid(f"{name} is empty")
        kind = name.lower().rpartition("_")[2].removeprefix("--")
        if kind == "store":
            return ResolvedTarget(store=value, origin=name)
        by_variable = ContextEntry(token_env=TOKEN_VARIABLE)
        if kind == "url":
            return ResolvedTarget(url=value, origin=name, tokens=(flag_token, by_variable))
        context = context_file.load().find(value)
        place = _of_context(context, f"context {value!r}", (flag_token,))
        return place._replace(tokens=(*place.tokens, by_variable)) if place.url else place
    return None


def _of_context(
    context: ContextEntry, origin: str, before: tuple[ContextEntry, ...]
) -> ResolvedTarget:
    if context.url:
        return ResolvedTarget(url=context.url, origin=origin, tokens=(*before, context))
    return ResolvedTarget(store=context.store, origin=origin)


def _token_of(source: ContextEntry) -> str | None:
    if source.token_file:
        return _token_in(source.token_file)
    if source.token_env:
        text = os.environ.get(source.token_env, "").strip()
        if not text and source.token_env != TOKEN_VARIABLE:
            raise Invalid(f"the variable {source.token_env} should hold the token, but is not set")
        return text or None
    return source.token or None


def _token_in(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(_TOKEN_SIZE_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Invalid(f"cannot read the token in {path}: {reason}") from None
    if not text:
        raise Invalid(f"there is no token in {path}: the file is empty")
    return text
