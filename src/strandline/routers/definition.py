"""What a router is: from where, to where, which records, and with what promise. Pure.

    at_least_once   after a crash some records may be in the destination twice
    exactly_once    never twice: batches carry numbers that the destination takes once, for good

Either way nothing is left out, and records keep the order of their source.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

import msgspec

from strandline.errors import Invalid
from strandline.records import check_topic_name
from strandline.routers.filters import Filter, parse

Guarantee = Literal["at_least_once", "exactly_once"]
Start = Literal["latest", "earliest"]

HOPS_MAX = 8
"""How often a record may be forwarded where routers form a circle."""

ROUTERS_MAX = 10_000

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:>-]{0,254}")
_FLAGS = ("preserve_node", "preserve_tag", "create_dest", "allow_cycle")


class Router(msgspec.Struct, frozen=True, kw_only=True):
    """A definition. ``define`` makes one of what a caller gave."""

    name: str
    source: str
    dest: str
    preserve_node: bool = True
    """Keep the node, so that a reader of the destination is spared its own records there, too."""
    preserve_tag: bool = True
    create_dest: bool = True
    """Make the destination if there is none, as durable as the source."""
    filter: Filter | None = None
    allow_cycle: bool = False
    """Let routers form a circle; a record goes ``HOPS_MAX`` times round at most."""
    guarantee: Guarantee = "at_least_once"
    start: Start = "latest"
    """Where a new router begins: behind the records that are there, or with the first of them."""


def define(name: object, options: dict[str, object]) -> Router:
    """The router that these options describe, or a clear error that names the bad one."""
    for option in options:
        if option not in Router.__struct_fields__ or option == "name":
            known = ", ".join(Router.__struct_fields__[1:])
            raise Invalid(f"unknown router option {option!r}: known are {known}")
    check_router_name(name)
    for end in ("source", "dest"):
        if end not in options:
            raise Invalid(f"a router needs a {end}: name a topic")
        check_topic_name(options[end])  # type: ignore[arg-type]  # it says so when it is no text
    if options["source"] == options["dest"]:
        raise Invalid("a router's source and dest are two topics")
    for flag in _FLAGS:
        if not isinstance(options.get(flag, False), bool):
            raise Invalid(f"router option {flag} is true or false, not {options[flag]!r}")
    _check_choice("guarantee", options, get_args(Guarantee))
    _check_choice("start", options, get_args(Start))
    given = options | {"filter": parse(options.get("filter"))}
    return msgspec.structs.replace(Router(name="", source="", dest=""), name=name, **given)


def check_router_name(name: object) -> str:
    """The name itself when it may name a router."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} cannot name a router: use 1 to 255 of A-Z a-z 0-9 . _ : > - and begin with "
            "a letter or digit"
        )
    return name


def _check_choice(option: str, options: dict[str, object], choices: tuple[str, ...]) -> None:
    value = options.get(option, choices[0])
    if value not in choices:
        raise Invalid(f"router option {option} is {' or '.join(choices)}, not {value!r}")
