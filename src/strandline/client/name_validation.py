"""Names of things that must be there, looked at before a server is asked for them. Pure.

A name that no topic can have is unknown, as an open store says it; only who makes one is told why.
"""

from __future__ import annotations

from strandline.errors import Invalid, UnknownTopic
from strandline.records import check_topic_name


def can_be(name: str) -> bool:
    """Whether a topic may have this name."""
    try:
        check_topic_name(name)
    except Invalid:
        return False
    return True


def known(name: str) -> str:
    """The name itself, UnknownTopic when no topic can have it."""
    if not can_be(name):
        raise UnknownTopic(f"there is no topic {name!r}: create it, or check the name")
    return name
