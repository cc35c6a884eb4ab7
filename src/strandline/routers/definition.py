"""Definition of a router: source, destination, filter and guarantee. Pure.

    at_least_once   after a crash some records may be in the destination twice
    exactly_once    never twice: the destination accepts each batch number only once

In both cases no record is left out, and records keep the order of their source.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

import msgspec

from strandline.errors import Invalid
from strandline.records import check_topic_name
from strandline.routers.filters import RouterFilter, parse_filter

Guarantee = Literal["at_least_once", "exactly_once"]
Start = Literal["latest", "earliest"]

HOPS_MAX = 8
"""Maximum times that a record is forwarded within a circle of routers."""

ROUTERS_MAX = 10_000

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:>-]{0,254}")
_FLAGS = ("preserve_node", "preserve_tag", "create_dest", "allow_cycle")


class Router(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of a router. ``define`` creates one from options."""

    name: str
    source: str
    dest: str
    preserve_node: bool = True
    """Keep the node, so that a reader of the destination does not receive its own records."""
    preserve_tag: bool = True
    create_dest: bool = True
    """Create the destination if it does not exist, with the durability of the source."""
    filter: RouterFilter | None = None
    allow_cycle: bool = False
    """Allow routers to form a circle; a record is forwarded ``HOPS_MAX`` times at most."""
    guarantee: Guarantee = "at_least_once"
    start: Start = "latest"
    """Begin of a new router: after the existing records, or with the first of them."""


def define_router(name: object, options: dict[str, object]) -> Router:
    """Create the definition from options; raise Invalid with the name of a bad option."""
    for option in options:
        if option not in Router.__struct_fields__ or option == "name":
            known = ", ".join(Router.__struct_fields__[1:])
            raise Invalid(f"unknown router option {option!r}: known are {known}")
    check_router_name(name)
    for end in ("source", "dest"):
        if end not in options:
            raise Invalid(f"a router needs a {end}: name a topic")
        check_topic_name(options[end])  # type: ignore[arg-type]  # it raises Invalid for another type
    if options["source"] == options["dest"]:
        raise Invalid("a router's source and dest must be two topics")
    for flag in _FLAGS:
        if not isinstance(options.get(flag, False), bool):
            raise Invalid(f"router option {flag} is true or false, not {options[flag]!r}")
    _check_choice("guarantee", options, get_args(Guarantee))
    _check_choice("start", options, get_args(Start))
    fields = options | {"filter": parse_filter(options.get("filter"))}
    return msgspec.structs.replace(Router(name="", source="", dest=""), name=name, **fields)


def check_router_name(name: object) -> str:
    """Return the name; raise Invalid when it is not a valid router name."""
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
