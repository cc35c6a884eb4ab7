"""Validates names of topics that must exist, before a request is sent. Pure.

A name that no topic can have is an unknown topic, as in an embedded store; only a request that
creates a topic reports why the name is invalid.
"""

from __future__ import annotations

from strandline.errors import Invalid, UnknownTopic
from strandline.records import check_topic_name


def is_possible_name(name: str) -> bool:
    """Whether a topic may have this name."""
    try:
        check_topic_name(name)
    except Invalid:
        return False
    return True


def check_possible_name(name: str) -> str:
    """The name itself; UnknownTopic when no topic can have it."""
    if not is_possible_name(name):
        raise UnknownTopic(f"there is no topic {name!r}: create it, or check the name")
    return name
