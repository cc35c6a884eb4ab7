"""Routers on the wire: requests and responses."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Condition = str | Annotated[list[str | list[str]], Meta(min_length=3, max_length=3)]
"""``["tag","Eq",X]``, ``["tag","Glob","X*"]``, ``["tag","In",[X,Y]]``, or ``"X"``; also for node
and key."""

Guarantee = Literal["at_least_once", "exactly_once"]
Start = Literal["latest", "earliest"]


class RouterOptions(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Options of a router to create or change."""

    source: str
    dest: str
    preserve_node: bool = True
    preserve_tag: bool = True
    create_dest: bool = True
    filter: Condition | None = None
    allow_cycle: bool = False
    guarantee: Guarantee = "at_least_once"
    start: Start = "latest"
    """Where a new router begins: after the existing records, or with the first of them."""


class RouterPut(msgspec.Struct, kw_only=True):
    """A router after the request, and whether it was created."""

    router: str
    created: bool
    source: str
    dest: str
    preserve_node: bool
    preserve_tag: bool
    create_dest: bool
    filter: Condition | None
    allow_cycle: bool
    guarantee: Guarantee
    start: Start


class RouterState(msgspec.Struct, kw_only=True):
    """A router and its progress."""

    router: str
    source: str
    dest: str
    preserve_node: bool
    preserve_tag: bool
    create_dest: bool
    filter: Condition | None
    allow_cycle: bool
    guarantee: Guarantee
    start: Start
    cursor: int
    """The seq of the source up to which all records were processed."""
    lag: int
    """Number of seqs of the source after the cursor."""
    forwarded_total: int
    held: str | None
    """Why forwarding is paused, null when it is not."""


class RouterLine(msgspec.Struct, kw_only=True):
    """A router in a list."""

    router: str
    source: str
    dest: str
    guarantee: Guarantee
    forwarded_total: int
    lag: int


class RoutersQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Selects the routers to list."""

    prefix: str = ""
    source: str | None = None
    dest: str | None = None
    page_size: Annotated[int, Meta(ge=1)] = 100
    cursor: str = ""


class RouterList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of routers; ``next_cursor`` is set when there are more."""

    routers: list[RouterLine]
    next_cursor: str | UnsetType = UNSET


class RouterDeleted(msgspec.Struct, kw_only=True):
    """Whether the router existed."""

    router: str
    deleted: bool
