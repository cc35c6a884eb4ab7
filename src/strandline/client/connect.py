"""Connects to a served store. The client is imported on the first call."""

from __future__ import annotations

import ssl
from importlib import import_module
from typing import TYPE_CHECKING

from strandline.api.struct_warmup import warm_up

if TYPE_CHECKING:
    from strandline.client.asynchronous.store import AsyncStore
    from strandline.client.blocking.store import RemoteStore
    from strandline.client.settings import ClientSettings


def connect(
    url: str,
    *,
    token: str | None = None,
    verify: ssl.SSLContext | str | bool = True,
    settings: ClientSettings | None = None,
) -> RemoteStore:
    """The store of a server, with the methods of an embedded one: docs/guide/client.md.

    ``verify`` is a file of certificates that are trusted besides the usual ones, or a context.
    """
    store: RemoteStore = import_module("strandline.client.blocking.store").RemoteStore(
        url, token=token, verify=verify, settings=settings
    )
    warm_up()
    return store


def connect_async(
    url: str,
    *,
    token: str | None = None,
    verify: ssl.SSLContext | str | bool = True,
    settings: ClientSettings | None = None,
) -> AsyncStore:
    """The same for coroutines: every method is awaited."""
    store: AsyncStore = import_module("strandline.client.asynchronous.store").AsyncStore(
        url, token=token, verify=verify, settings=settings
    )
    warm_up()
    return store
