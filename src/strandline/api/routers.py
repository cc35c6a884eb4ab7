"""Routers on the wire: what is asked for, and what is answered."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Condition = str | Annotated[list[str | list[str]], Meta(min_length=3, max_length=3)]
"""``["tag","Eq",X]``, ``["tag","Glob","X*"]``, ``["tag","In",[X,Y]]``, or ``"X"``; also of node and
key."""

Guarantee = Literal["at_least_once", "exactly_once"]
Start = Literal["latest", "earliest"]


class RouterOptions(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A router to be made or changed."""

    source: str
    dest: str
    preserve_node: bool = True
    preserve_tag: bool = True
    create_dest: bool = True
    filter: Condition | None = None
    allow_cycle: bool = False
    guarantee: Guarantee = "at_least_once"
    start: Start = "latest"
    """Where a new router begins: behind the records that are there, or with the first of them."""


class RouterPut(msgspec.Struct, kw_only=True):
    """A router as it is now, and whether there was none of the name."""

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
    """A router and how far it has come."""

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
    """The seq of the source up to which everything was looked at."""
    lag: int
    """How many seqs of the source lie behind the cursor."""
    forwarded_total: int
    held: str | None
    """Why it cannot go on for now, null when it can."""


class RouterLine(msgspec.Struct, kw_only=True):
    """A router in a list."""

    router: str
    source: str
    dest: str
    guarantee: Guarantee
    forwarded_total: int
    lag: int


class RoutersQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which routers to list."""

    prefix: str = ""
    source: str | None = None
    dest: str | None = None
    page_size: Annotated[int, Meta(ge=1)] = 100
    cursor: str = ""


class RouterList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of routers; with ``next_cursor`` there are more."""

    routers: list[RouterLine]
    next_cursor: str | UnsetType = UNSET


class RouterDeleted(msgspec.Struct, kw_only=True):
    """Whether there was such a router."""

    router: str
    deleted: bool
